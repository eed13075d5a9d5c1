# SPDX-License-Identifier: Apache-2.0
"""The web app of people who are faster than the page, or than the network."""

import asyncio
import re
from typing import Final

import pytest
from playwright.async_api import Route, expect

from tests.browser.held import held
from tests.browser.test_account import on_the_clock, ways_to_send
from tests.browser.test_attachments import HUM, a_file
from tests.browser.test_conversations import choose, make_long_chat
from tests.browser.test_inbox import open_panel, post
from tests.browser.test_replies import make_group
from tests.browser.visitors import Visitors
from tests.browser.web_app import RUN_WHAT_IS_DUE, TICKS, WebApp, sign_in
from tests.support.server import ServerProcess
from tests.support.waiting import until

ELEMENT: Final = "document.querySelector('tidings-chat')"
COUNT_MICROPHONES: Final = """() => {
  const { mediaDevices } = navigator;
  const get = mediaDevices.getUserMedia.bind(mediaDevices);
  window.microphones = [];
  mediaDevices.getUserMedia = async (wish) => {
    const stream = await get(wish);
    window.microphones.push(stream.getTracks()[0]);
    return stream;
  };
}"""
GO_AND_WRITE: Final = """(sequence) => {
  const element = document.querySelector("tidings-chat");
  void element.goTo(sequence);
  const field = element.shadowRoot.activeElement;
  field.value = "As it is";
  field.dispatchEvent(new InputEvent("input"));
}"""
CLOSES_SILENTLY: Final = """(dialog) => {
  const stop = (event) => event.stopImmediatePropagation();
  dialog.addEventListener("close", stop, { capture: true });
}"""
TAKE_WAITING: Final = """() => {
  const { setTimeout, clearTimeout } = window;
  window.waiting = new Map();
  window.setTimeout = (work, ms, ...all) => {
    const timer = setTimeout(ms === 5000 ? () => {} : work, ms, ...all);
    if (ms === 5000) window.waiting.set(timer, work);
    return timer;
  };
  window.clearTimeout = (timer) => {
    window.waiting.delete(timer);
    clearTimeout(timer);
  };
}"""


async def chat_id(app: WebApp, title: str) -> str:
    """The id of a chat, which is open afterwards."""
    await app.open(title)
    return str(await app.page.evaluate(f"{ELEMENT}.chat"))


async def test_what_is_typed_for_one_chat_never_gets_to_another(
    visitors: Visitors, demo: ServerProcess
) -> None:
    await make_group(demo, "Reading")
    alice = await sign_in(visitors, demo.url, "Alice")
    bob = await chat_id(alice, "Bob")
    await alice.open("Reading")
    await alice.box.fill("Only for readers")
    await alice.holds_frames()
    await alice.page.evaluate(f"(chat) => {ELEMENT}.open(chat)", bob)
    await alice.page.keyboard.type("!")
    await alice.page.keyboard.press("Enter")
    await alice.lets_frames_go()
    await expect(alice.heading("Bob")).to_be_visible()
    await expect(alice.box).to_have_value("")
    await alice.open("Reading")
    await expect(alice.box).to_have_value("Only for readers!")
    await alice.box.fill("")


async def test_an_edit_that_was_left_is_no_new_message(
    visitors: Visitors, demo: ServerProcess
) -> None:
    await make_group(demo, "Editors")
    alice = await sign_in(visitors, demo.url, "Alice")
    await alice.open("Editors")
    await choose(alice, "Who brings the cake?", "Edit")
    await expect(alice.box).to_have_value("Who brings the cake?")
    await alice.holds_frames()
    await alice.box.press("Escape")
    await alice.page.keyboard.press("Enter")
    await alice.lets_frames_go()
    await expect(alice.box).to_have_value("")
    await expect(alice.message("Who brings the cake?")).to_have_count(1)


async def test_a_menu_gives_way_to_the_next_and_closes_with_its_button(
    visitors: Visitors, demo: ServerProcess
) -> None:
    await make_group(demo, "Cooks")
    alice = await sign_in(visitors, demo.url, "Alice")
    await alice.open("Cooks")
    await alice.send("I do, then")
    menu = alice.page.get_by_role("menu")
    buttons = [
        alice.row(text).get_by_role("button", name="Actions", exact=True)
        for text in ("Who brings the cake?", "I do, then")
    ]
    await expect(alice.row("I do, then").get_by_role("img", name=TICKS)).to_be_visible()
    for button in buttons:
        # What is open covers the others, but not for a pointer.
        await button.click(force=True)
        await expect(menu).to_be_visible()
    await buttons[1].click(force=True)
    await expect(menu).to_have_count(0)

    await buttons[1].press("Enter")
    await expect(menu).to_be_visible()
    await alice.holds_frames()
    await alice.page.keyboard.press("Escape")
    await alice.page.evaluate(RUN_WHAT_IS_DUE)
    await alice.page.keyboard.press("Enter")
    await alice.lets_frames_go()
    await expect(menu).to_be_visible()
    await alice.page.get_by_role("menuitem", name="Reply", exact=True).click()
    await expect(alice.page.get_by_text("Replying to Alice · I do, then")).to_be_visible()


async def test_a_dialog_that_was_closed_opens_again_at_once(
    visitors: Visitors, demo: ServerProcess
) -> None:
    carol = await sign_in(visitors, demo.url, "Carol")
    dialog = carol.page.get_by_role("dialog")
    await carol.button("New chat").click()
    await expect(dialog).to_be_visible()
    await carol.holds_frames()
    await carol.page.keyboard.press("Escape")
    await carol.page.evaluate(RUN_WHAT_IS_DUE)
    await carol.page.keyboard.press("Enter")  # the button has the focus again
    await carol.lets_frames_go()
    await expect(dialog).to_be_visible()


async def test_a_message_that_was_deleted_twice_is_saved_by_one_undo(
    visitors: Visitors, demo: ServerProcess
) -> None:
    await make_group(demo, "Undecided")
    alice = await sign_in(visitors, demo.url, "Alice")
    await alice.open("Undecided")
    row = alice.row("Who brings the cake?")
    await expect(row).to_be_visible()
    await alice.page.evaluate(TAKE_WAITING)
    for _ in range(2):
        await alice.page.evaluate(f"{ELEMENT}.redact(2)")
    assert await alice.page.evaluate("window.waiting.size") == 1
    await alice.button("Undo").click()
    assert await alice.page.evaluate("window.waiting.size") == 0


async def test_a_group_is_made_once(visitors: Visitors, demo: ServerProcess) -> None:
    bob = await sign_in(visitors, demo.url, "Bob")
    await bob.button("New group").click()
    dialog = bob.page.get_by_role("dialog")
    name = dialog.get_by_role("textbox", name="Name", exact=True)
    await name.fill("Only once")
    async with held(bob.page, "POST", "**/v1/chats") as made:
        await name.press("Enter")
        await name.press("Enter")
        await until(lambda: made.urls)
        made.release()
        await expect(bob.heading("Only once")).to_be_visible()
        assert len(made.urls) == 1


async def test_an_answer_that_comes_late_takes_nobody_away(
    visitors: Visitors, demo: ServerProcess
) -> None:
    bob = await sign_in(visitors, demo.url, "Bob")
    await bob.button("New group").click()
    name = bob.page.get_by_role("dialog").get_by_role("textbox", name="Name", exact=True)
    await name.fill("Made slowly")
    async with held(bob.page, "POST", "**/v1/chats") as made:
        await name.press("Enter")
        await until(lambda: made.urls)
        await bob.page.keyboard.press("Escape")
        await bob.open("Lunch")
        await bob.box.press_sequentially("As I")
        made.release()
        await expect(bob.chat("Made slowly")).to_be_visible()
        await bob.page.evaluate(RUN_WHAT_IS_DUE)
    await expect(bob.heading("Lunch")).to_be_visible()
    await expect(bob.box).to_be_focused()

    async with held(bob.page, "POST", "**/v1/chats") as made:
        await bob.page.evaluate(f"() => void {ELEMENT}.begin('carol')")
        await until(lambda: made.urls)
        await bob.box.press_sequentially(" said")
        async with bob.page.expect_response("**/v1/chats"):
            made.release()
        await bob.page.evaluate(RUN_WHAT_IS_DUE)
    await expect(bob.heading("Lunch")).to_be_visible()
    await expect(bob.box).to_have_value("As I said")
    await bob.box.fill("")


async def test_what_is_written_while_another_message_is_scheduled_stays(
    visitors: Visitors, demo: ServerProcess
) -> None:
    await make_group(demo, "Later on")
    bob = await sign_in(visitors, demo.url, "Bob", timezone_id="UTC")
    await bob.open("Later on")
    await bob.box.fill("See you")
    dialog = await ways_to_send(bob, "Send later …")
    await dialog.get_by_label("Send at", exact=True).fill(on_the_clock(48))
    async with held(bob.page, "POST", "**/messages") as scheduled:
        await dialog.get_by_role("button", name="Schedule", exact=True).click()
        await until(lambda: scheduled.urls)
        await bob.page.keyboard.press("Escape")
        await expect(dialog).to_have_count(0)
        await bob.box.fill("Something else")
        await bob.button("New chat").click()
        await expect(dialog).to_be_visible()
        scheduled.release()
        await expect(bob.page.get_by_text("Scheduled for")).to_be_visible()
    await expect(dialog).to_be_visible()
    await bob.page.keyboard.press("Escape")
    await expect(bob.box).to_have_value("Something else")
    await bob.box.fill("")


async def test_files_stay_with_the_chat_they_were_chosen_for(
    visitors: Visitors, demo: ServerProcess
) -> None:
    await make_group(demo, "With files")
    await make_group(demo, "Without files")
    # What a service worker loads cannot be held up.
    carol = await sign_in(visitors, demo.url, "Carol", service_workers="block")
    chosen = carol.page.get_by_role("list", name="Files to send", exact=True)
    await carol.open("With files")
    async with held(carol.page, "GET", "**/elements/attachments.js*") as module:
        field = carol.page.get_by_label("Attach files", exact=True)
        await field.set_input_files([a_file("plan.txt", "text/plain", b"1. eat")])
        await until(lambda: module.urls)
        await carol.open("Without files")
        module.release()
        await carol.page.evaluate(f"{ELEMENT}.files.get()")
    await expect(chosen).to_have_count(0)
    await carol.open("With files")
    await expect(chosen).to_contain_text("plan.txt")


async def test_one_recording_goes_on_at_a_time_and_is_for_its_chat(
    visitors: Visitors, demo: ServerProcess
) -> None:
    await make_group(demo, "Singers")
    carol = await sign_in(visitors, demo.url, "Carol")
    await carol.page.evaluate(HUM)
    await carol.page.evaluate(COUNT_MICROPHONES)
    await carol.open("Singers")
    await carol.page.evaluate(f"() => {{ {ELEMENT}.record(); {ELEMENT}.record(); }}")
    await expect(carol.page.get_by_text(re.compile(r"Recording: \d+:\d*[1-9]"))).to_be_visible()
    await carol.open("Lunch")
    await carol.button("Use the recording").click()
    states = "window.microphones.map((track) => track.readyState)"
    await until(lambda: carol.page.evaluate(states), equals=["ended"] * 2)
    await carol.open("Singers")
    await expect(carol.page.get_by_text("Voice note.webm")).to_be_visible()


@pytest.mark.parametrize("is_reported", [True, False], ids=["left", "leaving"])
async def test_what_fails_after_its_dialog_was_left_is_said(
    visitors: Visitors, demo: ServerProcess, is_reported: bool
) -> None:
    bob = await sign_in(visitors, demo.url, "Bob")
    await bob.button("New group").click()
    if not is_reported:  # as long as the browser has not said that the dialog was closed
        await bob.page.get_by_role("dialog").evaluate(CLOSES_SILENTLY)
    name = bob.page.get_by_role("dialog").get_by_role("textbox", name="Name", exact=True)
    await name.fill("x" * 100)
    asked, may_answer = asyncio.Event(), asyncio.Event()

    async def refuse(route: Route) -> None:
        asked.set()
        await may_answer.wait()
        await route.fulfill(status=422, json={"code": "chat.name", "detail": "Not this name"})

    await bob.page.route("**/v1/chats", refuse)
    await name.press("Enter")
    await until(asked.is_set)
    await bob.page.keyboard.press("Escape")
    await expect(bob.page.get_by_role("dialog")).to_have_count(0)
    may_answer.set()
    await expect(bob.page.get_by_text("Not this name")).to_be_visible()


async def test_a_double_click_removes_one_member(visitors: Visitors, demo: ServerProcess) -> None:
    await make_group(demo, "Regulars")
    alice = await sign_in(visitors, demo.url, "Alice")
    await alice.open("Regulars")
    await alice.button("Chat options").click()
    await alice.page.get_by_role("menuitem", name="Members", exact=True).click()
    members = alice.page.get_by_role("dialog").get_by_role("listitem")
    await expect(members).to_have_count(3)
    async with held(alice.page, "DELETE", "**/members/*") as removed:
        await members.filter(has_text="Bob").get_by_role("button").dblclick()
        removed.release()
        await expect(members).to_have_count(2)
        assert len(removed.urls) == 1


async def test_whoever_writes_keeps_the_field(visitors: Visitors, demo: ServerProcess) -> None:
    await make_long_chat(demo, "Archive")
    bob = await sign_in(visitors, demo.url, "Bob")
    await bob.open("Archive")
    await expect(bob.message("Page 109 of a long book")).to_be_in_viewport()
    await bob.box.focus()
    await bob.page.evaluate(GO_AND_WRITE, 5)
    await expect(bob.message("Page 3 of a long book")).to_be_in_viewport()
    await expect(bob.box).to_be_focused()

    # What was sent from far above does not come back when the newest messages are there.
    await bob.holds_frames()
    await bob.button("Send").click()
    await until(lambda: bob.page.evaluate(f"!{ELEMENT}.view.snapshot().hasNewer"))
    await bob.page.evaluate(RUN_WHAT_IS_DUE)
    await bob.lets_frames_go()
    await expect(bob.message("As it is")).to_be_in_viewport()
    await expect(bob.box).to_have_value("")


async def test_news_take_the_focus_from_no_button(visitors: Visitors, demo: ServerProcess) -> None:
    alice = await open_panel(visitors, demo, "Alice")
    await post(demo, "alice", "Before")
    # The button is there for the welcome, too, and marks only what is shown.
    await expect(alice.row("Before")).to_be_visible()
    await alice.button("Mark all as read").click()
    await expect(alice.button("Mark all as read")).to_have_count(0)
    options = alice.button("Notification options")
    await options.focus()
    await post(demo, "alice", "After")
    await expect(alice.button("Mark all as read")).to_be_visible()
    await expect(options).to_be_focused()


async def test_who_presses_beside_a_menu_keeps_the_focus_there(
    visitors: Visitors, demo: ServerProcess
) -> None:
    alice = await sign_in(visitors, demo.url, "Alice")
    await alice.open("Bob")
    await alice.button("Chat options").click()
    menu = alice.page.get_by_role("menu")
    await expect(menu).to_be_visible()
    await alice.box.click()
    await expect(menu).to_have_count(0)
    await alice.page.keyboard.type("Hello")
    await expect(alice.box).to_have_value("Hello")
    await alice.box.fill("")

    await alice.button("Chat options").click()
    await expect(menu).to_be_visible()
    await alice.page.keyboard.press("Escape")
    await expect(alice.button("Chat options")).to_be_focused()


async def test_a_menu_that_loads_late_opens_for_two_presses(
    visitors: Visitors, demo: ServerProcess
) -> None:
    # What a service worker loads cannot be held up.
    alice = await open_panel(visitors, demo, "Alice", service_workers="block")
    async with held(alice.app.page, "GET", "**/elements/inbox_more.js*") as module:
        for _ in range(2):
            await alice.button("Notification options").click()
        await until(lambda: module.urls)
        module.release()
        await expect(alice.app.page.get_by_role("menu")).to_be_visible()


async def test_the_bell_closes_what_it_opens_and_a_menu_gives_way_to_the_next(
    visitors: Visitors, demo: ServerProcess
) -> None:
    alice = await open_panel(visitors, demo, "Alice")
    menu = alice.app.page.get_by_role("menu")
    await alice.button("Notification options").click()
    await expect(menu).to_have_accessible_name("Notification options")
    snooze = alice.row("Welcome to Tidings").get_by_role("button", name="Snooze", exact=True)
    # What is open covers the others, but not for a pointer.
    await snooze.click(force=True)
    await expect(menu).to_have_accessible_name("Snooze")
    await alice.app.page.keyboard.press("Escape")
    await expect(menu).to_have_count(0)
    await alice.app.button("Notifications").click()
    await expect(alice.region).to_have_count(0)

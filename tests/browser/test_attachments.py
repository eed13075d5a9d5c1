# SPDX-License-Identifier: Apache-2.0
"""Files in the web app: chosen, pasted, dropped and recorded; uploaded, cut off, and seen."""

import json
import random
import re
from functools import partial
from pathlib import Path
from typing import Any, Final

from playwright.async_api import FilePayload, Locator, Request, Route, expect

from tests.browser.pictures import noise
from tests.browser.test_replies import make_group
from tests.browser.visitors import Visitors
from tests.browser.web_app import TICKS, WebApp, sign_in
from tests.support.breakable_proxy import a_proxy
from tests.support.server import ServerProcess
from tests.support.waiting import until

IS_SHOWN: Final = "(image) => image.complete && image.naturalWidth > 0"
HAS_UPLOADS: Final = """indexedDB.databases()
  .then((all) => all.some(({ name }) => name.endsWith(" uploads")))"""
KEPT_UPLOADS: Final = """async () => {
  const found = (await indexedDB.databases()).find(({ name }) => name.endsWith(" uploads"));
  if (!found) return 0;
  const done = (request) =>
    new Promise((resolve) => (request.onsuccess = () => resolve(request.result)));
  const database = await done(indexedDB.open(found.name));
  const count = await done(database.transaction("messages").objectStore("messages").count());
  database.close();
  return count;
}"""
"""How many messages with files are stored; the database is there before the first of them."""
HAND_OVER: Final = """(target, [event, name]) => {
  const data = new DataTransfer();
  data.items.add(new File(["some words"], name, { type: "text/plain" }));
  const given = event === "paste" ? { clipboardData: data } : { dataTransfer: data };
  const kind = event === "paste" ? ClipboardEvent : DragEvent;
  const made = new kind(event, { ...given, bubbles: true, cancelable: true, composed: true });
  target.dispatchEvent(made);
}"""
"""Paste a file, or drop it."""


HUM: Final = """() => {
  navigator.mediaDevices.getUserMedia = async () => {
    const context = new AudioContext();
    const [tone, heard] = [context.createOscillator(), context.createMediaStreamDestination()];
    tone.connect(heard);
    tone.start();
    return heard.stream;
  };
}"""
"""Have a microphone that hums: this browser has none."""


def a_file(name: str, content_type: str, data: bytes) -> FilePayload:
    return {"name": name, "mimeType": content_type, "buffer": data}


async def attach(app: WebApp, *files: FilePayload) -> Locator:
    """Choose files; the list of what is chosen."""
    await app.page.get_by_label("Attach files", exact=True).set_input_files(list(files))
    chosen = app.page.get_by_role("list", name="Files to send", exact=True)
    await expect(chosen.get_by_role("listitem")).to_have_count(len(files))
    return chosen


async def test_a_picture_is_seen_by_the_other(
    visitors: Visitors, demo: ServerProcess, tmp_path: Path
) -> None:
    alice = await sign_in(visitors, demo.url, "Alice")
    bob = await sign_in(visitors, demo.url, "Bob")
    await alice.open("Bob")
    await bob.open("Alice")
    data = noise(400, 300)
    chosen = await attach(
        alice, a_file("noise.png", "image/png", data), a_file("plan.txt", "text/plain", b"1. eat")
    )
    await chosen.get_by_role("button", name="Remove plan.txt", exact=True).click()
    await expect(alice.box).to_be_focused()
    await alice.send("What do you see?")

    for person in (alice, bob):
        row = person.row("What do you see?")
        image = row.get_by_role("button", name="Show noise.png", exact=True).locator("img")
        await until(partial(image.evaluate, IS_SHOWN))
        # What was loaded is the thumbnail, which is no picture of 360 KB.
        source = await image.get_attribute("src") or ""
        loaded = await person.page.request.get(demo.url + source.removeprefix(demo.url))
        assert len(await loaded.body()) <= 65_536
    await expect(alice.row("What do you see?").get_by_role("img", name=TICKS)).to_be_visible()
    await until(lambda: alice.page.evaluate(HAS_UPLOADS), equals=False)
    await (
        bob.row("What do you see?").get_by_role("button", name="Show noise.png", exact=True).click()
    )
    dialog = bob.page.get_by_role("dialog")
    await until(lambda: dialog.get_by_role("img", name="noise.png", exact=True).evaluate(IS_SHOWN))
    async with bob.page.expect_download() as downloading:
        await dialog.get_by_role("button", name=re.compile("noise.png.*Download")).click()
    path = tmp_path / "downloaded"
    await (await downloading.value).save_as(path)
    assert path.read_bytes() == data
    await dialog.get_by_role("button", name="Close", exact=True).click()
    await expect(
        bob.row("What do you see?").get_by_role("button", name="Show noise.png", exact=True)
    ).to_be_focused()


async def test_thumbnails_without_a_type_are_shown_if_they_are_pictures(
    visitors: Visitors, demo: ServerProcess
) -> None:
    given: list[tuple[str, bytes | None]] = [("", None), ("application/octet-stream", b"opaque")]

    async def change(route: Route) -> None:
        kind, data = given.pop(0)
        headers = {**route.request.headers, "content-type": kind}
        await route.continue_(headers=headers, post_data=data or route.request.post_data_buffer)

    carol = await sign_in(visitors, demo.url, "Carol")
    await carol.page.route("**/thumbnail", change)
    await carol.open("Lunch")
    for text in ("Without a type", "No picture"):
        await attach(carol, a_file("noise.png", "image/png", noise(400, 300)))
        await carol.send(text)
        await expect(carol.row(text).get_by_role("img", name=TICKS)).to_be_visible()
    assert not given

    bob = await sign_in(visitors, demo.url, "Bob")
    await bob.open("Lunch")
    image = bob.row("Without a type").get_by_role("button", name="Show noise.png", exact=True)
    await until(partial(image.locator("img").evaluate, IS_SHOWN))
    name = re.compile("noise.png.*Download")
    await expect(bob.row("No picture").get_by_role("button", name=name)).to_be_visible()


async def test_the_list_shows_that_a_message_has_only_a_file(
    visitors: Visitors, demo: ServerProcess
) -> None:
    bob = await sign_in(visitors, demo.url, "Bob")
    await bob.open("Alice")
    await attach(bob, a_file("wordless.txt", "text/plain", b"1. eat"))
    await bob.send("")
    await expect(bob.row("wordless.txt").get_by_role("img", name=TICKS)).to_be_visible()
    alice = await sign_in(visitors, demo.url, "Alice")
    await expect(bob.chat("Alice")).to_contain_text("You: File")
    await expect(alice.chat("Bob")).to_contain_text("File")


async def test_an_upload_continues_where_it_was_cut_off(
    visitors: Visitors, demo: ServerProcess
) -> None:
    offsets: list[int] = []

    def note(request: Request) -> None:
        if request.method == "PATCH":
            offsets.append(int(request.headers["upload-offset"]))

    data = random.Random(1).randbytes(6_000_000)
    async with a_proxy("127.0.0.1", demo.port) as way:
        carol = await sign_in(visitors, f"http://127.0.0.1:{way.port}", "Carol")
        carol.page.on("request", note)
        await carol.open("Lunch")
        await attach(carol, a_file("film.bin", "application/octet-stream", data))
        way.cut_after(3_000_000)
        await carol.send("Long film")
        row = carol.row("Long film")
        await until(lambda: way.is_cut)
        await expect(
            row.get_by_role("progressbar", name="Uploading film.bin", exact=True)
        ).to_be_visible()
        await expect(carol.page.get_by_text("Messages waiting to be sent: 1")).to_be_visible()
        way.mend()
        await expect(row.get_by_role("img", name=TICKS)).to_be_visible()
    assert offsets[0] == 0
    assert 0 < offsets[-1] < len(data)
    bob = await sign_in(visitors, demo.url, "Bob")
    await bob.open("Lunch")
    button = bob.row("Long film").get_by_role("button", name=re.compile("film.bin.*Download"))
    async with bob.page.expect_download() as downloading:
        await button.click()
    assert (await (await downloading.value).path()).read_bytes() == data


async def test_a_reload_continues_an_upload(visitors: Visitors, demo: ServerProcess) -> None:
    async def fail(route: Route) -> None:
        await route.abort()

    alice = await sign_in(visitors, demo.url, "Alice")
    await alice.open("Bob")
    await attach(alice, a_file("plan.txt", "text/plain", b"1. eat"))
    await alice.page.route("**/v1/attachments", fail)
    await alice.send("Begun before the reload")
    row = alice.row("Begun before the reload")
    await expect(row.get_by_role("progressbar")).to_be_visible()
    await until(lambda: alice.page.evaluate(KEPT_UPLOADS))
    await alice.page.reload()
    await expect(row.get_by_role("progressbar")).to_be_visible()
    await alice.page.unroute("**/v1/attachments")
    await expect(row.get_by_role("button", name=re.compile("plan.txt.*Download"))).to_be_visible()
    await expect(row.get_by_role("img", name=TICKS)).to_have_count(1)
    await until(lambda: alice.page.evaluate(f"{HAS_UPLOADS}.then((has) => !has)"))
    await alice.page.reload()
    await expect(row).to_have_count(1)


async def test_another_tab_continues_what_a_closed_one_began(
    visitors: Visitors, demo: ServerProcess
) -> None:
    async def fail(route: Route) -> None:
        await route.abort()

    first = await sign_in(visitors, demo.url, "Bob")
    await first.open("Lunch")
    await attach(first, a_file("map.txt", "text/plain", b"left, then right"))
    await first.page.route("**/v1/attachments", fail)
    await first.send("Here is the way")
    await until(lambda: first.page.evaluate(HAS_UPLOADS))
    second = WebApp(await first.page.context.new_page())
    await second.page.goto(demo.url)
    await second.button("Bob").click()
    await second.open("Lunch")
    row = second.row("Here is the way")
    await expect(row.get_by_role("progressbar")).to_be_visible()
    await first.page.close()
    await expect(row.get_by_role("img", name=TICKS)).to_be_visible()
    await expect(row).to_have_count(1)
    await expect(row.get_by_role("button", name=re.compile("map.txt.*Download"))).to_be_visible()


async def test_files_are_pasted_dropped_and_cancelled(
    visitors: Visitors, demo: ServerProcess
) -> None:
    async def wait(route: Route) -> None:
        """Never answer."""

    await make_group(demo, "Elsewhere")
    carol = await sign_in(visitors, demo.url, "Carol")
    await carol.open("Lunch")
    await carol.box.evaluate(HAND_OVER, ["paste", "pasted.txt"])
    chosen = carol.page.get_by_role("list", name="Files to send", exact=True).get_by_role(
        "listitem"
    )
    await expect(chosen).to_have_text([r"pasted.txt1 kB"])
    await carol.messages.evaluate(HAND_OVER, ["drop", "dropped.txt"])
    await expect(chosen).to_have_count(2)
    await carol.open("Elsewhere")
    await expect(chosen).to_have_count(0)
    await carol.page.route("**/v1/attachments", wait)
    await carol.open("Lunch")
    await expect(chosen).to_have_count(2)
    await carol.box.press("Enter")
    row = carol.messages.get_by_role("article").filter(has_text="dropped.txt")
    await row.get_by_role("button", name="Cancel the upload", exact=True).first.click()
    await expect(row).to_have_count(0)
    await until(lambda: carol.page.evaluate(f"{HAS_UPLOADS}.then((has) => !has)"))


async def test_a_refusal_is_told_in_words(visitors: Visitors, demo: ServerProcess) -> None:
    refusals = [
        (413, "attachment.too_large", "The file is larger than allowed"),
        (415, "attachment.type", "Files of this type are not allowed"),
        (429, "quota.reached", "Today's limit for files is reached"),
    ]

    async def refuse(route: Route) -> None:
        status, code, _ = refusals[0]
        body: dict[str, Any] = {"status": status, "code": code, "detail": "no"}
        await route.fulfill(status=status, body=json.dumps(body), content_type="application/json")

    bob = await sign_in(visitors, demo.url, "Bob")
    await bob.open("Alice")
    await attach(bob, a_file("tool.exe", "application/x-msdownload", b"MZ"))
    await bob.page.route("**/v1/attachments", refuse)
    await bob.send("Try this")
    row = bob.row("Try this")
    while refusals:
        await expect(row.get_by_role("alert")).to_contain_text(refusals[0][2])
        del refusals[0]
        if refusals:
            await row.get_by_role("button", name="Try again", exact=True).click()
    await bob.page.unroute("**/v1/attachments")
    await row.get_by_role("button", name="Try again", exact=True).click()
    await expect(row.get_by_role("img", name=TICKS)).to_be_visible()


async def test_a_voice_note_is_recorded_and_played(visitors: Visitors, demo: ServerProcess) -> None:
    carol = await sign_in(visitors, demo.url, "Carol")
    await carol.page.evaluate(HUM)
    alice = await sign_in(visitors, demo.url, "Alice")
    await carol.open("Lunch")
    await alice.open("Lunch")
    await carol.button("Other ways to send").click()
    await carol.page.get_by_role("menuitem", name="Record a voice note", exact=True).click()
    await expect(carol.page.get_by_text(re.compile(r"Recording: \d+:\d*[1-9]"))).to_be_visible()
    await carol.button("Use the recording").click()
    await expect(carol.page.get_by_text("Voice note.webm")).to_be_visible()
    await carol.send("Listen")
    player = alice.row("Listen").locator("audio")
    await expect(player).to_have_attribute("aria-label", "Voice note.webm")
    await player.evaluate("(player) => player.play()")
    await until(lambda: player.evaluate("(player) => player.currentTime > 0"))

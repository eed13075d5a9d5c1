# SPDX-License-Identifier: Apache-2.0
"""Each view of the web app: for assistive technology, in all colours, on a phone; as pictures."""

import os
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pytest
from playwright.async_api import FilePayload, Page, expect

from scripts.services import node_tools
from scripts.services.obtaining import Unavailable
from tests.browser.pictures import png_of
from tests.browser.visitors import FOR_AXE, Visitors
from tests.browser.web_app import WebApp
from tests.support.server import ServerProcess
from tests.support.services import do_without
from tests.support.waiting import until

DESKTOP: Final = {"width": 1000, "height": 680}
PHONE: Final = {"width": 390, "height": 760}
SMALL: Final = {"width": 320, "height": 560}
"""A small phone, or a desktop at four times the size."""
COLOURS: Final[dict[str, Any]] = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "forced": {"color_scheme": "light", "forced_colors": "active"},
}
SERIOUS: Final = ("serious", "critical")
PICTURES: Final = (
    *("sign-in", "conversation", "notifications", "members", "files", "settings"),
    *("snooze", "preferences"),
)
TOKEN: Final = """fetch("/demo/tokens", {
  method: "POST",
  headers: { "content-type": "application/json" },
  body: JSON.stringify({ user_id: "alice" }),
}).then(async (answer) => (await answer.json()).token)"""
# What has no problem needs no description.
FIND_PROBLEMS: Final = """(more) =>
  axe.run(document, { resultTypes: ["violations"], selectors: false, preload: false, ...more })
    .then(({ violations }) =>
    violations.map(({ id, impact, nodes }) =>
      [impact, `${id}: ${nodes.map((node) => node.html).join(" ").slice(0, 600)}`]))"""


@pytest.fixture(scope="session")
def axe(request: pytest.FixtureRequest) -> str:
    """The program that looks for obstacles, to run in a page."""
    try:
        tools = node_tools.obtain()
    except Unavailable as error:
        do_without(request.config, node_tools.NAME, str(error))
    return (tools.parent / "axe-core" / "axe.min.js").read_text()


async def views(page: Page, url: str) -> AsyncIterator[str]:
    """Walk through the web app as Alice; the name of each view while it is shown."""
    await page.goto(url)
    app = WebApp(page)
    await expect(app.button("Carol")).to_be_visible()
    yield "sign-in"
    await page.get_by_text("With a phone number").click()
    await page.get_by_text("With a token").click()
    await expect(page.get_by_label("Token", exact=True)).to_be_visible()
    yield "sign-in forms"
    await app.button("Alice").click()
    await expect(app.chat("Lunch")).to_be_visible()
    yield "chats"
    await app.button("Notifications").click()
    await expect(page.get_by_text("Your report is ready")).to_be_visible()
    yield "notifications"
    await page.keyboard.press("Escape")
    await app.open("Lunch")
    await expect(app.message("Noodles it is.")).to_be_visible()
    yield "conversation"
    row = app.row("Noodles it is.")
    await row.hover()
    await row.get_by_role("button", name="Actions", exact=True).click()
    await expect(page.get_by_role("menu")).to_be_visible()
    yield "actions"
    await page.keyboard.press("Escape")
    await react(app, 5)
    await expect(row.get_by_role("button", name="👍", pressed=True)).to_be_visible()
    await app.box.press("ArrowUp")
    await expect(page.get_by_text("Editing a message")).to_be_visible()
    yield "editing"
    await page.keyboard.press("Escape")
    await row.hover()
    await row.get_by_role("button", name="Actions", exact=True).click()
    await page.get_by_role("menuitem", name="Reply", exact=True).click()
    await app.box.press_sequentially("@")
    await expect(page.get_by_role("option", name="Carol", exact=True)).to_be_visible()
    yield "replying"
    await app.box.fill("")
    await app.box.press("Escape")
    async for view in files(app):
        yield view
    async for view in dialogs(app):
        yield view
    async for view in account(app):
        yield view


async def as_alice(app: WebApp, path: str) -> None:
    """Put something as Alice, without the app: it may be there from an earlier walk."""
    headers = {"Authorization": f"Bearer {await app.page.evaluate(TOKEN)}"}
    url = f"{app.page.url.split('#')[0]}v1/{path}"
    assert (await app.page.request.put(url, headers=headers)).ok


async def react(app: WebApp, sequence: int) -> None:
    """React to a message of the open chat."""
    chat = app.page.url.split("#")[1]
    await as_alice(app, f"chats/{chat}/messages/{sequence}/reactions/{quote('👍')}")


async def files(app: WebApp) -> AsyncIterator[str]:
    """Send files; what is chosen, sent and shown, while it is."""
    # A picture that does not depend on the day, and is the same in every walk.
    picture: FilePayload = {
        "name": "noodles.png",
        "mimeType": "image/png",
        "buffer": gradient(480, 320),
    }
    plan: FilePayload = {
        "name": "Menu of the week.pdf",
        "mimeType": "application/pdf",
        "buffer": b"%PDF" * 9_000,
    }
    sound: FilePayload = {"name": "Voice note.wav", "mimeType": "audio/wav", "buffer": bytes(9_000)}
    await app.page.get_by_label("Attach files", exact=True).set_input_files([picture, plan, sound])
    await expect(app.page.get_by_role("list", name="Files to send", exact=True)).to_be_visible()
    yield "chosen files"
    await app.send("This is what it looked like last time")
    row = app.row("This is what it looked like last time").last
    image = row.get_by_role("button", name="Show noodles.png", exact=True).locator("img")
    await until(lambda: image.evaluate("(image) => image.complete && image.naturalWidth > 0"))
    await expect(row.locator("audio")).to_be_visible()
    yield "files"
    await row.get_by_role("button", name="Show noodles.png", exact=True).click()
    await expect(
        app.page.get_by_role("dialog").get_by_role("img", name="noodles.png", exact=True)
    ).to_be_visible()
    yield "picture"
    await app.page.keyboard.press("Escape")
    await app.button("Other ways to send").click()
    await expect(app.page.get_by_role("menu")).to_be_visible()
    yield "other ways to send"
    await app.page.get_by_role("menuitem", name="Send later …", exact=True).click()
    dialog = app.page.get_by_role("dialog", name="Send later …", exact=True)
    await dialog.get_by_label("Message", exact=True).fill("Shall we go again next week?")
    yield "send later"
    await dialog.get_by_role("button", name="Schedule", exact=True).click()
    await expect(app.page.get_by_text("Scheduled for")).to_be_visible()
    await expect(app.page.get_by_text("Scheduled for")).to_have_count(0)


async def account(app: WebApp) -> AsyncIterator[str]:
    """Open the settings, with something in each part of them."""
    await app.page.get_by_role("searchbox").fill("")
    await as_alice(app, "me/blocks/carol")
    await app.button("Settings").click()
    dialog = app.page.get_by_role("dialog", name="Settings", exact=True)
    await expect(dialog.get_by_text("Carol", exact=True)).to_be_visible()
    await expect(dialog.get_by_text("Shall we go again").first).to_be_visible()
    yield "settings"
    await dialog.get_by_role("button", name="Unblock", exact=True).click()
    await expect(dialog.get_by_text("You have blocked nobody")).to_be_visible()
    await app.page.keyboard.press("Escape")


async def inbox(app: WebApp) -> AsyncIterator[str]:
    """Open what the inbox loads later; `test_inbox` examines these views."""
    await app.button("Notifications").click()
    region = app.page.get_by_role("region", name="Notifications", exact=True)
    await region.get_by_role("button", name="Snooze", exact=True).first.click()
    await expect(app.page.get_by_role("menuitem", name="Next week")).to_be_visible()
    yield "snooze"
    await app.page.keyboard.press("Escape")
    await region.get_by_role("button", name="Notification options", exact=True).click()
    await app.page.get_by_role("menuitem", name="Preferences", exact=True).click()
    await region.get_by_label("Quiet hours, without push and e-mail").check()
    await expect(region.get_by_label("From", exact=True)).to_be_visible()
    yield "preferences"


def gradient(width: int, height: int) -> bytes:
    """A picture of an evening sky."""
    lines = (
        b"\0" + bytes(value for x in range(width) for value in sky(x / width, y / height))
        for y in range(height)
    )
    return png_of(width, height, b"".join(lines))


def sky(x: float, y: float) -> tuple[int, int, int]:
    """The colour of a point of the picture."""
    is_sun = (x - 0.68) ** 2 * 2.25 + (y - 0.62) ** 2 < 0.012
    return (
        (255, 236, 190) if is_sun else (int(70 + 180 * y), int(80 + 90 * y * x), int(170 - 60 * y))
    )


async def dialogs(app: WebApp) -> AsyncIterator[str]:
    """Open each dialog; its name while it is shown."""
    dialog = app.page.get_by_role("dialog")
    await app.row("Noodles it is.").hover()
    await app.row("Noodles it is.").get_by_role("button", name="Actions", exact=True).click()
    await app.page.get_by_role("menuitem", name="Who read it", exact=True).click()
    await expect(dialog.get_by_text("👍")).to_be_visible()
    yield "readers"
    await app.page.keyboard.press("Escape")
    await app.row("Noodles it is.").hover()
    await app.row("Noodles it is.").get_by_role("button", name="Actions", exact=True).click()
    await app.page.get_by_role("menuitem", name="Report", exact=True).click()
    await expect(dialog.get_by_role("combobox", name="Reason", exact=True)).to_be_visible()
    yield "report"
    await app.page.keyboard.press("Escape")
    for name, found in (("Replies: 1", "Noodles it is."), ("Pinned: 1", "Lunch at half")):
        await app.button(name).click()
        await expect(dialog.get_by_text(found).first).to_be_visible()
        yield name
        await app.page.keyboard.press("Escape")
    for item in ("Members", "Keyboard"):
        await app.button("Chat options").click()
        await expect(app.page.get_by_role("menu")).to_be_visible()
        if item == "Members":
            yield "chat options"
        await app.page.get_by_role("menuitem", name=item, exact=True).click()
        await expect(
            dialog.get_by_text("Carol" if item == "Members" else "Enter").first
        ).to_be_visible()
        yield item.lower()
        await app.page.keyboard.press("Escape")
    await expect(dialog).to_have_count(0)
    if await app.button("Back to the chats").is_visible():  # depends on nothing but the window
        await app.button("Back to the chats").click()
    await app.page.get_by_role("button", name=re.compile("^Mentions")).click()
    await expect(dialog.get_by_text("Me too.")).to_be_visible()
    yield "mentions"
    await app.page.keyboard.press("Escape")
    for name in ("New chat", "New group"):
        await app.button(name).click()
        await expect(dialog.get_by_text("Bob")).to_be_visible()
        yield name.lower()
        await app.page.keyboard.press("Escape")
    await app.page.get_by_role("searchbox").fill("carol")
    await expect(app.page.get_by_role("navigation").get_by_text("Carol").last).to_be_visible()
    yield "search"


async def problems(page: Page, **options: Any) -> list[str]:
    """What keeps people from using the page, as far as a program can tell."""
    found: list[tuple[str, str]] = await page.evaluate(FIND_PROBLEMS, options)
    return [what for impact, what in found if impact in SERIOUS]


async def examined(page: Page, axe: str, view: str, *colours: str) -> list[str]:
    """What keeps people from using a view, in these colours; without any, all but contrast."""
    if not await page.evaluate("'axe' in window"):
        await page.evaluate(axe)
    rules = {"color-contrast": {"enabled": bool(colours)}}
    found = [f"{view}: {one}" for one in await problems(page, rules=rules)]
    for name in colours[1:]:
        # Of all rules, only those about colours depend on them.
        await page.emulate_media(**COLOURS[name])
        found += [
            f"{view}, {name}: {one}" for one in await problems(page, runOnly=["color-contrast"])
        ]
    await page.emulate_media(color_scheme="light", forced_colors="none")
    return found


@pytest.mark.parametrize(
    "colours", [("light", "dark"), pytest.param(("light", "forced"), marks=pytest.mark.soak)]
)
async def test_nothing_keeps_anybody_out(
    visitors: Visitors, demo: ServerProcess, axe: str, colours: tuple[str, ...]
) -> None:
    profile = await visitors.profile(viewport=DESKTOP, **FOR_AXE)
    page = await profile.new_page()
    found: list[str] = []
    async for view in views(page, demo.url):
        found += await examined(page, axe, view, *colours)
    assert "\n".join(found) == ""


async def test_a_small_window_is_enough(visitors: Visitors, demo: ServerProcess, axe: str) -> None:
    profile = await visitors.profile(viewport=SMALL, **FOR_AXE)
    page = await profile.new_page()
    found: list[str] = []
    async for view in views(page, demo.url):
        found += await examined(page, axe, view)
        is_wide = await page.evaluate("document.documentElement.scrollWidth > innerWidth")
        assert not is_wide, f"{view} is wider than the window"
    assert "\n".join(found) == ""


@pytest.mark.soak
@pytest.mark.parametrize(
    ("size", "scheme"),
    [
        pytest.param(DESKTOP, "light", id="desktop-light"),
        pytest.param(DESKTOP, "dark", id="desktop-dark"),
        pytest.param(PHONE, "light", id="phone-light"),
        pytest.param(PHONE, "dark", id="phone-dark"),
    ],
)
async def test_pictures_are_made(
    visitors: Visitors, tmp_path: Path, size: Any, scheme: Any, request: pytest.FixtureRequest
) -> None:
    # With PICTURES=docs/images, those of the documentation are replaced.
    folder = Path(os.environ.get("PICTURES", tmp_path))
    profile = await visitors.profile(viewport=size, color_scheme=scheme, reduced_motion="reduce")
    page = await profile.new_page()
    async with ServerProcess(tmp_path / "data", options=["--demo"]) as fresh:
        for walk in (views(page, fresh.url), inbox(WebApp(page))):
            async for view in walk:
                if view in PICTURES:
                    path = folder / f"{view}-{request.node.callspec.id}.png"
                    assert len(await page.screenshot(path=path)) > 5_000

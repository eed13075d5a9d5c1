# SPDX-License-Identifier: Apache-2.0
"""The web app as its users find it: by the names of what they see, and by nothing else."""

import re
from typing import Any, Final

from playwright.async_api import Locator, Page, expect

from tests.browser.visitors import Visitors

TICKS: Final = re.compile("^(Sent|Delivered|Read)")
NOT_YET: Final = """(isSlow) => {
  window.hurried ??= window.setTimeout;
  const slow = (work, ms, ...all) => hurried(work, ms === 5000 ? 600_000 : ms, ...all);
  window.setTimeout = isSlow ? slow : hurried;
}"""
"""Makes ten minutes of the five seconds in which a deletion can be undone, or ends this."""

HOLD_FRAMES: Final = """() => {
  window.framed = window.requestAnimationFrame;
  window.held = [];
  window.requestAnimationFrame = (work) => window.held.push(work);
  // What was asked for before still comes.
  return new Promise((resolve) => window.framed(resolve));
}"""
LET_FRAMES_GO: Final = """() => {
  window.requestAnimationFrame = window.framed;
  for (const work of window.held) work(performance.now());
}"""
HURRY: Final = """(hurried) => {
  const { setTimeout } = window;
  window.setTimeout = (work, ms, ...all) => setTimeout(work, ms === hurried ? 0 : ms, ...all);
}"""
KEEP_TIMERS: Final = """(kept) => {
  const { setTimeout } = window;
  window.timers = [];
  window.setTimeout = (work, ms, ...all) =>
    ms === kept ? window.timers.push(work) : setTimeout(work, ms, ...all);
}"""
END_TIMERS: Final = "for (const work of window.timers) work()"
RUN_WHAT_IS_DUE: Final = "() => new Promise((resolve) => setTimeout(resolve, 10))"


class WebApp:
    """One window with the web app."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.chats = page.get_by_role("list", name="Chats", exact=True)
        self.messages = page.get_by_role("log", name="Messages", exact=True)
        self.box = page.get_by_role("textbox", name="Message", exact=True)

    def button(self, name: str) -> Locator:
        """A button."""
        return self.page.get_by_role("button", name=name, exact=True)

    def chat(self, title: str) -> Locator:
        """An entry of the list of chats, by its title alone: a group's entry also names whoever
        wrote last, or writes now."""
        titled = self.page.locator(".title", has_text=re.compile(f"^{re.escape(title)}$"))
        return self.chats.get_by_role("button").filter(has=titled)

    def heading(self, title: str) -> Locator:
        """The title above the messages of the open chat."""
        return self.page.get_by_role("heading", name=title, exact=True)

    def message(self, text: str) -> Locator:
        """A message of the open chat."""
        return self.messages.get_by_text(text)

    def row(self, text: str) -> Locator:
        """The row of a message, with its ticks and buttons."""
        return self.messages.get_by_role("article").filter(has_text=text)

    async def open(self, title: str) -> None:
        """Open a chat with the keyboard: news may move the list while a pointer is on its way."""
        await self.chat(title).press("Enter")
        # The field of the chat before looks the same.
        await expect(self.heading(title)).to_be_visible()
        await expect(self.box).to_be_visible()

    async def gives_time_to_undo(self, *, is_slow: bool = True) -> None:
        """Let a deletion wait for its undoing as long as the test needs, or no longer."""
        await self.page.evaluate(NOT_YET, is_slow)

    async def holds_frames(self) -> None:
        """Make the page as slow as it can be: it shows nothing new until this is ended."""
        await self.page.evaluate(HOLD_FRAMES)

    async def lets_frames_go(self) -> None:
        """Show everything that has changed."""
        await self.page.evaluate(LET_FRAMES_GO)

    async def send(self, text: str) -> None:
        """Write a message and send it with Enter."""
        await self.box.fill(text)
        await self.box.press("Enter")


async def sign_in(visitors: Visitors, url: str, name: str, **options: Any) -> WebApp:
    """Somebody of the demo, in a browser of their own."""
    profile = await visitors.profile(**options)
    page = await profile.new_page()
    await page.goto(url)
    app = WebApp(page)
    await app.button(name).click()
    await expect(app.chats.get_by_role("button").first).to_be_visible()
    return app

# SPDX-License-Identifier: Apache-2.0
"""Measures a long chat in the web app: scrolls up through the whole chat in a real browser."""

import json
import os
import statistics
from argparse import ArgumentParser, Namespace
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec
from playwright.async_api import CDPSession, Page, async_playwright

from bench.seeds import READER, Seed, seeded
from bench.server import Target, own_server
from scripts.services import chromium

ROWS_MAX: Final = 250
PREPEND_MS_MAX: Final = 50.0
BATCH_PAGES: Final = 50
MAIN_THREAD: Final = ("ScriptDuration", "LayoutDuration", "RecalcStyleDuration")

_OPEN: Final = """() => {
  window.chat = document.querySelector("tidings-chat");
  return chat?.view?.snapshot().isLoaded && chat.root.querySelectorAll(".item").length >= 50;
}"""
# One step is over when the rows above are in the page and it has been painted.
_SCROLL: Final = """async (pages) => {
  const log = chat.root.querySelector(".log");
  const first = () => chat.view.snapshot().rows[0].sequence;
  const painted = () => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
  let rows = 0;
  let page = 0;
  for (; page < pages && chat.view.snapshot().hasOlder; page += 1) {
    const before = first();
    while (first() === before) {
      log.scrollTop = 0;
      await painted();
    }
    await painted();
    rows = Math.max(rows, chat.root.querySelectorAll(".item").length);
  }
  return { rows, pages: page, isDone: !chat.view.snapshot().hasOlder, first: first() };
}"""


class LongChat(msgspec.Struct, frozen=True):
    """Result for one chat."""

    messages: int
    pages: int
    rows_max: int
    """Maximum number of messages in the page at the same time."""
    prepend_ms: float
    """CPU time of the page's main thread for showing 50 older messages; median over batches."""
    prepend_ms_max: float
    heap_mib_first: float
    heap_mib_last: float


def add_options(parser: ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--messages", type=int, nargs="+", default=[10_000, 100_000])


async def run(options: Namespace) -> list[LongChat]:
    """Scroll through each chat, print the results, and check the number of rows."""
    found = []
    print(f"{'messages':>10}{'pages':>8}{'rows':>7}{'prepend':>11}{'worst':>11}   heap after")
    for messages in options.messages:
        seed = await seeded(messages, options.seeds)
        async with own_server(seed.data) as target, _page(target, seed) as page:
            one = await _scroll(page, seed)
        found.append(one)
        print(
            f"{one.messages:>10,}{one.pages:>8,}{one.rows_max:>7}{one.prepend_ms:>8.1f} ms"
            f"{one.prepend_ms_max:>8.1f} ms   {one.heap_mib_first:.1f} MiB at the start,"
            f" {one.heap_mib_last:.1f} MiB at the end",
            flush=True,
        )
        assert one.rows_max <= ROWS_MAX, f"{one.rows_max} messages are in the page"
    print(
        f"At most {ROWS_MAX} rows and {PREPEND_MS_MAX:.0f} ms for 50 older messages are promised."
    )
    return found


@asynccontextmanager
async def _page(target: Target, seed: Seed) -> AsyncIterator[Page]:
    """Open the web app with the chat."""
    session = {"kind": "token", "user": READER, "token": await seed.reader(target)}
    path = chromium.obtain()
    environment: dict[str, str | float | bool] = {**os.environ, **chromium.environment(path)}
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=path, env=environment, args=["--no-sandbox", "--disable-gpu"]
        )
        page = await browser.new_page(viewport={"width": 1000, "height": 680})
        await page.add_init_script(
            f"localStorage.setItem('tidings session', {json.dumps(json.dumps(session))})"
        )
        await page.goto(f"{target.url}/#{seed.chat}")
        await page.wait_for_function(_OPEN)
        yield page
        await browser.close()


async def _scroll(page: Page, seed: Seed) -> LongChat:
    control = await page.context.new_cdp_session(page)
    # Time that the thread has had a core: other programs count for nothing.
    await control.send("Performance.enable", {"timeDomain": "threadTicks"})
    heaps = [await _heap(control)]
    times: list[float] = []
    rows, pages, is_done = 0, 0, False
    while not is_done:
        before = await _metrics(control)
        step = await page.evaluate(_SCROLL, BATCH_PAGES)
        after = await _metrics(control)
        spent = sum(after[name] - before[name] for name in MAIN_THREAD)
        times.append(spent / max(step["pages"], 1) * 1e3)
        rows, pages, is_done = max(rows, step["rows"]), pages + step["pages"], step["isDone"]
        heaps.append(await _heap(control))
    return LongChat(
        messages=seed.messages,
        pages=pages,
        rows_max=rows,
        prepend_ms=statistics.median(times),
        prepend_ms_max=max(times),
        # The first batch fills the window, which later ones only move.
        heap_mib_first=heaps[1],
        heap_mib_last=heaps[-1],
    )


async def _metrics(control: CDPSession) -> Mapping[str, Any]:
    answer = await control.send("Performance.getMetrics")
    return {metric["name"]: metric["value"] for metric in answer["metrics"]}


async def _heap(control: CDPSession) -> float:
    """Return the size of the heap after a garbage collection, in MiB."""
    await control.send("HeapProfiler.collectGarbage")
    return float((await _metrics(control))["JSHeapUsedSize"]) / 2**20

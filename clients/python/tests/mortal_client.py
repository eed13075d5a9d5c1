# SPDX-License-Identifier: Apache-2.0
"""A client in a process of its own, to be killed: tells line by line what it shows and keeps."""

import asyncio
import sys
from pathlib import Path

from tidings_client import Client, EntryEvent, FileStorage, Message


def tell(*words: object) -> None:
    """One line, at once, and in one piece even if the process is killed meanwhile."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


async def show(client: Client, *, confirms: bool) -> None:
    """`shown sequence content` for every entry."""
    async for event in client.events():
        if isinstance(event, EntryEvent):
            tell("shown", event.sequence, event.content if isinstance(event, Message) else "-")
            if confirms:
                await client.confirm()


async def write(client: Client, chat: str, run: str) -> None:
    """`kept content` for every message that is in the outbox, come what may."""
    for number in range(1_000):
        content = f"alice-{run}-{number}"
        client.send_nowait(chat, content)
        # Two messages for each that is waited for: some are lost with the process, which is fine
        # as long as nobody was told that they are kept.
        client.send_nowait(chat, f"{content}-perhaps")
        await client.confirm()
        tell("kept", content)
        await asyncio.sleep(0.01)


async def main(url: str, token: str, file: str, chat: str, run: str, confirms: str) -> None:
    """Show and write until killed; the last run only shows."""
    storage = FileStorage(Path(file))
    async with (
        Client(url, token=lambda: token, device="phone", storage=storage) as client,
        asyncio.TaskGroup() as tasks,
    ):
        tasks.create_task(show(client, confirms=confirms == "confirms"))
        if run != "last":
            tasks.create_task(write(client, chat, run))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

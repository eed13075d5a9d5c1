# SPDX-License-Identifier: Apache-2.0
"""Writing all facts of a deployment as lines of JSON.

The same facts make the same bytes, whichever engine holds them: there is no time and no name of an
engine in an export. So two exports can be compared, and a move there and back be checked.
"""

from collections.abc import Callable

from tidings.actions.tallying import VERSION, Tally, encode
from tidings.model.ids import ChatId
from tidings.ports.moving import Closing, Line, Opening, Source


class ChangedMeanwhile(Exception):
    """Somebody wrote to these chats during the export: it is of no use."""

    def __init__(self, chats: list[ChatId]) -> None:
        super().__init__(f"{len(chats)} chats changed during the export")
        self.chats = chats


async def export_all(
    source: Source, now: int, write: Callable[[bytes], object], tell: Callable[[Tally], None]
) -> Closing:
    """Write every fact that counts at `now`, and last how many there are.

    `tell` is called now and then with what was written so far.

    Raises:
        ChangedMeanwhile: What was written has no last line, and no import will take it.
    """
    tally = Tally()
    write(_line(tally, Opening(version=VERSION, epoch=source.epoch)))
    async for facts in source.facts(now):
        for fact in facts:
            tally.count(fact)
        write(b"".join(_line(tally, fact) for fact in facts))
        tell(tally)
    if changed := await source.changed():
        raise ChangedMeanwhile(changed)
    closing = tally.closing()
    write(_line(tally, closing))
    return closing


def _line(tally: Tally, line: Line) -> bytes:
    text = encode(line) + b"\n"
    tally.add(text)
    return text

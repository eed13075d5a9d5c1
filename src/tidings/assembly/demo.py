# SPDX-License-Identifier: Apache-2.0
"""Creates the demo of `tidings serve --demo`: three users, their chats and their notifications."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from tidings.actions.identity.caller import Root
from tidings.api.callers import IdentityVerbs
from tidings.api.messages import NewMessage, post
from tidings.api.sign_in import Demo, DemoPerson
from tidings.assembly.core import Core
from tidings.model.ids import ChatId, user_key
from tidings.model.notifications import InboxConfig, Posting

TENANT: Final = "demo"
"""The tenant that `tidings chat` uses too, so that a terminal and a browser can chat."""
TITLE: Final = "Demo"
INBOX: Final = "news"
ALICE: Final = DemoPerson("alice", "Alice")
BOB: Final = DemoPerson("bob", "Bob")
CAROL: Final = DemoPerson("carol", "Carol")
PEOPLE: Final = (ALICE, BOB, CAROL)


class _Line(NamedTuple):
    """A message of the demo."""

    person: DemoPerson
    text: str
    answers: int | None = None
    """Number of the line that this one answers, from 0."""
    mentions: tuple[DemoPerson, ...] = ()


_DIRECT: Final = (
    _Line(BOB, "Hi Alice! This chat is on your own machine: no account, no cloud."),
    _Line(ALICE, "Nice. Does it work when I go offline?"),
    _Line(BOB, "It does. Write something, and it is sent as soon as you are back."),
    _Line(BOB, "Open a second window as me, and watch the ticks turn."),
)
_LUNCH: Final = (
    _Line(CAROL, "Lunch at half past twelve?"),
    _Line(ALICE, "I'm in 🍜"),
    _Line(BOB, "Me too. The noodle place, @Alice?", mentions=(ALICE,)),
    _Line(CAROL, "Noodles it is.", answers=2),
)
_NEWS: Final = InboxConfig(title="News", late_joiners=True, categories=("reminders", "updates"))
_NOTIFICATIONS: Final[tuple[tuple[Sequence[DemoPerson] | None, str, str, str], ...]] = (
    (None, "updates", "Welcome to Tidings", "Your product posts notifications here."),
    ((ALICE, BOB), "reminders", "Lunch at 12:30", "Carol asked whether you come along."),
    ((ALICE,), "updates", "Your report is ready", "It took 42 seconds."),
)


async def make_demo(core: Core, identity: IdentityVerbs) -> None:
    """Create the demo, unless it exists.

    The title of the tenant is set at the end. Until then, each start repeats all steps, and those
    that were done before change nothing.
    """
    tenant, _ = await identity.put_tenant(Root(), TENANT, None)
    if tenant.name is not None:
        return
    for person in PEOPLE:
        await identity.put_user(Root(), TENANT, person.user_id, person.display_name)
    alice, bob, carol = (user_key(TENANT, person.user_id) for person in PEOPLE)
    direct = await core.verbs.create(alice, "direct", None, [bob], None)
    await _talk(core, direct.chat_id, "direct", _DIRECT)
    lunch = await core.verbs.create(carol, "group", "Lunch", [alice, bob], "demo-lunch")
    first, *_ = await _talk(core, lunch.chat_id, "lunch", _LUNCH)
    await core.verbs.pin(carol, lunch.chat_id, first)
    await _notify(core)
    await identity.put_tenant(Root(), TENANT, TITLE)


async def _talk(core: Core, chat: ChatId, name: str, lines: Sequence[_Line]) -> list[int]:
    """Post the lines to a chat; return their sequences."""
    sequences: list[int] = []
    for number, line in enumerate(lines):
        message = NewMessage(
            client_message_id=f"demo-{name}-{number}",
            content=line.text,
            reply_to=None if line.answers is None else sequences[line.answers],
            mentions=[person.user_id for person in line.mentions] or None,
        )
        author = user_key(TENANT, line.person.user_id)
        entry, _ = await post(core.verbs, author, chat, message)
        # People read a chat before they write in it.
        await core.verbs.mark(author, chat, entry.sequence, entry.sequence)
        sequences.append(entry.sequence)
    return sequences


async def _notify(core: Core) -> None:
    await core.inbox.configs.put(TENANT, INBOX, _NEWS)
    for number, (people, category, title, body) in enumerate(_NOTIFICATIONS):
        users = None if people is None else [person.user_id for person in people]
        posting = Posting(users=users, message={"title": title, "body": body}, category=category)
        await core.inbox.post(TENANT, INBOX, posting, f"demo-{number}")


def demo_of(identity: IdentityVerbs) -> Demo:
    """Return the demo users, for the operations that sign users in."""
    return Demo(TENANT, PEOPLE, identity.make_token)

# SPDX-License-Identifier: Apache-2.0
"""Tables of docs/reference/cost.md, and the use cases that they list."""

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from tidings.model import limits
from tidings.tools import (
    chat_costs,
    identity_costs,
    inbox_costs,
    inspection_costs,
    option_costs,
    tenant_costs,
)
from tidings.tools.capacity_plan import Machine, fleet, plan
from tidings.tools.capacity_report import as_text
from tidings.tools.charges import Prices, Units, total
from tidings.tools.chat_costs import Cost
from tidings.tools.other_designs import (
    COUNTER_AND_ROWS,
    ROW_PER_MEMBER,
    ROW_PER_NOTIFICATION,
    SINGLE_TABLE,
)
from tidings.tools.traffic import Traffic

TEXT: Final = 300
"""Size of title, text and link, with the names of their fields, in bytes."""
AUDIENCES: Final = (1, 100, 1_000)
EVERYONE: Final = 10_000
"""Number of users of the tenant. Only the cost of the other design depends on it."""
COPIES: Final = 50
COPIES_MOST: Final = 1_000
SCHEDULE_POST: Final = "schedule a post to 100 users"
DELIVER_LATE: Final = "its time: 100 users get their copies"
SCHEDULE_BROADCAST: Final = "schedule a broadcast"
APPEND_LATE: Final = "its time: the broadcast is appended"
BY_PREFERENCE: Final = "post to 100 users, where users have preferences"
BROADCAST_BY_PREFERENCE: Final = "broadcast, where users have preferences"
PUSH_NOTICE: Final = "a push notice of a message, to one device"

PLAN_EMAILS: Final = "an escalation of a post to 100 users"
SEND_EMAILS: Final = "its time: one of 100 users gets an e-mail"

CONTACTS: Final = 50
USERS: Final = 50

ASK: Final = "request a code"
FIRST_LOGIN: Final = "log in, a new user"
NEXT_LOGIN: Final = "log in, again on the same device"
REFRESH: Final = "refresh a session"
FIRST_SIGHT: Final = "a token that a process sees for the first time"
LOOK: Final = "the feed of revocations, every two seconds for each process"
FIRST_NUMBER: Final = "a user gets a phone number"
NEXT_NUMBER: Final = "a user gets another phone number"
END_SESSION: Final = "end a session"
END_ALL: Final = "end all of a user's sessions and tokens"
BLOCK: Final = "block a user"
REGISTER_PUSH: Final = "register a device for push"
REGISTER_AGAIN: Final = "register a device for push again, unchanged"
BAN: Final = "ban a user"
TENANT: Final = "a tenant, with its quotas and their use"
TRACE: Final = "trace of a user, the first page"
CREATE_AS_TENANT: Final = "a group of ten, created by the tenant"
ERASE: Final = "erase all that a user has written"
DELETE_USER: Final = "delete a user with a session, a key and a group"
MISSED_ERASURES: Final = "erasures at hello, the first time in a process and tenant"
MAKE_TOKEN: Final = "a token for a user, and its record in the audit trail"
RECORD_ACT: Final = "any other administrative action: its record in the audit trail"
ACTS: Final = 50
LIST_ACTS: Final = f"list of {ACTS} actions of a tenant in one month"
CONNECTIONS: Final = "list of the connections of a user"
NEW_USER: Final = "a new user, without a phone number"
LIST_USERS: Final = f"list of {USERS} users of a tenant"
PROFILES: Final = f"{USERS} profiles, none of them cached"
DISCONNECT: Final = "a user disconnects: the last-seen time"
FIND_CONTACTS: Final = f"contacts, {CONTACTS} numbers of users"

SMALL: Final = 100
LARGE: Final = limits.CONTENT_BYTES_MAX
CHATS: Final = 50
FEW: Final = 10
"""Number of direct chats of a user who has mostly groups."""
PAGE: Final = 50
AT_ONCE: Final = 16
"""Messages in a full pack."""
MISSED: Final = 100
ONLINE: Final = {2: 1, 10: 9, 100: 99, 1_000: 100}
"""Number of connected readers, by the size of the chat: all members, except in the largest chat."""
ELSEWHERE: Final = "send, 1:1, online, the reader at another gateway"
_DESIGNS: Final = (ROW_PER_MEMBER, SINGLE_TABLE, COUNTER_AND_ROWS)

_HEADS: Final = ("Use case", "Until the answer", "In total", "Price of a million")
_PART: Final = "<!-- generated: {name} -->\n.*?<!-- end -->"


class InboxCase(NamedTuple):
    """One row of the table: a step from its request until the system is quiet."""

    name: str
    ours: Cost
    row_per_notification: Units | None = None


def post_name(users: int, *, in_store: bool = False) -> str:
    """Return the name of a post to listed users in the table."""
    people = "1 user" if users == 1 else f"{users:,} users"
    return f"post to {people}, jobs in the store" if in_store else f"post to {people}"


def inbox_cases() -> Iterator[InboxCase]:
    """Yield all use cases in the order of the table."""
    theirs = ROW_PER_NOTIFICATION
    for users in AUDIENCES:
        yield InboxCase(post_name(users), inbox_costs.post(users, TEXT), theirs.post(users, TEXT))
    for users in AUDIENCES:
        name = post_name(users, in_store=True)
        yield InboxCase(name, inbox_costs.post(users, TEXT, in_store=True))
    for has_key in (False, True):
        name = "broadcast, with a key" if has_key else "broadcast"
        cost = inbox_costs.post_to_everyone(TEXT, has_key=has_key)
        yield InboxCase(name, cost, theirs.post(EVERYONE, TEXT))
    most, text = max(AUDIENCES), TEXT
    listed, everyone = (inbox_costs.redact(TEXT, is_for_everyone=flag) for flag in (False, True))
    yield InboxCase(f"retract, of {most:,} users", listed, theirs.redact(most, text))
    yield InboxCase("retract a broadcast", everyone, theirs.redact(EVERYONE, text))
    yield InboxCase(f"progress, of {most:,} users", inbox_costs.progress(TEXT))
    yield InboxCase(
        f"list of {COPIES}", inbox_costs.list_page(COPIES, TEXT), theirs.list(COPIES, TEXT)
    )
    for copies in (COPIES, COPIES_MOST):
        yield InboxCase(
            f"unread count, {copies:,} copies", inbox_costs.unread(copies), theirs.unread()
        )
    newest = inbox_costs.unread(limits.INBOX_NEWS_MAX)
    yield InboxCase(f"counts at hello, {COPIES_MOST:,} copies", newest)
    yield InboxCase(f"read one of {COPIES}", inbox_costs.read_one(COPIES), theirs.read_one(TEXT))
    marked = theirs.read_before(COPIES, TEXT)
    yield InboxCase(f"read all of {COPIES}", inbox_costs.read_before(COPIES), marked)
    by_seconds = inbox_costs.read_posted_before(COPIES)
    yield InboxCase(f"read all of {COPIES}, by seconds", by_seconds, marked)
    yield InboxCase(f"archive one of {COPIES}", inbox_costs.change_one(COPIES))
    yield InboxCase(f"archive a broadcast, {COPIES} copies", inbox_costs.change_broadcast(COPIES))
    yield InboxCase(f"archive all of {COPIES}", inbox_costs.read_before(COPIES))
    yield InboxCase("choose an action", inbox_costs.act(TEXT))
    yield InboxCase("an inbox read again, at most once a second", inbox_costs.look_anew())
    for is_first in (True, False):
        name = "first preferences in an inbox" if is_first else "preferences in an inbox"
        yield InboxCase(name, inbox_costs.put_preferences(is_first=is_first))
    yield InboxCase(SCHEDULE_POST, inbox_costs.schedule_post(100, TEXT))
    yield InboxCase(DELIVER_LATE, inbox_costs.deliver_late(100))
    yield InboxCase(SCHEDULE_BROADCAST, inbox_costs.schedule_broadcast(TEXT))
    yield InboxCase(APPEND_LATE, inbox_costs.append_late(TEXT))
    yield InboxCase(PLAN_EMAILS, inbox_costs.plan_emails(100))
    yield InboxCase(SEND_EMAILS, inbox_costs.escalate(100, 1, TEXT))
    yield InboxCase(BY_PREFERENCE, inbox_costs.post_by_preference(100, TEXT))
    yield InboxCase(BROADCAST_BY_PREFERENCE, inbox_costs.post_to_everyone(TEXT, has_key=False))


class IdentityCase(NamedTuple):
    """One row of the table: a step from its request until the system is quiet."""

    name: str
    ours: Cost


def identity_cases() -> Iterator[IdentityCase]:
    """Yield all use cases in the order of the table."""
    yield IdentityCase(ASK, identity_costs.ask_for_code())
    yield IdentityCase(FIRST_LOGIN, identity_costs.first_login())
    yield IdentityCase(NEXT_LOGIN, identity_costs.next_login())
    yield IdentityCase(REFRESH, identity_costs.refresh())
    yield IdentityCase(FIRST_SIGHT, identity_costs.first_sight())
    yield IdentityCase(LOOK, identity_costs.look_at_feed())
    yield IdentityCase(FIRST_NUMBER, identity_costs.give_number(has_one=False))
    yield IdentityCase(NEXT_NUMBER, identity_costs.give_number(has_one=True))
    yield IdentityCase(END_SESSION, identity_costs.end_session())
    yield IdentityCase(END_ALL, identity_costs.end_all())
    yield IdentityCase(BLOCK, identity_costs.block())
    yield IdentityCase(REGISTER_PUSH, identity_costs.register_push())
    yield IdentityCase(REGISTER_AGAIN, identity_costs.register_push_again())
    yield IdentityCase(BAN, tenant_costs.ban())
    yield IdentityCase(ERASE, identity_costs.erase())
    yield IdentityCase(DELETE_USER, identity_costs.delete_user())
    yield IdentityCase(MISSED_ERASURES, identity_costs.missed_erasures())
    yield IdentityCase(MAKE_TOKEN, identity_costs.make_token())
    yield IdentityCase(RECORD_ACT, identity_costs.record_act())
    yield IdentityCase(LIST_ACTS, identity_costs.list_acts(ACTS))
    yield IdentityCase(CONNECTIONS, identity_costs.list_connections())
    yield IdentityCase(TENANT, tenant_costs.show_tenant())
    yield IdentityCase(TRACE, tenant_costs.trace())
    yield IdentityCase(CREATE_AS_TENANT, tenant_costs.create_chat(FEW))
    yield IdentityCase(FIND_CONTACTS, identity_costs.find_contacts(CONTACTS))
    yield IdentityCase(NEW_USER, identity_costs.new_user())
    yield IdentityCase(LIST_USERS, identity_costs.list_users(USERS))
    yield IdentityCase(PROFILES, identity_costs.show_profiles(USERS))
    yield IdentityCase(DISCONNECT, identity_costs.disconnect())


class UseCase(NamedTuple):
    """One row of the table: a step from its request until the system is quiet."""

    name: str
    ours: Cost
    row_per_member: Units | None = None
    single_table: Units | None = None
    counter_and_rows: Units | None = None

    @property
    def other_designs(self) -> tuple[Units | None, ...]:
        """The units of the other designs; None if a design lacks the feature."""
        return self.row_per_member, self.single_table, self.counter_and_rows


def send_name(members: int, content: int, readers: int) -> str:
    """Return the name of a send in the table."""
    people = "1:1" if members == 2 else f"{members:,} members"
    online = f"{readers} online" if 0 < readers < members - 1 else "online"
    return f"send, {people}, {online if readers else 'offline'}, {content:,} bytes"


def chats_name(direct: int) -> str:
    """Return the name of a user's chats in the table; those that are not direct are groups."""
    groups = CHATS - direct
    return f"{groups} groups and {direct} direct chats" if groups else f"{direct} direct chats"


def at_once_name(*, has_after: bool) -> str:
    """Return the name of many sends at once in the table."""
    return f"send, {AT_ONCE} at once in one chat{', with `after`' if has_after else ''}"


def use_cases() -> Iterator[UseCase]:
    """Yield all use cases in the order of the table."""
    yield from _sends()
    expiring = chat_costs.send(2, SMALL, 1, expires=True)
    sent = ROW_PER_MEMBER.send(2, SMALL) + ROW_PER_MEMBER.deliver(2, SMALL, 1)
    yield UseCase("send, 1:1, online, expires", expiring, sent)
    yield UseCase(ELSEWHERE, chat_costs.send(2, SMALL, 1))
    yield UseCase("send, 1:1, two processes in turn", chat_costs.send_in_turn(2, SMALL))
    for has_after in (False, True):
        cost = chat_costs.send_at_once(AT_ONCE, SMALL, has_after=has_after)
        yield UseCase(at_once_name(has_after=has_after), cost)
    yield UseCase("edit", chat_costs.edit(2, SMALL))
    yield UseCase("redact", chat_costs.redact(2, SMALL))
    yield UseCase("react", chat_costs.react(2, SMALL))
    yield UseCase("pin", option_costs.pin(SMALL))
    yield UseCase("reply, 1:1, offline", option_costs.reply(SMALL))
    yield UseCase("mention of one user, 1:1, offline", option_costs.mention(1, SMALL))
    yield UseCase("post by the tenant, 1:1, offline", option_costs.post(SMALL))
    yield UseCase("message with one file, 1:1, offline", option_costs.attach(1, SMALL))
    yield UseCase("schedule a message", option_costs.schedule(SMALL))
    yield UseCase("send a scheduled message, 1:1, offline", option_costs.send_scheduled(SMALL))
    yield UseCase("an event for a webhook endpoint", option_costs.webhook_event())
    yield UseCase(PUSH_NOTICE, option_costs.push_notice(SMALL))
    for joins in (True, False):
        name = "add a member to ten" if joins else "remove a member of ten"
        others = (design.change_members(10) for design in _DESIGNS)
        yield UseCase(name, chat_costs.change_members(joins=joins), *others)
    yield UseCase("freeze a chat of ten", chat_costs.change_settings())
    yield UseCase("delete a chat of ten, 2 messages", chat_costs.delete_chat(10, 2))
    marks = (design.mark_read(2, SMALL) for design in _DESIGNS)
    yield UseCase("mark read, over REST", chat_costs.mark_read(), *marks)
    yield UseCase("mark unread", chat_costs.mark_unread())
    yield UseCase("hide a chat", chat_costs.hide_chat())
    yield UseCase("who read a message, 1:1", chat_costs.message_receipts(2, SMALL))
    yield UseCase("report a message, 1:1", inspection_costs.report(2, SMALL))
    yield UseCase("explain a message, 1:1", inspection_costs.explain(2, 4, SMALL))
    yield from _reads()


def _sends() -> Iterator[UseCase]:
    for members, readers in ONLINE.items():
        for content in (SMALL, LARGE):
            yield _send(members, content, readers)
    for content in (SMALL, LARGE):
        yield _send(2, content, 0)


def _send(members: int, content: int, readers: int) -> UseCase:
    others = (
        design.send(members, content) + design.deliver(members, content, readers)
        for design in _DESIGNS
    )
    name = send_name(members, content, readers)
    return UseCase(name, chat_costs.send(members, content, readers), *others)


def _reads() -> Iterator[UseCase]:
    pages = (design.history(PAGE, SMALL) for design in _DESIGNS)
    yield UseCase(f"history page of {PAGE}", chat_costs.history(2, PAGE, SMALL), *pages)
    yield UseCase(
        f"log page of {PAGE}, for the tenant", inspection_costs.inspect_log(2, PAGE, SMALL)
    )
    yield UseCase("one message, by its id", chat_costs.message(2, SMALL))
    searched = option_costs.search(PAGE + 10, SMALL)
    yield UseCase(f"search in a chat of {PAGE + 10} messages", searched)
    lists = [design.chat_list(CHATS) for design in _DESIGNS]
    for direct in (CHATS, FEW):
        cost = chat_costs.chat_list(direct, CHATS - direct, SMALL)
        yield UseCase(f"chat list of {chats_name(direct)}", cost, *lists)
    for direct in (CHATS, FEW):
        yield UseCase(
            f"hello, {chats_name(direct)}, nothing new",
            chat_costs.hello(direct, CHATS - direct, direct, SMALL),
            counter_and_rows=COUNTER_AND_ROWS.hello(CHATS),
        )
    total_of = chat_costs.unread_total(CHATS, SMALL)
    yield UseCase(f"unread total of {chats_name(CHATS)}", total_of)
    yield UseCase(
        f"hello by heads, {chats_name(CHATS)}, {MISSED} missed",
        chat_costs.hello(CHATS, 0, CHATS, SMALL),
    )
    yield UseCase(
        f"reconnect, {chats_name(CHATS)}, {MISSED} missed",
        chat_costs.reconnect(CHATS, 0, CHATS, MISSED, SMALL),
        counter_and_rows=COUNTER_AND_ROWS.reconnect(CHATS, MISSED, SMALL),
    )


def filled_in(page: str) -> str:
    """Return the page with each generated part written anew."""
    load, prices, machine = Traffic(), Prices(), Machine()
    planned = plan(load, prices)
    example = as_text(planned, fleet(planned, machine), machine)
    for name, content in (
        ("use cases", _use_cases(prices)),
        ("use cases of the inbox", _inbox_cases(prices)),
        ("use cases of identity", _identity_cases(prices)),
        ("capacity", f"```\n$ tidings capacity\n{example}```"),
    ):
        part = re.compile(_PART.format(name=re.escape(name)), re.DOTALL)
        assert len(part.findall(page)) == 1, f"the page must have one generated part: {name}"
        fresh = f"<!-- generated: {name} -->\n{content}\n<!-- end -->"
        page = part.sub(lambda _, fresh=fresh: fresh, page)  # type: ignore[misc]
    return page


def _use_cases(prices: Prices) -> str:
    cases = (_row(case, case.other_designs, prices) for case in use_cases())
    return _table((*_HEADS, "row per member", "single table", "counter and rows"), cases)


def _inbox_cases(prices: Prices) -> str:
    return _table(
        (*_HEADS, "row per notification"),
        (_row(case, (case.row_per_notification,), prices) for case in inbox_cases()),
    )


def _identity_cases(prices: Prices) -> str:
    return _table(_HEADS, (_row(case, (), prices) for case in identity_cases()))


def _row(
    case: UseCase | InboxCase | IdentityCase, others: tuple[Units | None, ...], prices: Prices
) -> tuple[str, ...]:
    in_all = total(case.ours.in_all)
    own = price(in_all, prices)
    return (
        case.name,
        units_in_words(total(case.ours.to_the_answer)),
        units_in_words(in_all),
        f"${own:,.2f}",
        *(_beside(other, own, prices) for other in others),
    )


def _beside(other: Units | None, own: float, prices: Prices) -> str:
    if other is None:
        return "-"
    times = float(f"{price(other, prices) / own:.2g}")
    return f"{units_in_words(other)} (x {times:,g})"


def price(units: Units, prices: Prices) -> float:
    """Return the on-demand price in dollars of a million times these units."""
    return units.write * prices.million_write_units + units.read * prices.million_read_units


def units_in_words(units: Units) -> str:
    """Return the units as text, such as `2 w, 1 r`; a kind without units is left out."""
    parts = ((units.write, "w"), (units.read, "r"))
    return ", ".join(f"{value:,.10g} {kind}" for value, kind in parts if value) or "0"


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [heads, ("---",) * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)

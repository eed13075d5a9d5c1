# SPDX-License-Identifier: Apache-2.0
"""A chat's state from the tables: the end of its log, then its members.

The order matters. A transaction that is just being committed may show one half of itself: an entry
whose membership rows are still the old ones. So the entries read are folded over the rows, which
makes them right as of the last entry. Rows that are newer than that entry do no harm: whoever
claims the slot after it will lose it, and take in what came.
"""

from typing import Final

from tidings.model.chats import ChatState
from tidings.model.ids import ChatId, UserKey
from tidings.model.roles import Member
from tidings.stores.dynamodb.client import Dynamo
from tidings.stores.dynamodb.entries import last_items
from tidings.stores.dynamodb.items import member_key, to_entry, to_member
from tidings.stores.dynamodb.patterns import CHECK_MEMBER, LIST_MEMBERS, READ_CHAT
from tidings.stores.dynamodb.trouble import Item

FOLDED_ENTRIES: Final = 20
"""How many entries at the end of the log are folded over the rows: one would nearly always do."""


async def load_state(dynamo: Dynamo, chat: ChatId) -> ChatState | None:
    """A chat's state as of a head that is at least the one at the time of the call."""
    page = await last_items(dynamo, chat, FOLDED_ENTRIES)
    facts = await dynamo.get(READ_CHAT, {"chat_id": chat}) if page else None
    if facts is None:
        return None
    members = await members_of(dynamo, chat)
    oldest = to_entry(page[-1])
    state = ChatState(
        chat_id=chat,
        tenant=facts["tenant"],
        type=facts["type"],
        name=facts.get("name"),
        members=members,
        head=oldest.sequence - 1,
        is_deleted="deleted_at" in facts,
    )
    for item in reversed(page):
        state.fold(to_entry(item))
    return state


async def members_of(dynamo: Dynamo, chat: ChatId) -> dict[UserKey, Member]:
    """All members, longest-standing first."""
    rows = await dynamo.query(LIST_MEMBERS, "#chat_id = :chat", {":chat": chat})
    members = [(UserKey(row["user_id"]), to_member(row)) for row in rows]
    members.sort(key=lambda member: (member[1].joined, member[0]))
    return dict(members)


async def membership_row(dynamo: Dynamo, chat: ChatId, user: UserKey) -> Item | None:
    """The user's membership, read strongly; None unless a member.

    What was read of the chat before this call may be shown to the user if there is a row.
    """
    return await dynamo.get(CHECK_MEMBER, member_key(chat, user))

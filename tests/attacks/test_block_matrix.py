# SPDX-License-Identifier: Apache-2.0
"""Who sees what of whom when Amy blocks Ben: every operation about another user, for each side.

Nobody can tell from any answer that they are blocked, except where a row says so.
"""

from collections.abc import Callable
from typing import Any, Final, Literal, NamedTuple

import pytest
import pytest_asyncio

from tests.attacks import matrix
from tests.attacks.twins import BLOCKED, BLOCKER, Told, Twin, make_twin
from tests.integration.engines import long_engine as long_engine
from tests.integration.rest_world import Json, Rest
from tidings.api.app import OPERATIONS

pytestmark = pytest.mark.asyncio(loop_scope="module")

Cell = Literal["same", "masked", "less", "refused"]
"""An answer compared with that where nobody blocks anybody. `masked`: entries say `blocked` and
have no content; `less`: something is left out or counted less."""


class Row(NamedTuple):
    """What the blocker is told about the blocked user, and the other way round."""

    blocker: Cell
    blocked: Cell


SAME: Final = Row("same", "same")
MASKED: Final = Row("masked", "same")
LESS: Final = Row("less", "same")
REFUSED: Final = Row("refused", "same")

BODIES: Final[dict[str, Callable[[dict[str, Any]], Json]]] = {
    "create_chat": lambda names: {
        "type": "direct" if names["where"] == "direct" else "group",
        "name": None if names["where"] == "direct" else "New",
        "members": [names["other"]],
    },
    "post_message": lambda names: {
        "client_message_id": "now",
        "content": "now",
        "mentions": [names["other"]],
        "reply_to": names["sequence"],
    },
    "search_messages": lambda names: {"q": "hazel"},
    "mark_receipt": lambda names: {"read": names["sequence"]},
    "mark_unread": lambda names: {"from": names["sequence"]},
    "hide_chat": lambda names: {"hidden": True},
    "link_attachment": lambda names: {"thumbnail": True},
    "report_message": lambda names: {"reason": "spam"},
    "report_user": lambda names: {"reason": "spam"},
    "find_contacts": lambda names: {"phone_numbers": ["+491701234567"]},
    "put_member": lambda names: {"role": "member"},
}
QUERIES: Final = {
    "list_profiles": "?ids={other},dan",
    "list_entries": "?after=0",
    "list_messages": "?after=0&limit=100",
    "list_replies": "?after=0",
}
ROWS: Final[dict[str, Row]] = {
    # What is read comes first: later rows change something, in both tenants alike. Amy's own
    # receipt in the direct chat is another one where she has read it.
    "list_profiles": SAME,
    "get_user": SAME,
    "find_contacts": SAME,
    "list_chats": LESS,
    "get_chat": SAME,
    "get_chat direct": LESS,
    "list_members": SAME,
    "list_members direct": LESS,
    "list_invites": SAME,
    "list_blocks": LESS,
    "get_message": MASKED,
    "get_message direct": MASKED,
    "find_message": MASKED,
    "find_message direct": MASKED,
    "list_messages": MASKED,
    "list_messages direct": MASKED,
    "list_entries": MASKED,
    "list_entries direct": MASKED,
    "list_replies": MASKED,
    "list_replies direct": MASKED,
    "list_pins": MASKED,
    "list_pins direct": MASKED,
    "list_reactions": SAME,
    "list_reactions direct": SAME,
    "list_mentions": LESS,
    "search_messages": LESS,
    "list_receipts": SAME,
    "list_receipts direct": LESS,
    "list_message_receipts": SAME,
    "list_message_receipts direct": LESS,
    "get_unread": LESS,
    "read_attachment": REFUSED,
    "read_attachment direct": REFUSED,
    "read_thumbnail": REFUSED,
    "link_attachment": REFUSED,
    "link_attachment direct": REFUSED,
    "report_message": SAME,
    "report_message direct": SAME,
    "report_user": SAME,
    "add_reaction": SAME,
    "add_reaction direct": SAME,
    "remove_reaction": SAME,
    "post_message": SAME,
    "post_message direct": SAME,
    "pin_message": SAME,
    "unpin_message direct": SAME,
    "mark_unread": LESS,
    "hide_chat": SAME,
    "hide_chat direct": SAME,
    "mark_receipt": LESS,
    "mark_receipt direct": LESS,
    "create_chat direct": LESS,
    "create_chat own": Row("same", "refused"),
    "put_member own": Row("same", "refused"),
    "accept_invite direct": LESS,
    "redact_message": SAME,
    "remove_member": SAME,
    "block_user": SAME,
    "unblock_user": SAME,
}
"""Operations, each with the chat in which it is asked for: the group by default, the direct chat,
or a group of the caller's own."""
NOT_ABOUT_OTHERS: Final = frozenset(
    "get_me patch_me list_sessions list_devices revoke_session revoke_own_sessions show_push"
    " register_device end_device create_upload upload_file continue_upload get_offset put_thumbnail"
    " list_scheduled change_scheduled cancel_scheduled list_inboxes list_notifications"
    " mark_notifications_read count_unread get_preferences put_preferences act_on_notification"
    " change_notification_states stack_list stack_mark_read stack_count_unread follow_link"
    " rename_chat mute_chat leave_chats delete_chat decline_invite edit_message".split()
)


def address(name: str, where: str, names: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
    """Method and path of an operation, and what its parameters are."""
    one = next(one for one in OPERATIONS if one.name == name)
    given = {
        "chat_id": names[where],
        **{
            name: names.get(f"{where} {name}")
            for name in ("sequence", "attachment_id", "message_id")
        },
        "user_id": names["other"],
        "where": where,
        **names,
    }
    return one.method, one.path.format(**given) + QUERIES.get(name, "").format(**given), given


async def ask(twin: Twin, caller: str, row: str) -> Told:
    """What a caller is told about the other one."""
    name, _, where = row.partition(" ")
    method, path, given = address(name, where or "group", twin.names[caller])
    body = BODIES[name](given) if name in BODIES else None
    return await twin.told(caller, method, path, body)


def compare(found: Told, plain: Told) -> Cell:
    """What is different where somebody is blocked."""
    if found == plain:
        return "same"
    if found[0] != plain[0]:
        return "refused"
    return "masked" if '"blocked":true' in found[2] else "less"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def twins(rest: Rest) -> tuple[Twin, Twin]:
    """One with a block, and one without."""
    start = rest.clock.time
    one = await make_twin(rest, "acme1", is_blocked=True)
    end, rest.clock.time = rest.clock.time, start
    two = await make_twin(rest, "acme2", is_blocked=False)
    assert rest.clock.time == end
    return one, two


def users_operations() -> set[str]:
    """What a user may ask for, and not everybody."""
    return {
        name
        for name, row in matrix.OPERATIONS.items()
        if row["anonymous"].status == 401 and (row["owner"].is_success or row["member"].is_success)
    }


async def test_every_operation_of_users_has_a_row_unless_it_is_about_nobody_else() -> None:
    named = {row.partition(" ")[0] for row in ROWS}
    assert not named & NOT_ABOUT_OTHERS
    assert users_operations() - NOT_ABOUT_OTHERS == named


@pytest.mark.attack("D19")
async def test_who_sees_what_of_whom(twins: tuple[Twin, Twin]) -> None:
    """All in one test: the rows follow each other."""
    found, details = {}, {}
    for row in ROWS:
        cells = []
        for caller in (BLOCKER, BLOCKED):
            answers = [await ask(twin, caller, row) for twin in twins]
            cells.append(compare(*answers))
            if cells[-1] != ROWS[row][caller == BLOCKED]:
                details[row, caller] = answers
        found[row] = Row(*cells)
    assert found == ROWS, details

# SPDX-License-Identifier: Apache-2.0
"""Receipts: mark a chat as received or read, and list the receipts of all members."""

from typing import Final

import msgspec

from tidings.actions.verbs import ChatVerbs
from tidings.api.fields import Sequence
from tidings.api.operations import operation
from tidings.api.requests import Body
from tidings.model.ids import ChatId, UserKey, user_id
from tidings.model.refusals import ChatNotFound, ReceiptBeyondHead
from tidings.wire.records import ReceiptRecord

TAG: Final = "Receipts"


class ReceiptChange(Body, frozen=True):
    """The sequences up to which the caller has received and read the chat."""

    delivered: Sequence = 0
    read: Sequence = 0


class ReceiptState(msgspec.Struct):
    """The caller's receipt, and how many messages are unread."""

    delivered: int
    read: int
    unread: int
    unread_exact: bool


class ReceiptList(msgspec.Struct):
    """The receipts of all members, longest-standing member first."""

    data: list[ReceiptRecord]
    next_cursor: None = None


@operation(
    "PUT",
    "/v1/chats/{chat_id}/receipt",
    tag=TAG,
    summary="Mark a chat as received or read",
    refusals=(ChatNotFound, ReceiptBeyondHead),
)
async def mark_receipt(
    user: UserKey, chat: ChatId, data: ReceiptChange, verbs: ChatVerbs
) -> ReceiptState:
    """Move the caller's receipt forward; lower sequences change nothing."""
    receipt, unread = await verbs.mark(user, chat, data.delivered, data.read)
    return ReceiptState(receipt.delivered, receipt.read, unread.count, unread.exact)


@operation(
    "GET",
    "/v1/chats/{chat_id}/receipts",
    tag=TAG,
    summary="List the receipts of a chat",
    refusals=(ChatNotFound,),
)
async def list_receipts(user: UserKey, chat: ChatId, verbs: ChatVerbs) -> ReceiptList:
    """Return one receipt for each member."""
    receipts = await verbs.receipts(user, chat)
    return ReceiptList(
        [
            ReceiptRecord(user_id(receipt.user), receipt.delivered, receipt.read)
            for receipt in receipts
        ]
    )


OPERATIONS: Final = (mark_receipt, list_receipts)

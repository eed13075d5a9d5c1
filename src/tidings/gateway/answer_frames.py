# SPDX-License-Identifier: Apache-2.0
"""Makes the frames that answer the requests of a client."""

import msgspec

from tidings.gateway.context import GatewayContext
from tidings.gateway.conversation import Conversation, refused
from tidings.metrics import declared
from tidings.model import limits
from tidings.model.entries import Entry
from tidings.model.ids import rfc3339, tenant_of
from tidings.model.refusals import Refusal
from tidings.ports.log import Page
from tidings.wire.frames import Fetch, PageFrame, SentFrame, encode
from tidings.wire.records import entry_record


def refusal_frame(
    context: GatewayContext, conversation: Conversation, refusal: Refusal, request: str | None
) -> bytes:
    """Count and record a refusal; return the frame that tells the client."""
    declared.refusals.counts[refusal.code, "socket"] += 1
    user = conversation.user
    if request is not None and user is not None:
        context.refusals.refused(request, refusal.code, "socket", tenant_of(user), user)
    return encode(refused(refusal, request))


def sent_frame(request: str, entry: Entry) -> bytes:
    """Return the frame that confirms a message."""
    answer = SentFrame(
        request, entry.chat_id, entry.sequence, entry.message_id, rfc3339(entry.created_at)
    )
    return encode(answer)


def page_frame(frame: Fetch, page: Page) -> PageFrame:
    """Return a frame with as many entries of the page as fit, in the order of the log."""
    raws: list[msgspec.Raw] = []
    size = 0
    for entry in page.entries:
        raw = msgspec.Raw(encode(entry_record(entry)))
        size += len(raw)
        if raws and size > limits.PAGE_FRAME_BYTES_MAX:
            break
        raws.append(raw)
    more = len(raws) < len(page.entries) or page.next is not None
    if frame.before is not None:
        raws.reverse()
    return PageFrame(frame.id, frame.chat, raws, page.head.sequence, more)

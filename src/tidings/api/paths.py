# SPDX-License-Identifier: Apache-2.0
"""What stands in paths. A name that cannot be one is refused as one that is not there."""

import re
from typing import Any, Final

from litestar.params import FromPath

from tidings.model import limits
from tidings.model.ids import CHAT, MESSAGE, SEQUENCE_MAX, TENANT, USER, ChatId
from tidings.model.refusals import ChatNotFound, MessageNotFound

_SEQUENCE: Final = re.compile(r"[1-9][0-9]{0,15}")


def _matching(pattern: re.Pattern[str]) -> dict[str, Any]:
    return {"type": "string", "pattern": f"^{pattern.pattern}$"}


SCHEMAS: Final[dict[str, dict[str, Any]]] = {
    "chat_id": _matching(CHAT),
    "emoji": {
        "type": "string",
        "minLength": 1,
        "maxLength": limits.EMOJI_BYTES_MAX,
        "pattern": r"^[^\s/]+$",
    },
    "key_id": {"type": "string", "pattern": "^[0-9a-f]{16}$"},
    "message_id": _matching(MESSAGE),
    "sequence": {"type": "integer", "minimum": 1, "maximum": SEQUENCE_MAX},
    "tenant": _matching(TENANT),
    "user_id": _matching(USER),
}
"""The form of each parameter, as the OpenAPI document tells it."""


async def chat(chat_id: FromPath[str]) -> ChatId:
    """The chat a path names."""
    if CHAT.fullmatch(chat_id) is None:
        raise ChatNotFound
    return ChatId(chat_id)


async def place(sequence: FromPath[str]) -> int:
    """The sequence a path names."""
    if _SEQUENCE.fullmatch(sequence) is None or int(sequence) > SEQUENCE_MAX:
        raise MessageNotFound
    return int(sequence)

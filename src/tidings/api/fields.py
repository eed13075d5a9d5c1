# SPDX-License-Identifier: Apache-2.0
"""What fields of requests may hold.

Bounds of numbers are enforced where a request is read. The form of texts is only told here: the
actions check it for every way in, with codes of their own.
"""

import re
from typing import Annotated

import msgspec

from tidings.actions.users import PHONE_NUMBER
from tidings.model import limits
from tidings.model.ids import CLIENT_MESSAGE_ID, SEQUENCE_MAX, USER


def _told(**schema: object) -> msgspec.Meta:
    return msgspec.Meta(extra_json_schema=schema)


def _matching(pattern: re.Pattern[str]) -> msgspec.Meta:
    return _told(pattern=f"^{pattern.pattern}$")


Limit = Annotated[int, msgspec.Meta(ge=1, le=limits.PAGE_MAX)]
Sequence = Annotated[int, msgspec.Meta(ge=0, le=SEQUENCE_MAX)]
TtlSeconds = Annotated[int, msgspec.Meta(ge=1, le=limits.TTL_SECONDS_MAX)]
TokenSeconds = Annotated[int, msgspec.Meta(ge=1, le=limits.TOKEN_SECONDS_MAX)]

UserId = Annotated[str, _matching(USER)]
Device = UserId
ClientMessageId = Annotated[str, _matching(CLIENT_MESSAGE_ID)]
PhoneNumber = Annotated[str, _matching(PHONE_NUMBER)]
Name = Annotated[str, _told(minLength=1, maxLength=limits.NAME_CHARS_MAX)]
Content = Annotated[str, _told(minLength=1, maxLength=limits.CONTENT_BYTES_MAX)]
ContentType = Annotated[
    str, _told(pattern="^[!-.0-~][ -~]*/[ -~]+$", maxLength=limits.CONTENT_TYPE_CHARS_MAX)
]
Time = Annotated[str, _told(format="date-time")]

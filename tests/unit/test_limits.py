# SPDX-License-Identifier: Apache-2.0
"""The limits are consistent with each other."""

import re
from pathlib import Path

import tidings_client.client
from tidings.model import limits

ROOT = Path(__file__).resolve().parents[2]


def test_frames_hold_what_they_must() -> None:
    assert 6 * limits.CONTENT_BYTES_MAX + 8 * limits.KIB < limits.FRAME_BYTES_MAX, (
        "escaped content must fit in one frame"
    )
    assert 6 * limits.CONTENT_BYTES_MAX + 4 * limits.KIB < limits.PAGE_FRAME_BYTES_MAX, (
        "a page frame holds any one entry"
    )
    assert limits.PAGE_FRAME_BYTES_MAX < limits.FRAME_BYTES_MAX, "a page is one frame"
    assert limits.CATCH_UP_CHAT_ENTRIES_MAX <= limits.WINDOW_ENTRIES, (
        "one chat's catch-up fits an empty window"
    )
    assert (
        limits.HEADS_CHATS_MAX * len(f'"{26 * "0"}":{2**53 - 1},') + limits.KIB
        < limits.FRAME_BYTES_MAX
    ), "the heads of this many chats fit in one frame"
    assert limits.OUTBOX_PAUSE_BYTES < limits.OUTBOX_BYTES_MAX
    assert limits.ERASURES_MAX * 128 < limits.OUTBOX_BYTES_MAX, (
        "all erasures at hello fit into the outbox"
    )
    assert (
        6
        * (
            limits.TITLE_BYTES_MAX
            + limits.BODY_BYTES_MAX
            + limits.LINK_BYTES_MAX
            + limits.SENDER_CHARS_MAX
        )
        + (limits.EXTRAS_BYTES_MAX + 4 * limits.KIB)
        < limits.FRAME_BYTES_MAX
    ), "an escaped notification must fit in one frame"


def test_logins_and_keys_end_in_the_right_order() -> None:
    assert limits.CODE_ATTEMPTS_ELSEWHERE_MAX < limits.CODE_ATTEMPTS_MAX, (
        "the requester of a code can always try it"
    )
    assert (
        limits.NUMBER_CODES_MAX
        <= limits.NUMBER_DAY_CODES_MAX
        < limits.NUMBER_ALL_TENANTS_DAY_CODES_MAX
    )
    assert limits.SEAL_SECONDS_MAX <= limits.REVOKED_SECONDS_MAX, (
        "a cached key may open at least as long as it may seal"
    )
    assert limits.SEAL_SECONDS_MAX + limits.SEALED_WRITE_SECONDS_MAX < limits.ERASING_SECONDS, (
        "the clocks of two processes may run at slightly different speeds"
    )


def test_nobody_can_use_up_what_is_for_all() -> None:
    assert limits.TRAILER_BYTES_MAX <= limits.HEAD_BYTES_MAX
    assert limits.SCARCE_KEEP_ALIVE_MS < limits.REQUEST_MS_MAX < limits.KEEP_ALIVE_MS
    assert limits.ADDRESS_HTTP_CONNECTIONS_MAX < limits.UNDECIDED_CONNECTIONS_MAX, (
        "one address cannot use up the places of undecided connections"
    )
    assert (
        68 * limits.AUDIENCE_USERS_MAX + limits.REQUEST_BODY_BYTES_MAX < limits.POST_BODY_BYTES_MAX
    ), "the largest audience with the longest user ids fits in a post"
    assert (
        limits.USER_REQUESTS_PER_SECOND <= limits.ADDRESS_REQUESTS_PER_SECOND
        and limits.USER_REQUESTS_BURST <= limits.ADDRESS_REQUESTS_BURST
    ), "one address allows everything that one user may request"
    assert limits.PAGE_DEFAULT <= limits.PAGE_ROWS_PER_TOKEN, (
        "a page of the default size is a plain request"
    )
    assert (
        10 * limits.GROUP_MEMBERS_MAX <= limits.GROUP_MEMBERS_PER_TOKEN * limits.USER_REQUESTS_BURST
    ), "a user can create ten of the largest groups at once"
    assert (
        10 * limits.AUDIENCE_USERS_MAX <= limits.JOB_USERS_MAX * limits.TENANT_KEY_REQUESTS_BURST
    ), "a tenant can post ten of the largest notifications at once"
    assert limits.TENANT_LARGE_BODIES_MAX < limits.LARGE_BODIES_MAX, (
        "one tenant leaves slots to the others"
    )
    assert limits.LARGE_BODY_WAIT_MS_MAX < limits.REQUEST_MS_MAX // 2, (
        "a body that waited still has time to arrive"
    )


def test_the_largest_chat_and_the_largest_audience_fit() -> None:
    assert 3 * limits.MEMBERS_PER_ENTRY_MAX + 2 <= 100, "one membership step is one transaction"
    assert (
        limits.LISTED_UNREAD_ENTRIES_MIN
        <= limits.UNREAD_ENTRIES_MAX
        <= limits.LIST_UNREAD_ENTRIES_MAX
    )
    assert limits.SMALL_CHAT_MEMBERS_MAX < limits.GROUP_MEMBERS_MAX
    assert limits.GROUP_MEMBERS_MAX <= limits.USER_DAY_STRANGERS_MAX, (
        "the largest group can be made in one day"
    )
    assert limits.INVITER_INVITES_MAX < limits.USER_INVITES_MAX
    assert limits.INVITE_DECLINED_MS < limits.INVITE_MS
    assert limits.OTHERS_CHATS_MAX < limits.OTHERS_DIRECT_CHATS_MAX, (
        "groups leave room for direct chats"
    )
    assert (
        limits.AUDIENCE_USERS_MAX
        + (
            limits.TITLE_BYTES_MAX
            + limits.BODY_BYTES_MAX
            + limits.LINK_BYTES_MAX
            + limits.EXTRAS_BYTES_MAX
        )
        + (limits.SENDER_CHARS_MAX + limits.HOST_SYSTEM_ID_CHARS_MAX + limits.LABEL_CHARS_MAX)
        + limits.KIB
        < limits.BODY_PARTS_MAX
    ), "the largest audience can get a text that consists of commas"
    assert limits.PAGE_MAX < limits.USER_COPIES_MAX <= limits.INBOX_LOG_ENTRIES_MAX
    assert limits.DELETION_DELIVERY_MS < limits.DELETION_DELIVERY_MS_MAX, "it may take longer"
    assert limits.DELETION_DELIVERY_MS_MAX < limits.DELETION_LEASE_MS, (
        "a lease outlasts every wait of a step"
    )
    assert limits.SMALL_CHAT_MEMBERS_MAX <= limits.PRESENCE_PEERS_MAX, (
        "presence covers everyone in a small chat"
    )


def test_clients_refuse_the_same_messages_as_the_server() -> None:
    # They check the size themselves, so that a message that is too long fails at once.
    source = (ROOT / "clients/js/src/sending.js").read_text(encoding="utf-8")
    in_javascript = re.search(r"CONTENT_BYTES_MAX = ([\d_]+);", source)
    assert in_javascript is not None
    assert int(in_javascript[1]) == limits.CONTENT_BYTES_MAX
    assert tidings_client.client.CONTENT_BYTES_MAX == limits.CONTENT_BYTES_MAX

# SPDX-License-Identifier: Apache-2.0
"""The plan of a hello: complete, or `resync`, or `gone`, within the bounds."""

from collections.abc import Mapping, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.gateway.catch_up import CatchUpPlan, plan_catch_up
from tidings.model import limits
from tidings.model.chats import ChatHead, Receipt
from tidings.model.entries import Head
from tidings.model.ids import ChatId, user_key

PER_CHAT = limits.CATCH_UP_CHAT_ENTRIES_MAX
PER_HELLO = limits.CATCH_UP_HELLO_ENTRIES_MAX
NOTHING_READ = Receipt(user_key("acme", "ann"), 0, 0, 0)


def held(chat: str, head: int) -> ChatHead:
    return ChatHead(ChatId(chat), Head(sequence=head), NOTHING_READ, member_count=2)


def planned(
    chats: Sequence[ChatHead], have: Mapping[str, int] | None = None, *, is_same_epoch: bool = True
) -> CatchUpPlan:
    return plan_catch_up(chats, have or {}, is_same_epoch=is_same_epoch)


def starts(made: CatchUpPlan) -> dict[str, int]:
    return {row.chat_id: start for row, start in made.follow}


def resynced(made: CatchUpPlan) -> list[str]:
    return [row.chat_id for row in made.resync]


def test_a_device_goes_on_after_what_it_has() -> None:
    made = planned([held("a", 30), held("b", 30), held("c", 30)], {"a": 30, "b": 12, "c": 0})
    assert starts(made) == {"a": 30, "b": 12, "c": 0}
    assert (made.resync, made.gone) == ([], [])


def test_a_chat_it_does_not_name_starts_at_its_newest_entries() -> None:
    made = planned([held("long", PER_CHAT + 7), held("short", PER_CHAT - 7)])
    assert starts(made) == {"long": 7, "short": 0}


def test_a_chat_in_which_more_is_missing_than_one_chat_gets_starts_over() -> None:
    head = 2 * PER_CHAT
    made = planned([held("a", head), held("b", head)], {"a": PER_CHAT, "b": PER_CHAT - 1})
    assert starts(made) == {"a": PER_CHAT}
    assert resynced(made) == ["b"]


def test_what_the_log_does_not_reach_cannot_be_continued() -> None:
    made = planned([held("a", 10)], {"a": 11})
    assert (starts(made), resynced(made)) == ({}, ["a"])


def test_a_chat_of_another_epoch_starts_over_and_others_do_not() -> None:
    made = planned([held("a", 10), held("b", 10)], {"a": 10}, is_same_epoch=False)
    assert (starts(made), resynced(made)) == ({"b": 0}, ["a"])


def test_a_chat_that_is_not_the_users_is_gone_in_any_epoch() -> None:
    for is_same_epoch in (True, False):
        made = planned([held("a", 10)], {"x": 3, "y": 0}, is_same_epoch=is_same_epoch)
        assert made.gone == ["x", "y"]
        assert starts(made) == {"a": 0}


def test_the_newest_chats_come_first_and_the_rest_starts_over() -> None:
    chats = [held(f"c{number}", PER_CHAT) for number in range(PER_HELLO // PER_CHAT + 2)]
    made = planned(chats)
    assert list(starts(made)) == [f"c{number}" for number in range(PER_HELLO // PER_CHAT)]
    assert resynced(made) == ["c10", "c11"]


def test_what_still_fits_is_sent_after_what_did_not() -> None:
    full = [held(f"c{number}", PER_CHAT) for number in range(PER_HELLO // PER_CHAT - 1)]
    rest = [held("fits", PER_CHAT - 10), held("does not", 11), held("fits too", 10)]
    made = planned([*full, *rest])
    assert list(starts(made))[-2:] == ["fits", "fits too"]
    assert resynced(made) == ["does not"]


heads = st.integers(0, 3 * PER_CHAT)
chat_names = st.sampled_from([f"c{number}" for number in range(30)])


@settings(deadline=None)
@given(
    st.dictionaries(chat_names, heads, max_size=30),
    st.dictionaries(chat_names, heads, max_size=30),
    st.booleans(),
)
def test_every_chat_is_complete_or_starts_over_or_is_gone(
    logs: dict[str, int], have: dict[str, int], is_same_epoch: bool
) -> None:
    made = planned([held(*log) for log in logs.items()], have, is_same_epoch=is_same_epoch)

    told = [*starts(made), *resynced(made)]
    assert sorted(told) == sorted(logs)
    assert set(made.gone) == set(have) - set(logs)
    assert list(starts(made)) == [chat for chat in logs if chat in starts(made)]
    missing = {chat: logs[chat] - start for chat, start in starts(made).items()}
    assert all(0 <= count <= PER_CHAT for count in missing.values())
    assert sum(missing.values()) <= PER_HELLO
    for chat, start in starts(made).items():
        assert start == (have[chat] if chat in have else max(0, logs[chat] - PER_CHAT))
        assert chat not in have or is_same_epoch

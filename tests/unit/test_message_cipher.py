# SPDX-License-Identifier: Apache-2.0
"""Messages between processes: opened only where they were sent to, and only if one of ours did."""

import logging

import pytest

from tests.support.message_cipher import a_cipher
from tidings.wire import events
from tidings.wire.events import SALT_BYTES, MessageCipher

HERE = "tidings:gateway:g1"


def test_every_process_of_a_deployment_opens_what_another_sealed() -> None:
    one, other = a_cipher(), a_cipher()
    for payload in (b"", b"hello", b"x" * 100_000):
        sealed = one.seal(HERE, payload)
        assert other.open(HERE, sealed) == one.open(HERE, sealed) == payload
        assert len(sealed) - len(payload) == 41
    assert b"hello" not in one.seal(HERE, b"hello")
    assert one.seal(HERE, b"hello") != one.seal(HERE, b"hello"), "no nonce is used twice"


@pytest.mark.attack("S13", "H02", "H03")
def test_nothing_else_is_opened() -> None:
    ours, stranger = a_cipher(), a_cipher(bytes(32))
    sealed = ours.seal(HERE, b"hello")
    forged = [
        b"",
        b"hello",
        sealed[:-1],
        sealed + b"x",
        stranger.seal(HERE, b"hello"),
        ours.seal("tidings:gateway:g2", b"hello"),
        *(sealed[:at] + bytes([sealed[at] ^ 1]) + sealed[at + 1 :] for at in range(len(sealed))),
    ]
    assert [ours.open(HERE, one) for one in forged] == [None] * len(forged)
    assert ours.refused == len(forged)
    assert ours.open(HERE, sealed) == b"hello"


def test_what_is_refused_is_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    cipher = MessageCipher(bytes(32), bytes(SALT_BYTES), now=lambda: now[0])
    with caplog.at_level(logging.WARNING, "tidings.messages"):
        for _ in range(1_000):
            cipher.open(HERE, b"forged")
        now[0] = 59.9
        cipher.open(HERE, b"forged")
        assert len(caplog.records) == 1
        now[0] = 60.0
        cipher.open(HERE, b"forged")
    assert [record.__dict__["refused"] for record in caplog.records] == [1, 1_002]


def test_keys_of_many_senders_are_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "SENDERS_MAX", 3)
    receiver, senders = a_cipher(), [a_cipher() for _ in range(10)]
    for _ in range(2):
        for sender in senders:
            assert receiver.open(HERE, sender.seal(HERE, b"hello")) == b"hello"
    assert len(receiver._others) == 3

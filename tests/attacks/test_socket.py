# SPDX-License-Identifier: Apache-2.0
"""Attacks on the socket that need a server as it runs, on every engine."""

from pathlib import Path
from typing import Any, Final

import pytest

from tests.integration.engines import engine as engine
from tests.integration.raw_socket import CONTINUATION, RawSocket, upgrade_request, ws_frame
from tests.integration.socket_town import friends, people, post, settled, told, until_entries
from tests.support.people import Town
from tests.support.server import ServerProcess

pytestmark = pytest.mark.asyncio(loop_scope="module")

KIB: Final = 1_024
MIB: Final = 1_024 * KIB


def memory_of(server: ServerProcess) -> int:
    """The bytes that the server has in memory."""
    lines = Path(f"/proc/{server.pid}/status").read_text().splitlines()
    (resident,) = (line for line in lines if line.startswith("VmRSS:"))
    return int(resident.split()[1]) * KIB


@pytest.mark.attack("C01", "C13", "D15")
async def test_what_a_handshake_brings_along_is_nobodys_identity(
    town: Town, server: ServerProcess
) -> None:
    """A browser sends its cookies to any address, whichever page asked: they must count nothing."""
    ann, bob = await people(town, "ann", "bob")
    brought = {
        "Cookie": f"token={ann.token}; access_token={ann.token}; session={ann.token}",
        "Authorization": f"Bearer {ann.token}",
        "X-Tenant-ID": "elsewhere",
        "X-User-Id": ann.user_id,
    }
    path = f"/v1/ws?tenant=elsewhere&user={ann.user_id}&device=stolen"
    for frame in ({"op": "ping"}, {"op": "auth", "token": ann.token}):
        async with await RawSocket.connect(server.port) as raw:
            raw.write(upgrade_request(server.port, path, headers=brought))
            assert await raw.status() == 101
            raw.tell(frame)
            assert await raw.close_code() == 4401

    async with await RawSocket.connect(server.port) as raw:
        raw.write(upgrade_request(server.port, path, headers=brought))
        assert await raw.status() == 101
        raw.tell({"op": "hello", "token": bob.token, "device": "own"})
        welcome = await raw.frame("welcome")
    assert (welcome["user"], welcome["device"]) == (bob.user_id, "own")


@pytest.mark.attack("C05", "C06")
async def test_what_is_too_large_is_not_kept_while_it_comes(
    town: Town, server: ServerProcess
) -> None:
    """Some 100 MB on 50 connections, none of which has a right to more than 64 KiB."""
    vandals = await people(town, "ann", "bob", "cat")
    before = memory_of(server)
    for number in range(50):
        raw = await RawSocket.greeted(server.port, vandals[number % 3].token)
        match number % 3:
            case 0:
                raw.write(ws_frame(b"x" * MIB, claimed_length=1_000 * MIB))
            case 1:
                raw.write(ws_frame(b"x" * MIB, reserved=0b100))
            case _:
                raw.write(ws_frame(b"x" * KIB, fin=False))
                raw.write(ws_frame(b"x" * KIB, CONTINUATION, fin=False) * 2 * KIB)
        assert await raw.close_code() in (1006, 1009, 4400, 4413)
        raw.abort()
    assert memory_of(server) - before < 32 * MIB
    async with vandals[0].device() as device:
        await settled(device)


@pytest.mark.attack("C11", "C12")
async def test_acknowledgements_of_earlier_connections_change_nothing(town: Town) -> None:
    chat, (ann, bob) = await friends(town, "ann", "bob")
    async with ann.device() as writer, bob.device() as reader:
        reader.acknowledges = False
        await post(writer, chat, 9)
        await until_entries(reader, chat, 10)
        for op in ("received", "read"):
            for sequence in (7, 3, 7, 5, 0):
                reader.tell({"op": op, "chat": chat, "sequence": sequence})
        await writer.frame("receipt", user=bob.user_id, read=7)
        await reader.close()
        await reader.connect()
        for op in ("received", "read", "read"):
            reader.tell({"op": op, "chat": chat, "sequence": 4})
        reader.tell({"op": "read", "chat": chat, "sequence": 8})
        await writer.frame("receipt", user=bob.user_id, read=8)
        assert told(reader, "refused") == []
        marks = [(row["delivered"], row["read"]) for row in told(writer, "receipt", chat=chat)]
        assert marks == sorted(marks)
        rows = (await ann.call("GET", f"/v1/chats/{chat}/receipts"))["data"]
    assert {"user_id": bob.user_id, "delivered": 8, "read": 8} in rows


@pytest.mark.attack("D18")
async def test_strangers_learn_nothing_of_each_other(town: Town) -> None:
    """Neither coming nor going, neither typing nor reading nor counts.

    A profile says to the minute when somebody was last seen, unless they hide it.
    """
    chat, (ann, bob) = await friends(town, "ann", "bob")
    [stranger] = await people(town, "eve")
    async with stranger.device() as outside, bob.device() as inside:
        async with ann.device() as device:
            await inside.frame("presence", user=ann.user_id, online=True)
            await inside.send(chat)
            device.tell({"op": "typing", "chat": chat})
            device.tell({"op": "read", "chat": chat, "sequence": 2})
            await inside.frame("typing", chat=chat)
            await inside.frame("receipt", chat=chat, user=ann.user_id)
        await inside.frame("presence", user=ann.user_id, online=False)
        await settled(outside)
        assert {frame["op"] for frame in outside.raw} == {"welcome", "live", "pong"}
    profile = await stranger.call("GET", f"/v1/users/{ann.user_id}")
    assert profile.keys() == {
        "user_id", "display_name", "avatar_url", "metadata", "phone_number", "last_seen_at",
        "created_at", "updated_at",
    }  # fmt: skip
    assert profile["phone_number"] is None
    await ann.call("PATCH", "/v1/me", {"show_last_seen": False})
    hidden = await stranger.call("GET", f"/v1/users/{ann.user_id}")
    assert hidden["last_seen_at"] is None
    assert (await stranger.call("GET", "/v1/chats"))["data"] == []


@pytest.mark.attack("D06", "D07", "D24")
async def test_nobody_speaks_for_another_by_a_field_of_a_frame(town: Town) -> None:
    """Fields that a frame does not have are passed over, whatever they claim."""
    chat, (ann, bob, cat) = await friends(town, "ann", "bob", "cat")
    claims: dict[str, Any] = {
        "sender": bob.user_id, "sender_id": bob.user_id, "user": bob.user_id, "tenant": "other",
        "message_id": "forged", "created_at": "2020-01-01T00:00:00.000Z", "kind": "removed",
        "users": [bob.user_id], "role": "owner",
    }  # fmt: skip
    async with ann.device() as forger, bob.device() as victim, cat.device() as witness:
        await victim.send(chat)
        sent = await forger.send(chat, "hello", sequence=1, **claims)
        entry = await witness.frame("entry", chat=chat, sequence=3)
        assert (entry["sender"], entry["kind"]) == (ann.user_id, "message")
        assert entry["created_at"] == sent["created_at"] != claims["created_at"]
        forger.tell({"op": "read", "chat": chat, "sequence": 3, **claims})
        forger.tell({"op": "typing", "chat": chat, **claims})
        assert (await witness.frame("typing", chat=chat))["user"] == ann.user_id
        await witness.frame("receipt", chat=chat, user=ann.user_id, read=3)
        of_victim = told(witness, "receipt", user=bob.user_id)
        assert all(receipt["read"] <= 2 for receipt in of_victim), "more than its own"
    rows = (await ann.call("GET", f"/v1/chats/{chat}/members"))["data"]
    assert {row["user_id"]: row["role"] for row in rows}[ann.user_id] == "owner"
    assert len(rows) == 3

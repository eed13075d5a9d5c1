# SPDX-License-Identifier: Apache-2.0
"""One folder, one server: a second one is refused, and the first goes on."""

from pathlib import Path

from tests.support.command import tidings
from tests.support.people import Town
from tests.support.server import ServerProcess


async def test_a_second_server_on_the_same_folder_is_refused(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with ServerProcess(data) as server, Town(server.url, server.root_key) as town:
        ann, bob = await town.user("ann"), await town.user("bob")
        chat = await ann.create_direct(bob)
        await ann.send(chat)

        second = await tidings("serve", "--port", "0", "--data", data)

        assert second.code == 2
        assert f"in use by another Tidings process (pid {server.pid})" in second.errors
        assert "--data" in second.errors, "it says what to do"
        assert "Traceback" not in second.errors
        await bob.send(chat)
        assert [message["sequence"] for message in await ann.history(chat)] == [3, 2]
        assert (await town.http.get("/readyz")).status_code == 200

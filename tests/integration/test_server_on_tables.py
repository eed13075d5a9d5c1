# SPDX-License-Identifier: Apache-2.0
"""The server on DynamoDB: what it refuses to start on, and its keys."""

import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from tests.integration.cores import all_of
from tests.support.breakable_proxy import BreakableProxy, a_proxy
from tests.support.cluster import Services, a_cluster
from tests.support.command import Said, tidings
from tests.support.dynamo_tables import (
    REGION,
    drop_tables,
    new_prefix,
    open_tables,
    some_tables,
)
from tests.support.engine import Settings, as_environment, on_tables
from tests.support.people import Town
from tests.support.server import ServerDied, ServerProcess
from tests.support.settings import config_of
from tests.support.waiting import until
from tidings.assembly import open_core
from tidings.assembly.stores import make_local_tables
from tidings.ports.erasing import LedgerEntry
from tidings.stores.dynamodb.identity.erasing import record
from tidings.stores.dynamodb.schema.live import live_tables

NOBODY = "http://127.0.0.1:9"


@pytest.fixture
async def tables(dynamodb_endpoint: str) -> AsyncIterator[Settings]:
    """The settings of a server on tables of its own."""
    async with some_tables(dynamodb_endpoint) as prefix:
        yield on_tables(dynamodb_endpoint, prefix)


@pytest.fixture
async def without_tables(dynamodb_endpoint: str) -> AsyncIterator[Settings]:
    """The settings of a server whose tables nobody has made."""
    prefix = new_prefix()
    yield on_tables(dynamodb_endpoint, prefix)
    await drop_tables(dynamodb_endpoint, prefix, protected=True)


def server(data: Path, settings: Settings, **more: str) -> ServerProcess:
    return ServerProcess(data, environment={**as_environment(settings), **more})


async def command(data: Path, settings: Settings, *words: str) -> Said:
    return await tidings(*words, "--data", data, environment=as_environment(settings))


async def refusal(process: ServerProcess) -> str:
    with pytest.raises(ServerDied) as died:
        await process.start()
    return str(died.value)


async def test_a_second_process_in_the_folder_is_refused(tmp_path: Path, tables: Settings) -> None:
    async with server(tmp_path / "data", tables):
        told = await refusal(server(tmp_path / "data", tables))
    assert "exit code 2" in told
    assert "in use by another Tidings process" in told


async def test_another_master_key_is_refused(tmp_path: Path, tables: Settings) -> None:
    async with server(tmp_path / "one", tables):
        told = await refusal(server(tmp_path / "other", tables))
        assert "exit code 2" in told
        assert "the master key of this store is missing" in told
        (tmp_path / "third").mkdir()
        key = tmp_path / "third" / "master.key"
        key.write_text("A" * 43 + "=")
        key.chmod(0o600)
        told = await refusal(server(tmp_path / "third", tables))
    assert "exit code 2" in told
    assert "does not open this store" in told


async def test_a_command_without_tables(tmp_path: Path, without_tables: Settings) -> None:
    done = await command(tmp_path, without_tables, "keys", "rotate")
    assert done.code == 2
    assert "tidings schema apply" in done.errors


async def test_a_server_makes_the_tables_on_its_own_machine(
    tmp_path: Path, without_tables: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    settings = without_tables
    del settings["dynamodb_region"]
    async with server(tmp_path, settings) as first, Town(first.url, first.root_key) as town:
        chat = await (await town.user("ann")).create_direct(await town.user("bob"))
    endpoint, prefix = settings["dynamodb_endpoint"], settings["dynamodb_prefix"]
    async with live_tables(endpoint=endpoint, region=REGION, prefix=prefix) as tables:
        assert await tables.differences() == []
    async with server(tmp_path, settings) as again, Town(again.url, again.root_key) as town:
        assert await (await town.user("ann")).history(chat) == []


@pytest.mark.parametrize("endpoint", [None, "http://tables.invalid:8000", "http://192.0.2.1:1"])
async def test_no_other_machine_is_asked_to_make_tables(endpoint: str | None) -> None:
    config = config_of(store="dynamodb", dynamodb_endpoint=endpoint, dynamodb_region="eu-west-1")
    await make_local_tables(config)  # nobody is there, and that is not noticed


async def test_an_endpoint_where_nobody_is(tmp_path: Path) -> None:
    environment = as_environment(on_tables(NOBODY, "any_"))
    told = await refusal(ServerProcess(tmp_path / "data", environment=environment, waits="start"))
    assert "exit code 1" in told
    assert "The store cannot be reached" in told
    assert "Traceback" not in told


@pytest.fixture
async def late(
    tmp_path: Path, tables: Settings
) -> AsyncIterator[tuple[ServerProcess, BreakableProxy]]:
    """A server that has found that its store does not answer, and the way to the store."""
    port = urlsplit(tables["dynamodb_endpoint"]).port
    assert port is not None
    async with a_proxy("127.0.0.1", port) as way:
        way.cut()
        endpoint = f"http://127.0.0.1:{way.port}"
        waiting = server(tmp_path / "data", {**tables, "dynamodb_endpoint": endpoint})
        waiting.launch()
        try:
            await until(
                lambda: "store_awaited" in {line.get("action") for line in waiting.log_lines()}
            )
            yield waiting, way
        finally:
            await waiting.kill()


async def test_a_server_waits_for_a_store_that_starts_later(
    late: tuple[ServerProcess, BreakableProxy],
) -> None:
    waiting, way = late
    way.mend()
    await waiting.ready()
    async with Town(waiting.url, waiting.root_key) as town:
        await (await town.user("ann")).create_direct(await town.user("bob"))
    assert await waiting.terminate() == 0


async def test_a_server_that_waits_for_its_store_can_be_stopped(
    late: tuple[ServerProcess, BreakableProxy],
) -> None:
    assert await late[0].terminate() == 0


async def test_keys_rotate_with_a_server_and_without(tmp_path: Path, tables: Settings) -> None:
    data = tmp_path / "data"
    async with server(data, tables) as running, Town(running.url, running.root_key) as town:
        ann, bob = await all_of(town.user(name) for name in ("ann", "bob"))
        chat = await ann.create_direct(bob)
        sent = [(await ann.send(chat))["content"]]
        before = (data / "master.key").read_text()
        done = await command(data, tables, "keys", "rotate")
        assert (done.code, done.errors) == (0, "")
        assert (data / "master.key").read_text() != before
        sent.append((await bob.send(chat))["content"])
    done = await command(data, tables, "keys", "rotate")
    assert (done.code, done.errors) == (0, "")
    assert b"keys were rewrapped" in done.out
    async with server(data, tables) as again, Town(again.url, again.root_key) as town:
        history = await (await town.user("ann")).history(chat)
    assert [message["content"] for message in reversed(history)] == sent


async def test_a_failpoint_ends_the_process(tmp_path: Path, tables: Settings) -> None:
    place = {"TIDINGS_FAILPOINTS": "between_key_and_entry:1"}
    process = server(tmp_path / "data", tables, **place)
    await process.start()
    async with Town(process.url, process.root_key) as town:
        ann, bob = await all_of(town.user(name) for name in ("ann", "bob"))
        chat = await ann.create_direct(bob)
        with pytest.raises(httpx.TransportError):
            await ann.send(chat)
    assert await process.exited() == 137


async def test_processes_that_start_at_once_on_empty_tables_share_their_secrets(
    tmp_path: Path, tables: Settings, kafka_address: str, redis_url: str
) -> None:
    """A repeat of a send is recognised by any of them: the digest's key is one for all."""
    services = Services(tables["dynamodb_endpoint"], kafka_address, redis_url)
    names = {f"api-{number}": "api" for number in range(4)}
    prefix = tables["dynamodb_prefix"]
    async with a_cluster(tmp_path, services, prefix, names, at_once=4) as cluster:
        async with cluster.town("town", "api-0") as town:
            ann, bob = await all_of(town.user(name) for name in ("ann", "bob"))
            chat = await ann.create_direct(bob)
            body = {"client_message_id": "one", "content": "Hello"}
            for name in names:
                async with Town(cluster[name].url, "", "town") as through:
                    answer = await through.http.post(
                        f"/v1/chats/{chat}/messages",
                        json=body,
                        headers={"Authorization": f"Bearer {ann.token}"},
                    )
                    assert (answer.is_success, answer.json()["sequence"]) == (True, 2)


async def test_the_embedded_server_loads_nothing_of_the_others(tmp_path: Path) -> None:
    look = (
        "import sys\n"
        "from tidings.cli.command_line import make_parser\n"
        "make_parser(is_server=True).parse_args(['serve', '--demo'])\n"
        "import tidings.assembly.server\n"
        "heavy = {'aiobotocore', 'botocore', 'aiokafka', 'redis', 'aiohttp', 'httpx',\n"
        "    'tidings.cli.server_access', 'tidings.cli.backup', 'tidings.doctor'}\n"
        "print(*sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "\n", "")
    async with open_core(config_of(data=tmp_path), lambda _: None) as core:
        assert core.deliveries is None


async def test_after_a_restore_erasures_are_carried_out_again(
    tmp_path: Path, tables: Settings
) -> None:
    """The ledger is in the table of keys, which is not restored; what the store knows is."""
    async with server(tmp_path, tables) as process:
        async with Town(process.url, process.root_key) as town:
            await town.user("ann")
            await process.terminate()
            async with open_tables(
                str(tables["dynamodb_endpoint"]), str(tables["dynamodb_prefix"])
            ) as store:
                await record(store.ledger._dynamo, LedgerEntry("user", "town:ann", 1))
            for count in (1, 0):
                done = await command(tmp_path, tables, "erasures", "replay")
                assert done.code == 0, done.errors
                assert done.out.startswith(b"%d erasures are carried out again" % count)
            await process.start()
            with pytest.raises(httpx.HTTPStatusError, match="409"):
                await town.token("ann")

# SPDX-License-Identifier: Apache-2.0
"""A real Redis with TLS and a user of few rights, and a cluster of three: all works as on one."""

import asyncio
import shlex
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from redis.asyncio import RedisCluster
from redis.asyncio.client import PubSub
from redis.exceptions import ResponseError

from scripts.services.redis_secure import RedisClusterServers, SecureRedisServer
from tests.integration.redis_places import a_link
from tests.integration.test_redis_buckets import (
    test_however_many_ask_at_once_no_token_is_taken_twice,
    test_processes_share_them_by_the_time_of_redis,
)
from tests.integration.test_redis_handover import (
    Step,
    a_gateway,
    a_parcel,
    a_sender,
    test_a_notice_arrives_without_an_answer,
    test_answers_find_the_one_who_asked,
    test_each_gateway_gets_what_is_for_its_users_and_answers,
    test_who_listens_in_redis_reads_no_message,
)
from tests.integration.test_redis_processes import (
    test_every_process_sees_the_last_report_of_each,
)
from tests.integration.test_redis_registry import (
    test_a_place_beyond_the_last_is_not_given_until_one_is_free,
    test_a_refresh_tells_who_had_run_out,
    test_nobody_is_found_among_nobody,
    test_who_entered_is_found_from_everywhere,
    test_who_left_is_not_found,
)
from tests.support.certificates import Authority
from tests.support.services import owned
from tests.support.users import ANN, BOB, some_users
from tidings.assembly.jobs import redis_servers
from tidings.cluster import handover
from tidings.cluster.redis_link import RedisLink
from tidings.cluster.redis_servers import RedisServers
from tidings.cluster.registry import RedisRegistry
from tidings.config import Redis
from tidings.limiters import RedisBuckets
from tidings.ports.bus import BroadcastPosted
from tidings.ports.delivery import ConnectionAddress, RegistryUnavailable
from tidings.ports.sessions import Bucket

# What one Redis does, these do, too: `link` is one to each of them in turn.
__all__ = [
    "test_a_notice_arrives_without_an_answer",
    "test_a_place_beyond_the_last_is_not_given_until_one_is_free",
    "test_a_refresh_tells_who_had_run_out",
    "test_answers_find_the_one_who_asked",
    "test_each_gateway_gets_what_is_for_its_users_and_answers",
    "test_every_process_sees_the_last_report_of_each",
    "test_however_many_ask_at_once_no_token_is_taken_twice",
    "test_nobody_is_found_among_nobody",
    "test_processes_share_them_by_the_time_of_redis",
    "test_who_entered_is_found_from_everywhere",
    "test_who_left_is_not_found",
    "test_who_listens_in_redis_reads_no_message",
]

COMPOSE = Path(__file__).parents[2] / "deploy" / "compose" / "compose.yaml"
PASSWORD = "not-in-any-log-5t9w1q"


def shipped_users() -> list[str]:
    """The options of the Redis in the Compose file that make its users."""
    service: dict[str, Any] = yaml.safe_load(COMPOSE.read_text())["services"]["redis"]
    options = [str(word) for word in service["command"]]
    users = options[options.index("--user") :]
    return [f">{PASSWORD}" if word.startswith(">") else word for word in users]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def secure_redis(
    request: pytest.FixtureRequest,
    authority: Authority,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[SecureRedisServer]:
    identity = authority.issue("redis")
    yield from owned(
        request,
        SecureRedisServer(
            tmp_path_factory.mktemp("redis"),
            key=identity.key,
            certificate=identity.certificate,
            authority=authority.certificate,
            users=shipped_users(),
        ),
    )


@pytest.fixture(scope="module")
def redis_cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RedisClusterServers]:
    users = shipped_users()
    users = users[users.index("--user", 1) :]  # those who join the servers have no password
    yield from owned(request, RedisClusterServers(tmp_path_factory.mktemp("cluster"), users))


def with_tls(server: SecureRedisServer, authority: Authority) -> Redis:
    return Redis(
        url=server.address.replace("//", "//tidings@"),
        ca=authority.certificate,
        password=PASSWORD,
    )


def as_cluster(servers: RedisClusterServers) -> Redis:
    url = servers.address.replace("//", f"//tidings:{PASSWORD}@")
    return Redis(url=url, mode="cluster")


@pytest.fixture(params=["tls", "cluster"])
def servers(request: pytest.FixtureRequest, authority: Authority) -> RedisServers:
    if request.param == "tls":
        return redis_servers(with_tls(request.getfixturevalue("secure_redis"), authority))
    return redis_servers(as_cluster(request.getfixturevalue("redis_cluster")))


@pytest.fixture
async def link(servers: RedisServers, request: pytest.FixtureRequest) -> AsyncIterator[RedisLink]:
    # The user may touch only what begins with the prefix of the Compose file.
    async with a_link(servers, f"tidings:{request.node.name}:") as opened:
        yield opened


async def test_a_thousand_members_are_found(link: RedisLink) -> None:
    registry = RedisRegistry(link, "g1")
    users = some_users(1_000)
    assert len((await registry.refresh([(user, "c") for user in users])).missing) == 1_000
    assert await registry.find(users) == {user: [ConnectionAddress("g1", "c")] for user in users}
    for user in users:
        registry.leave(user, "c")
    await registry.close()
    assert await registry.find(users) == {}


async def test_buckets_of_one_subject_are_taken_from_together(link: RedisLink) -> None:
    buckets = RedisBuckets(link)
    wide, narrow = Bucket("p", "ann", 0.01, 9), Bucket("q", "ann", 0.01, 1)
    other = Bucket("p", "bob", 0.01, 9)
    assert (await buckets.take([wide, narrow, other])).is_allowed
    refused = await buckets.take([wide, narrow, other])
    assert (refused.is_allowed, refused.tightest) == (False, narrow)
    assert (await buckets.take([wide])).left == 7, "nothing was taken out of it"


async def test_a_hint_reaches_every_gateway(link: RedisLink) -> None:
    steps = {name: Step([]) for name in ("g1", "g2", "g3")}
    async with (
        a_gateway(link, "g1", steps["g1"]),
        a_gateway(link, "g2", steps["g2"]),
        a_gateway(link, "g3", steps["g3"]),
        a_sender(link) as handover,
    ):
        handover.hint(BroadcastPosted("acme", "news", 3), None, but_not="api")
        for step in steps.values():
            await step.until(step.hints.__len__)
            assert step.hints == [BroadcastPosted("acme", "news", 3)]


@pytest.mark.parametrize("servers", ["cluster"], indirect=True)
async def test_a_gateway_that_listens_on_another_server_of_the_cluster_is_heard(
    link: RedisLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A subscription stays where it is when the cluster moves the slot of its channel."""
    cluster = cast(RedisCluster, link.redis)
    _ = await cluster.initialize()
    owner = cluster.get_node_from_key(link.name("gateway", "g1"))
    other = next(node for node in cluster.get_primaries() if node != owner)

    async def pubsub() -> PubSub:
        return cluster.pubsub(other)

    monkeypatch.setattr(link, "pubsub", pubsub)
    step = Step(["c1"])
    async with a_gateway(link, "g1", step), a_sender(link) as sender:
        assert await sender.entries([a_parcel()], {"g1": [ANN]}) == {"g1": {"c1"}}


@pytest.mark.parametrize("servers", ["cluster"], indirect=True)
async def test_a_gateway_that_is_gone_is_waited_for_once_in_a_cluster(
    link: RedisLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handover, "SILENT_SECONDS", 3_600.0)
    async with a_sender(link, 0.5) as sender:
        await sender.entries([a_parcel()], {"gone": [BOB]})
        assert sender.unanswered == 1
        monkeypatch.setattr(sender, "_answer_seconds_max", 600.0)
        async with asyncio.timeout(60):
            await sender.entries([a_parcel()], {"gone": [BOB]})


@pytest.mark.attack("H01", "S22")
async def test_the_user_has_no_rights_that_it_does_not_need(link: RedisLink) -> None:
    redis, own = link.redis, link.name("user", ANN)
    forbidden: list[Callable[[], Any]] = [
        lambda: redis.keys("*"),
        redis.flushall,
        lambda: redis.config_get("*"),
        redis.acl_list,
        redis.client_list,
        lambda: redis.delete(own),
        lambda: redis.get("somebody:else"),
        lambda: redis.set("somebody:else", "x"),
        lambda: redis.publish("somebody:else", "x"),
        lambda: redis.eval("return redis.call('GET', KEYS[1])", 1, "somebody:else"),
        lambda: redis.eval("return redis.call('DEL', KEYS[1])", 1, own),
    ]
    await RedisRegistry(link, "g1").enter(ANN, "c")
    for ask in forbidden:
        with pytest.raises(ResponseError, match=r"(?i)permission|can't run|can't access"):
            await ask()


@pytest.mark.attack("H01", "S13")
async def test_nobody_else_is_let_in(
    secure_redis: SecureRedisServer,
    authority: Authority,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    right = with_tls(secure_redis, authority)
    stranger = Authority(tmp_path, "stranger").certificate
    strangers = [
        RedisServers(url, ca=ca, password=password)
        for url, ca, password in (
            (right.url, authority.certificate, "wrong"),
            (right.url, stranger, PASSWORD),
            (right.url.replace("tidings@", ""), authority.certificate, PASSWORD),
            (right.url.replace("tidings@", ""), authority.certificate, None),
            (right.url.replace("rediss", "redis"), None, PASSWORD),
        )
    ]
    for servers in strangers:
        async with a_link(servers, "tidings:") as link:
            with pytest.raises(RegistryUnavailable):
                await RedisRegistry(link, "g1").find([ANN])
    assert PASSWORD not in caplog.text + repr(strangers)
    assert shlex.join(shipped_users()).count("+@") == 0, "commands are named one by one"

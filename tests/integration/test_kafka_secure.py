# SPDX-License-Identifier: Apache-2.0
"""A real Kafka with TLS and passwords: who may come in, and how."""

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from scripts.services.kafka_secure import SecureKafkaBroker
from scripts.services.redis_secure import SecureRedisServer
from tests.integration.socket_town import has
from tests.integration.test_kafka import CHATS, a_message, publishing, take, taking, topics
from tests.integration.test_redis_secure import PASSWORD as REDIS_PASSWORD
from tests.integration.test_redis_secure import secure_redis
from tests.support.certificates import Authority
from tests.support.cluster import Services, a_cluster
from tests.support.dynamo_tables import some_tables
from tests.support.services import owned
from tidings.assembly.jobs import kafka_servers
from tidings.buses.in_process import InProcessBus
from tidings.buses.kafka_clients import KafkaServers, Topics, ensure_topics
from tidings.config import Kafka
from tidings.config.settings import KafkaLogin, KafkaTls
from tidings.ports.bus import FeedUnavailable
from tidings.wire.events import decode_event

__all__ = ["secure_redis", "topics"]

USER, PASSWORD = "tidings", "not-in-any-log-8f3k2m"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def broker(
    request: pytest.FixtureRequest,
    authority: Authority,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[SecureKafkaBroker]:
    """One for all mechanisms."""
    yield from owned(
        request,
        SecureKafkaBroker(
            tmp_path_factory.mktemp("kafka"),
            identity=authority.issue("broker").both,
            authority=authority.certificate,
            username=USER,
            password=PASSWORD,
        ),
    )


LOGIN = KafkaLogin(username=USER, password=PASSWORD)


def settings(broker: SecureKafkaBroker, authority: Authority) -> Kafka:
    return Kafka(
        bootstrap=broker.sasl_address,
        tls=KafkaTls(ca=authority.certificate),
        login=LOGIN,
    )


async def is_delivered(servers: KafkaServers, topics: Topics) -> None:
    """An event gets through: topics are made, it is published and taken."""
    bus = InProcessBus()
    async with publishing(servers, topics, bus), taking(servers, topics, "g") as feed:
        bus.publish(a_message(CHATS[0], 1))
        (received,) = await take(feed, 1)
        assert decode_event(received.value).chat == CHATS[0]
        feed.finish(received)


@pytest.mark.attack("S13", "H01")
@pytest.mark.parametrize("mechanism", ["plain", "scram-sha-256", "scram-sha-512"])
async def test_with_a_password_over_tls(
    broker: SecureKafkaBroker, authority: Authority, topics: Topics, mechanism: str
) -> None:
    kafka = replace(settings(broker, authority), login=replace(LOGIN, sasl=mechanism))
    await is_delivered(kafka_servers(kafka), topics)


async def test_with_a_certificate(
    broker: SecureKafkaBroker, authority: Authority, topics: Topics
) -> None:
    client = authority.issue("client")
    tls = KafkaTls(
        ca=authority.certificate, certificate=client.certificate, certificate_key=client.key
    )
    kafka = Kafka(bootstrap=broker.tls_address, tls=tls)
    await is_delivered(kafka_servers(kafka), topics)


@pytest.mark.attack("H01")
async def test_nobody_else_is_let_in(
    broker: SecureKafkaBroker,
    authority: Authority,
    topics: Topics,
    tmp_path_factory: pytest.TempPathFactory,
    caplog: pytest.LogCaptureFixture,
) -> None:
    right = settings(broker, authority)
    stranger = Authority(tmp_path_factory.mktemp("stranger"))
    for kafka in (
        replace(right, login=replace(LOGIN, password="wrong")),
        replace(right, login=replace(LOGIN, username="somebody")),
        replace(right, login=replace(LOGIN, sasl="plain", password="wrong")),
        replace(right, tls=KafkaTls(ca=stranger.certificate)),
        replace(right, login=None),
        replace(right, bootstrap=broker.tls_address, login=None),
    ):
        with pytest.raises(FeedUnavailable):
            await ensure_topics(kafka_servers(kafka), topics)
    assert PASSWORD not in caplog.text
    assert PASSWORD not in repr(kafka_servers(right))


@pytest.mark.slow
@pytest.mark.attack("S13", "H01")
async def test_processes_deliver_through_kafka_and_redis_with_tls(
    broker: SecureKafkaBroker,
    secure_redis: SecureRedisServer,
    authority: Authority,
    dynamodb_endpoint: str,
    tmp_path: Path,
) -> None:
    """The settings of an operator, from the environment to a message at the other gateway."""
    redis_password = tmp_path / "redis-password"
    redis_password.touch(mode=0o600)
    redis_password.write_text(REDIS_PASSWORD)
    url = secure_redis.address.replace("//", "//tidings@")
    services = Services(dynamodb_endpoint, broker.sasl_address, url)
    more = {
        "kafka_tls": "on",
        "kafka_ca": str(authority.certificate),
        "kafka_username": USER,
        "kafka_password": PASSWORD,
        "redis_ca": str(authority.certificate),
        "redis_password_file": str(redis_password),
        "redis_prefix": "tidings:",
    }
    roles = {"one": "gateway,api,worker", "two": "gateway"}
    async with (
        some_tables(dynamodb_endpoint) as prefix,
        a_cluster(tmp_path, services, prefix, roles, more=more, waits="patience") as cluster,
        cluster.town("town", "one") as town,
    ):
        ann, bob = await town.user("ann"), await town.user("bob")
        chat = await ann.create_direct(bob)
        async with cluster.device(ann, "one") as first, cluster.device(bob, "two") as second:
            await first.send(chat)
            await second.send(chat)
            for device in (first, second):
                await device.until(has(device, chat, 3))
        for process in cluster.processes.values():
            said = process.log_lines()
            actions = [line.get("action") for line in said]
            assert "kafka_trouble" not in actions
            # A busy machine may answer late once; with wrong settings it would stay down.
            assert [what for what in actions if what in {"redis_up", "redis_down"}][-1:] != [
                "redis_down"
            ]
            assert not any(word in str(said) for word in (PASSWORD, REDIS_PASSWORD))


def test_the_servers_certificate_is_checked(authority: Authority) -> None:
    kafka = Kafka(bootstrap="k:9093", tls=KafkaTls(ca=authority.certificate))
    tls = kafka_servers(kafka).tls
    assert tls is not None
    assert (tls.check_hostname, tls.verify_mode) == (True, ssl.CERT_REQUIRED)

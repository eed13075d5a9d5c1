# SPDX-License-Identifier: Apache-2.0
"""The doctor's judgement of services and certificates, from figures that a test makes."""

import asyncio
import re
import ssl
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest
from cryptography import x509

from tests.support.certificates import Authority
from tests.support.clock import NOW, ManualClock
from tests.support.settings import config_of
from tidings.assembly.system import SystemClock
from tidings.buses.kafka_clients import Topics
from tidings.config import Config, DynamoDb
from tidings.doctor.cluster_checks import judge_lag, judge_redis, judge_topics
from tidings.doctor.examination import CHECKS
from tidings.doctor.findings import Subject
from tidings.doctor.network_checks import judge_certificate, look_at_certificates
from tidings.doctor.reaching import compare_clocks, judge_clocks, judge_latency
from tidings.doctor.store_checks import judge_formats, judge_tables
from tidings.model import formats
from tidings.stores.dynamodb.schema.differences import Difference
from tidings.stores.dynamodb.tables import TABLES

ROOT = Path(__file__).resolve().parents[2]
AT = datetime.fromtimestamp(NOW / 1_000, UTC)
UNTRUSTED = "unable to get local issuer certificate"


def test_answers_that_take_long_and_clocks_that_differ(tmp_path: Path) -> None:
    subject = Subject(config_of(data=tmp_path), ManualClock())
    levels = [judge_latency("Redis", seconds, 0.02).level for seconds in (0.01, 0.03)]
    assert levels == ["ok", "warning"]
    assert [judge_clocks(subject, "Redis", NOW - ahead).level for ahead in (0, 5_000, -60_000)] == [
        "ok",
        "warning",
        "fault",
    ]
    assert compare_clocks(subject, "DynamoDB", None).level == "unknown"
    assert compare_clocks(subject, "DynamoDB", format_datetime(AT, usegmt=True)).level == "ok"


@pytest.mark.parametrize(
    ("partition", "level"),
    [
        ({"leader": -1, "isr": [], "replicas": [1]}, "fault"),
        ({"leader": 1, "isr": [1], "replicas": [1, 2]}, "warning"),
        ({"leader": 1, "isr": [1], "replicas": [1]}, "warning"),
        ({"leader": 1, "isr": [1, 2], "replicas": [1, 2]}, "ok"),
    ],
)
def test_partitions_of_kafka(partition: dict[str, object], level: str) -> None:
    topics = Topics("t-")
    described = {topics.messages: [partition], topics.inbox_jobs: [partition]}
    assert [found.level for found in judge_topics(topics, described, 3)] == [level, level]
    (missing,) = judge_topics(topics, {}, 3)
    assert "no topic t-messages, t-inbox-jobs" in missing.what


@pytest.mark.parametrize(
    ("written", "level", "cure"),
    [
        (formats.NEWEST + 1, "fault", "install the newer version"),
        (formats.OLDEST - 1, "fault", "stop all processes of the older version"),
        (formats.NEWEST, "ok", ""),
    ],
)
def test_formats_of_tables(written: int, level: str, cure: str) -> None:
    (found,) = judge_formats({"writes": {"N": str(written)}})
    assert (found.level, found.cure[: len(cure)]) == (level, cure)


def test_tables_in_an_older_format_that_this_version_reads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(formats, "NEWEST", formats.NEWEST + 1)
    (found,) = judge_formats({"writes": {"N": str(formats.NEWEST - 1)}})
    assert (found.level, "tidings schema fill" in found.cure) == ("warning", True)


def test_differences_of_tables_at_aws_and_on_this_machine() -> None:
    tables = DynamoDb(region="eu-west-1")
    found = [
        Difference(TABLES[0], "ttl_wrong", "TTL is on by x"),
        Difference(TABLES[0], "index_missing", "it has no index i"),
        Difference(TABLES[1], "index_missing", "it has no index i"),
    ]
    at_aws = list(judge_tables(found, tables))
    assert [(each.level, "apply" in each.cure) for each in at_aws] == [
        ("fault", True),
        ("warning", False),
    ]
    names = f"tidings-{TABLES[0].name}, tidings-{TABLES[1].name}"
    assert at_aws[0].what == f"{names}: it has no index i"
    local = DynamoDb(region="eu-west-1", endpoint="http://127.0.0.1:8000")
    assert [each.level for each in judge_tables(found[:1], local)] == ["ok"]


def test_workers_that_are_behind() -> None:
    assert [judge_lag("t", lag).level for lag in (10, 20_000)] == ["ok", "warning"]


def test_a_redis_that_takes_no_writes_or_is_full() -> None:
    info = {"redis_version": "8.6.3", "role": "slave", "used_memory": 95, "maxmemory": 100}
    assert [found.level for found in judge_redis(info)] == ["ok", "fault", "warning"]


def test_a_certificate_that_ends(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate = x509.load_pem_x509_certificate(authority.certificate.read_bytes())
    now = datetime.now(UTC)
    levels = [
        judge_certificate("it", certificate, now + timedelta(days=days)).level
        for days in (-30, 0, 2)
    ]
    assert levels == ["ok", "warning", "fault"]


def in_a_cluster(folder: Path, redis: str, **more: object) -> Config:
    """The settings of a process in a cluster."""
    return config_of(
        data=folder,
        port=0,
        store="dynamodb",
        dynamodb_region="eu-west-1",
        bus="kafka",
        kafka_bootstrap="127.0.0.1:9",
        registry="redis",
        redis_url=redis,
        root_key="r",
        master_key=bytes(32),
        **more,
    )


async def test_certificates_of_services_and_in_files(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    identity = authority.issue("redis")
    trust = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    trust.load_cert_chain(identity.certificate, identity.key)
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=trust)
    address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    tls = {"kafka_tls": "on", "kafka_ca": authority.certificate}
    mine = {"kafka_certificate": identity.certificate, "kafka_certificate_key": identity.key}
    config = in_a_cluster(
        tmp_path, f"rediss://{address}", redis_ca=authority.certificate, **tls, **mine
    )
    subject = Subject(config, SystemClock(), public_url=f"https://{address}")
    async with server:
        found = [finding async for finding in look_at_certificates(subject)]
    assert [(each.level, each.what.partition(" (")[0]) for each in found[:3]] == [
        ("warning", "the certificate of TIDINGS_KAFKA_CA"),
        ("warning", "the certificate of TIDINGS_KAFKA_CERTIFICATE"),
        ("warning", "the certificate of TIDINGS_REDIS_CA"),
    ]
    assert [(each.level, each.what) for each in found[3:5]] == [
        ("fault", f"the certificate of the public URL at {address} is refused: {UNTRUSTED}"),
        ("warning", f"the certificate of Redis at {address} is valid for 0 more days"),
    ]
    (kafka,) = found[5:]
    assert (kafka.level, "Kafka at 127.0.0.1:9 was not" in kafka.what) == ("unknown", True)


def test_the_page_explains_every_check() -> None:
    page = (ROOT / "docs/operations/doctor.md").read_text()
    explained = re.findall(r"^\| `(\w+)` \| [^|]+ \|$", page, re.MULTILINE)
    assert explained == list(dict.fromkeys(check.name for check in CHECKS))

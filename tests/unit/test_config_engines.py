# SPDX-License-Identifier: Apache-2.0
"""Settings of engines and processes: which go together, and which are refused."""

from base64 import b64encode
from pathlib import Path

import pytest

from tests.support.settings import tables_of
from tests.unit.test_config import NO_FILE, STRONG, load, mistakes, toml
from tidings.config import ROLES, DynamoDb, Kafka, Redis, Sqs, Webhook, load_config
from tidings.config.settings import Cluster, Sqlite

TABLES = {"STORE": "dynamodb", "DYNAMODB_REGION": "eu-west-1"}
KEYS = {"ROOT_KEY": STRONG, "MASTER_KEY": b64encode(bytes(range(32))).decode()}
MANY = {
    **TABLES,
    **KEYS,
    "BUS": "kafka",
    "KAFKA_BOOTSTRAP": "k1:9092, k2:9092",
    "REGISTRY": "redis",
    "REDIS_URL": "redis://:pass@r:6379/0",
    "PLAIN_ENGINES": "allow",
}


def without(settings: dict[str, str], *names: str) -> dict[str, str]:
    return {name: value for name, value in settings.items() if name not in names}


def the_mistake(settings: dict[str, str]) -> str:
    [told] = mistakes(None, NO_FILE, **settings)
    return told


def test_one_process_on_dynamodb() -> None:
    config = load(None, NO_FILE, **TABLES)
    assert config.store == DynamoDb(region="eu-west-1", prefix="tidings-", endpoint=None)
    assert config.process.roles == ROLES
    assert config.is_alone


def test_many_processes() -> None:
    more = {
        "DYNAMODB_ENDPOINT": "http://localhost:8000",
        "DYNAMODB_PREFIX": "test_1.",
        "KAFKA_PREFIX": "test-",
        "REDIS_PREFIX": "test:",
        "PUSH": "webhook",
        "PUSH_URL": "https://push.example/in",
        "PUSH_SECRET": STRONG,
        "ROLES": "worker,gateway",
    }
    config = load(None, NO_FILE, **MANY, **more)
    assert config.cluster == Cluster(
        Kafka(bootstrap="k1:9092,k2:9092", prefix="test-"),
        Redis(url="redis://:pass@r:6379/0", prefix="test:"),
    )
    tables = tables_of(config)
    assert (tables.endpoint, tables.prefix) == ("http://localhost:8000", "test_1.")
    assert config.push == Webhook(url="https://push.example/in", secret=STRONG)
    assert config.process.roles == ("gateway", "worker")
    assert not config.is_alone
    shown = [setting.value or "" for setting in config.settings]
    for secret in ("pass", STRONG, "push.example"):
        assert secret not in repr(config)
        assert secret not in " ".join(shown)


@pytest.mark.parametrize("variable", ["AWS_REGION", "AWS_DEFAULT_REGION"])
def test_the_region_may_be_the_one_of_other_tools(variable: str) -> None:
    environment = {"TIDINGS_STORE": "dynamodb", variable: "us-east-1"}
    assert tables_of(load_config({}, environment, NO_FILE)).region == "us-east-1"
    environment["TIDINGS_DYNAMODB_REGION"] = "eu-west-1"
    assert tables_of(load_config({}, environment, NO_FILE)).region == "eu-west-1"


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.1.2.3", "[::1]"])
def test_a_dynamodb_on_this_machine_needs_no_region(host: str) -> None:
    local = {"STORE": "dynamodb", "DYNAMODB_ENDPOINT": f"http://{host}:8000"}
    tables = tables_of(load(None, NO_FILE, **local))
    assert (tables.local_endpoint, tables.region) == (f"http://{host}:8000", "us-east-1")
    tables = tables_of(load(None, NO_FILE, **TABLES, DYNAMODB_ENDPOINT=f"http://{host}:8000"))
    assert tables.region == "eu-west-1"
    environment = {
        "TIDINGS_STORE": "dynamodb",
        "TIDINGS_DYNAMODB_ENDPOINT": f"http://{host}:8000",
        "AWS_DEFAULT_REGION": "eu-central-1",
    }
    assert tables_of(load_config({}, environment, NO_FILE)).region == "eu-central-1"


@pytest.mark.parametrize(
    "host",
    ["dynamodb.eu-west-1.amazonaws.com", "10.0.0.1", "localhost.example", "127.0.0.1.nip.io"],
)
def test_a_dynamodb_elsewhere_does(host: str) -> None:
    elsewhere = {"STORE": "dynamodb", "DYNAMODB_ENDPOINT": f"https://{host}"}
    for settings in ({**TABLES, **elsewhere}, TABLES):
        assert tables_of(load(None, NO_FILE, **settings)).local_endpoint is None
    assert "needs a region" in the_mistake(elsewhere)


def test_the_region_of_other_tools_does_not_disturb_the_embedded_store() -> None:
    for store in ({}, {"TIDINGS_STORE": "sqlite"}):
        config = load_config({}, {"AWS_REGION": "us-east-1", **store}, NO_FILE)
        assert config.store == Sqlite()


SQS = {"JOBS": "sqs", "SQS_QUEUE_URL": "https://sqs.example/1/jobs", "SQS_REGION": "eu-west-1"}


def test_the_queue_of_jobs_follows_the_bus_unless_it_is_named() -> None:
    sqs = Sqs(queue_url="https://sqs.example/1/jobs", region="eu-west-1")
    for others in ({}, TABLES, MANY):
        assert load(None, NO_FILE, **others).sqs is None
        assert load(None, NO_FILE, **others, **SQS).sqs == sqs


def test_the_region_of_the_queue_may_be_the_one_of_other_tools() -> None:
    environment = {f"TIDINGS_{name}": value for name, value in without(SQS, "SQS_REGION").items()}
    config = load_config({}, {**environment, "AWS_REGION": "us-east-1"}, NO_FILE)
    assert config.sqs is not None and config.sqs.region == "us-east-1"
    assert config.store == Sqlite()


def test_roles_by_flag() -> None:
    flags = {"roles": "api"}
    assert load(dict(flags), NO_FILE, **MANY).process.roles == ("api",)
    assert "--roles: 'dance' is not one of gateway" in mistakes({"roles": "dance"})[0]
    assert "--roles: at least one role is expected" in mistakes({"roles": ","})[0]


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (without(TABLES, "DYNAMODB_REGION"), "needs a region"),
        (without(MANY, "KAFKA_BOOTSTRAP"), "TIDINGS_BUS=kafka needs its servers"),
        (without(MANY, "REDIS_URL"), "TIDINGS_REGISTRY=redis needs its address"),
        (without(MANY, "REGISTRY", "REDIS_URL"), "TIDINGS_BUS=kafka and TIDINGS_REGISTRY=memory"),
        (without(MANY, "BUS", "KAFKA_BOOTSTRAP"), "TIDINGS_BUS=memory and TIDINGS_REGISTRY=redis"),
        (without(MANY, "ROOT_KEY"), "set TIDINGS_ROOT_KEY for all of them"),
        (without(MANY, "MASTER_KEY"), "set TIDINGS_MASTER_KEY for all of them"),
        ({**TABLES, "ROLES": "gateway,api"}, "roles gateway,api: other processes do the rest"),
        ({"ROLES": "gateway"}, "on the embedded store one process has all roles"),
        ({"BUS": "kafka", "KAFKA_BOOTSTRAP": "localhost:9092"}, "needs TIDINGS_STORE=dynamodb"),
        ({"REGISTRY": "redis", "REDIS_URL": "rediss://r"}, "needs TIDINGS_STORE=dynamodb"),
        (
            {**TABLES, "KAFKA_BOOTSTRAP": "k:9092"},
            "TIDINGS_KAFKA_BOOTSTRAP has no effect without TIDINGS_BUS=kafka",
        ),
        ({"DYNAMODB_PREFIX": "x"}, "has no effect without TIDINGS_STORE=dynamodb"),
        ({**MANY, "PUSH": "log", "PUSH_URL": "https://x"}, "has no effect without TIDINGS_PUSH="),
        ({**MANY, "PUSH": "webhook", "PUSH_URL": "https://x"}, "needs a secret to sign with"),
        ({**MANY, "PUSH": "webhook", "PUSH_SECRET": STRONG}, "needs an address"),
        (without(SQS, "SQS_QUEUE_URL"), "TIDINGS_JOBS=sqs needs the address of a queue"),
        (without(SQS, "SQS_REGION"), "TIDINGS_JOBS=sqs needs a region"),
        (without(SQS, "JOBS", "SQS_REGION"), "has no effect without TIDINGS_JOBS=sqs"),
        ({**MANY, "JOBS": "store"}, "TIDINGS_JOBS=store is for a single process"),
        ({**TABLES, "JOBS": "kafka"}, "TIDINGS_JOBS=kafka is for several processes"),
        ({"BLOBS": "s3://"}, "is not an address such as s3://bucket/prefix"),
        ({"BLOBS": "s3://abc", "ATTACHMENTS": "off"}, "has no effect with TIDINGS_ATTACHMENTS=off"),
        ({"BLOBS": "s3://abc", "ATTACHMENTS_FOLDER": "x"}, "files have one place"),
    ],
)
def test_what_does_not_go_together(settings: dict[str, str], told: str) -> None:
    assert told in the_mistake(settings)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("KAFKA_BOOTSTRAP", "kafka"),
        ("KAFKA_BOOTSTRAP", ","),
        ("KAFKA_BOOTSTRAP", "http://kafka:9092"),
        ("KAFKA_PREFIX", "a/b"),
        ("KAFKA_PREFIX", ""),
        ("REDIS_URL", "r:6379"),
        ("REDIS_URL", "http://r:6379"),
        ("REDIS_URL", "redis://"),
        ("REDIS_URL", "redis://r:port"),
        ("REDIS_PREFIX", "{a}"),
        ("DYNAMODB_ENDPOINT", "localhost:8000"),
        ("DYNAMODB_PREFIX", "a b"),
        ("DYNAMODB_PREFIX", "x" * 101),
        ("DYNAMODB_REGION", "EU West"),
        ("STORE", "postgres"),
        ("BUS", "rabbit"),
        ("REGISTRY", "zoo"),
        ("ROLES", "gateway,dance"),
        ("PUSH", "pigeon"),
        ("MASTER_KEY", "short"),
        ("ROOT_KEY", ""),
    ],
)
def test_what_is_wrong_is_told_once(name: str, value: str) -> None:
    assert f"TIDINGS_{name}: " in the_mistake({**MANY, name: value})


def test_a_password_is_not_repeated() -> None:
    assert "hunter2" not in the_mistake({**MANY, "REDIS_URL": "reddis://:hunter2@r"})


def test_a_public_address_tells_a_missing_root_key_once() -> None:
    settings = {**without(MANY, "ROOT_KEY"), "HOST": "0.0.0.0"}
    assert "TIDINGS_ROOT_KEY" in the_mistake(settings)


def test_secrets_in_a_file_that_others_may_read(tmp_path: Path) -> None:
    secret = toml(tmp_path, f'push_secret = "{STRONG}"', mode=0o644)
    assert any("chmod 600" in told for told in mistakes(file=secret))
    for redis, is_told in (("redis://:pass@r", True), ("redis://r", False)):
        file = toml(tmp_path, f'redis_url = "{redis}"', mode=0o644)
        assert any("chmod 600" in told for told in mistakes(file=file)) == is_told

# SPDX-License-Identifier: Apache-2.0
"""Settings of TLS and passwords for engines, and secrets in files of their own."""

from pathlib import Path

import pytest

from tests.support.certificates import Authority
from tests.support.settings import cluster_of
from tests.unit.test_config import KEY, NO_FILE, STRONG, load, mistakes, toml
from tests.unit.test_config_engines import MANY, the_mistake, without
from tidings.assembly.jobs import kafka_servers, redis_servers
from tidings.config.settings import KafkaTls
from tidings.model.setup_error import SetupError

ELSEWHERE = {
    **without(MANY, "PLAIN_ENGINES"),
    "KAFKA_TLS": "on",
    "REDIS_URL": "rediss://r:6379/0",
}
LOGIN = {"KAFKA_USERNAME": "tidings", "KAFKA_PASSWORD": "hunter2"}


def private(folder: Path, text: str, mode: int = 0o600) -> str:
    path = folder / "secret"
    path.write_text(text)
    path.chmod(mode)
    return str(path)


def test_kafka_elsewhere_with_tls_and_a_password(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    more = {**LOGIN, "KAFKA_CA": str(authority.certificate), "KAFKA_SASL": "SCRAM-SHA-256"}
    config = load(None, NO_FILE, **ELSEWHERE, **more)
    kafka = cluster_of(config).kafka
    assert kafka.tls == KafkaTls(ca=authority.certificate)
    assert "hunter2" not in repr(config)
    options = kafka_servers(kafka).options()
    assert options["security_protocol"] == "SASL_SSL"
    assert options["sasl_mechanism"] == "SCRAM-SHA-256"
    assert (options["sasl_plain_username"], options["sasl_plain_password"]) == (
        "tidings",
        "hunter2",
    )


@pytest.mark.parametrize(
    ("settings", "protocol"),
    [
        (MANY, "PLAINTEXT"),
        ({**MANY, **LOGIN}, "SASL_PLAINTEXT"),
        (ELSEWHERE, "SSL"),
        ({**ELSEWHERE, **LOGIN}, "SASL_SSL"),
    ],
)
def test_the_protocol_follows_from_the_settings(settings: dict[str, str], protocol: str) -> None:
    servers = kafka_servers(cluster_of(load(None, NO_FILE, **settings)).kafka)
    assert servers.options()["security_protocol"] == protocol


@pytest.mark.attack("S13", "H01")
def test_a_password_for_kafka_does_not_travel_in_the_clear() -> None:
    plain = {**without(MANY, "PLAIN_ENGINES"), **LOGIN, "REDIS_URL": "rediss://r"}
    assert "set TIDINGS_KAFKA_TLS=on" in the_mistake(plain)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({**MANY, "KAFKA_USERNAME": "u"}, "has no effect without TIDINGS_KAFKA_PASSWORD"),
        ({**MANY, "KAFKA_PASSWORD": "p"}, "has no effect without TIDINGS_KAFKA_USERNAME"),
        ({**MANY, "KAFKA_SASL": "plain"}, "has no effect without TIDINGS_KAFKA_USERNAME"),
        ({**MANY, **LOGIN, "KAFKA_SASL": "gssapi"}, "TIDINGS_KAFKA_SASL: 'gssapi' is not one of"),
        ({**MANY, **LOGIN, "KAFKA_PASSWORD": "a\nb"}, "TIDINGS_KAFKA_PASSWORD: 1 to 1024"),
        ({"KAFKA_TLS": "on"}, "has no effect without TIDINGS_BUS=kafka"),
        ({**ELSEWHERE, "KAFKA_CA": __file__}, "does not contain certificates as PEM"),
        ({**ELSEWHERE, "KAFKA_CA": "/no/such.pem"}, "/no/such.pem cannot be read"),
        (
            {**ELSEWHERE, "KAFKA_CERTIFICATE": __file__},
            "has no effect without TIDINGS_KAFKA_CERTIFICATE_KEY",
        ),
    ],
)
def test_what_is_wrong_with_kafka_is_told_once(settings: dict[str, str], told: str) -> None:
    mistake = the_mistake(settings)
    assert told in mistake
    assert "hunter2" not in mistake


def test_an_authority_means_nothing_without_tls(tmp_path: Path) -> None:
    settings = {**MANY, "KAFKA_CA": str(Authority(tmp_path).certificate)}
    assert "TIDINGS_KAFKA_CA has no effect without TIDINGS_KAFKA_TLS=on" in the_mistake(settings)


def test_a_certificate_belongs_to_its_key(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    one, other = authority.issue("one"), authority.issue("other")
    pair = {
        "KAFKA_CERTIFICATE": str(one.certificate),
        "KAFKA_CERTIFICATE_KEY": str(other.key),
    }
    kafka = cluster_of(load(None, NO_FILE, **ELSEWHERE, **pair)).kafka
    with pytest.raises(SetupError, match="not a certificate and its key"):
        kafka_servers(kafka)


REDIS = {**ELSEWHERE, "REDIS_URL": "rediss://tidings@r:6379/0"}


def test_redis_elsewhere_with_tls_and_a_password(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    more = {
        "REDIS_CA": str(authority.certificate),
        "REDIS_PASSWORD_FILE": private(tmp_path, "hunter2\n"),
        "REDIS_MODE": "cluster",
    }
    config = load(None, NO_FILE, **REDIS, **more)
    servers = redis_servers(cluster_of(config).redis)
    assert (servers.ca, servers.password) == (authority.certificate, "hunter2")
    assert servers.is_cluster
    assert "hunter2" not in repr(config) + repr(servers)
    options = servers.options()
    assert (options["ssl_cert_reqs"], options["ssl_check_hostname"]) == ("required", True)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"REDIS_PASSWORD": "p"}, "has no effect without TIDINGS_REGISTRY=redis"),
        ({"REDIS_MODE": "cluster"}, "has no effect without TIDINGS_REGISTRY=redis"),
        ({**MANY, "REDIS_PASSWORD": "hunter2"}, "TIDINGS_REDIS_URL contains a password as well"),
        ({**REDIS, "REDIS_MODE": "many"}, "TIDINGS_REDIS_MODE: 'many' is not one of"),
        (
            {**REDIS, "REDIS_MODE": "cluster", "REDIS_URL": "rediss://r/3"},
            "TIDINGS_REDIS_MODE=cluster has one database",
        ),
    ],
)
def test_what_is_wrong_with_redis_is_told_once(settings: dict[str, str], told: str) -> None:
    mistake = the_mistake(settings)
    assert told in mistake
    assert "hunter2" not in mistake


def test_an_authority_for_redis_means_nothing_without_tls(tmp_path: Path) -> None:
    settings = {**MANY, "REDIS_CA": str(Authority(tmp_path).certificate)}
    assert "TIDINGS_REDIS_CA has no effect without rediss://" in the_mistake(settings)


def test_a_secret_may_stand_in_a_file_of_its_own(tmp_path: Path) -> None:
    path = private(tmp_path, f"{STRONG}\n")
    assert load(None, NO_FILE, ROOT_KEY_FILE=path).keys.root_key == STRONG
    assert load(None, toml(tmp_path, f'root_key_file = "{path}"')).keys.root_key == STRONG
    password = {**without(LOGIN, "KAFKA_PASSWORD"), "KAFKA_PASSWORD_FILE": path}
    login = cluster_of(load(None, NO_FILE, **MANY, **password)).kafka.login
    assert login is not None and login.password == STRONG
    assert load(MASTER_KEY_FILE=private(tmp_path, KEY)).keys.master_key == bytes(range(32))


@pytest.mark.attack("H06")
def test_a_file_with_a_secret_is_its_owner_s_and_holds_a_good_one(tmp_path: Path) -> None:
    [told] = mistakes(ROOT_KEY_FILE=private(tmp_path, STRONG, mode=0o644))
    assert "chmod 600" in told
    [told] = mistakes(ROOT_KEY_FILE=private(tmp_path, "admin"))
    assert "TIDINGS_ROOT_KEY_FILE: the root key is weak" in told
    [told] = mistakes(ROOT_KEY_FILE="/no/such/file")
    assert "/no/such/file does not exist" in told
    [told] = mistakes(ROOT_KEY_FILE=private(tmp_path, STRONG), ROOT_KEY=STRONG)
    assert "root_key is set as well (TIDINGS_ROOT_KEY)" in told
    assert "there is no such setting" in mistakes(HOST_FILE="x")[0]

# SPDX-License-Identifier: Apache-2.0
"""The Compose deployment, as far as it can be read without running it."""

import re
import tomllib
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
import yaml

from scripts.services import dynamodb_local, kafka_broker
from scripts.stand_ins import images as stand_ins
from tidings.config import load_config

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "compose"
DOCKERFILE = FOLDER / "Dockerfile"


@pytest.fixture(scope="module")
def services() -> dict[str, dict[str, Any]]:
    """The services by name, with all that they inherit."""
    found = yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"]
    assert isinstance(found, dict)
    return found


def roles(service: dict[str, Any]) -> set[str]:
    command = service.get("command", [])
    return set(command[2].split(",")) if command[:2] == ["serve", "--roles"] else set()


def dockerfile(instruction: str) -> list[str]:
    return re.findall(rf"^{instruction} (.+)$", DOCKERFILE.read_text(), re.MULTILINE)


def test_two_gateways_two_workers_and_one_of_the_others(services: dict[str, Any]) -> None:
    all_roles = [role for service in services.values() for role in roles(service)]
    assert sorted(all_roles) == ["api", "gateway", "gateway", "relay", "worker", "worker"]


def test_every_image_is_of_one_version(services: dict[str, Any]) -> None:
    images = [service["image"] for service in services.values()]
    images += [name.removeprefix("BASE=") for name in dockerfile("ARG")]
    assert {name.removesuffix(" AS build") for name in dockerfile("FROM")} == {"${BASE}"}
    assert [name for name in images if not re.search(r":\d+\.\d+\.\d+(-[a-z]+)?$", name)] == []


def test_the_services_are_those_that_tests_run_on(services: dict[str, Any]) -> None:
    assert services["kafka"]["image"] == f"apache/kafka:{kafka_broker.version()}"
    assert services["dynamodb"]["image"] == f"amazon/dynamodb-local:{dynamodb_local.VERSION}"


def test_one_service_builds_the_image(services: dict[str, Any]) -> None:
    """If several do, a new Docker writes the same image twice at once, and fails."""
    ours = [service for service in services.values() if service["image"].startswith("tidings:")]
    assert [one["command"] for one in ours if "build" in one] == [["schema", "apply"]]
    assert {one["pull_policy"] for one in ours} == {"never"}


def test_waiting_for_the_deployment_waits_for_every_process(services: dict[str, Any]) -> None:
    unchecked = {name for name, service in services.items() if "healthcheck" not in service}
    assert unchecked == {"dynamodb"}, "nothing in its image can ask"
    assert services["schema"]["healthcheck"] == {"disable": True}, "it ends"


def test_stand_ins_have_the_names_of_all_other_images(services: dict[str, Any]) -> None:
    made = stand_ins.names()
    others = {service["image"] for service in services.values() if "pull_policy" not in service}
    assert {*made.values()} == {
        *others,
        *(name.removeprefix("BASE=") for name in dockerfile("ARG")),
    }
    assert all((stand_ins.FILES / part / "Dockerfile").is_file() for part in made)


def test_our_processes_differ_in_nothing_but_their_roles(services: dict[str, Any]) -> None:
    ours = [service for service in services.values() if roles(service)]
    for name in ("environment", "image", "depends_on", "healthcheck"):
        assert all(service[name] == ours[0][name] for service in ours)


def test_addresses_between_services_lead_to_one(services: dict[str, Any]) -> None:
    settings = services["api"]["environment"]
    told = [
        settings[f"TIDINGS_{name}"]
        for name in ("DYNAMODB_ENDPOINT", "KAFKA_BOOTSTRAP", "REDIS_URL")
    ]
    hosts = {re.sub(r"^\w+://(\w+@)?", "", address).split(":")[0] for address in told}
    assert hosts == {"dynamodb", "kafka", "redis"}
    assert hosts <= services.keys()
    for service in services.values():
        assert set(service.get("depends_on", ())) <= services.keys()


def test_its_settings_are_right(services: dict[str, Any], tmp_path: Path) -> None:
    """With keys filled in, every process would start with them."""
    keys = {
        "TIDINGS_ROOT_KEY": "mF3kq9Zt7Lw2Xb8Vn5Rc1Yd6Hs4Jg0Pa",
        "TIDINGS_MASTER_KEY": b64encode(bytes(32)).decode(),
        "TIDINGS_REDIS_PASSWORD": "mF3kq9Zt7Lw2Xb8Vn5Rc1Yd6Hs4Jg0Pa",
    }
    for service in (service for service in services.values() if roles(service)):
        given = {**service["environment"], **keys}
        flags = {"roles": ",".join(roles(service))}
        config = load_config(flags, given, tmp_path / "tidings.toml")
        assert set(config.process.roles) == roles(service)


def test_the_load_balancer_knows_every_gateway_and_the_api(services: dict[str, Any]) -> None:
    text = (FOLDER / "Caddyfile").read_text()
    proxied = re.findall(r"reverse_proxy ([^{]+)\{", text)
    found = [{address.split(":")[0] for address in line.split()} for line in proxied]
    gateways = {name for name, service in services.items() if "gateway" in roles(service)}
    apis = {name for name, service in services.items() if "api" in roles(service)}
    assert found == [gateways, apis]


def test_only_the_load_balancer_can_be_reached_and_only_from_this_machine(
    services: dict[str, Any],
) -> None:
    ports = {name: service["ports"] for name, service in services.items() if "ports" in service}
    assert ports == {"load-balancer": ["127.0.0.1:8080:8080"]}


def test_the_engines_are_in_a_network_without_a_way_out(services: dict[str, Any]) -> None:
    networks = yaml.safe_load((FOLDER / "compose.yaml").read_text())["networks"]
    assert networks["inside"]["internal"]
    (place,) = networks["inside"]["ipam"]["config"]
    settings = services["api"]["environment"]
    assert settings["TIDINGS_TRUSTED_PROXIES"] == place["subnet"], "the load balancer is in it"
    for name, service in services.items():
        expected = ["inside", "outside"] if name == "load-balancer" else ["inside"]
        assert (name, service["networks"]) == (name, expected)


@pytest.mark.attack("S22", "H01")
def test_redis_is_new_and_lets_in_tidings_only(services: dict[str, Any]) -> None:
    redis = services["redis"]
    version = re.fullmatch(r"redis:(\d+)\.(\d+)\.(\d+)-alpine", redis["image"])
    assert version is not None
    assert tuple(map(int, version.groups())) >= (8, 6, 3), "older ones can be taken over by a user"
    options = " ".join(redis["command"])
    assert "--user default off --user tidings on >${TIDINGS_REDIS_PASSWORD:?" in options
    rules = options.partition("--user tidings")[2].split()
    assert {"~tidings:*", "&tidings:*", "-@all"} <= set(rules)
    assert not {"nopass", "allkeys", "allchannels", "~*", "&*", "+@all"} & set(rules)


def test_keys_are_asked_for_and_not_in_the_file(services: dict[str, Any]) -> None:
    settings = services["api"]["environment"]
    for name in ("TIDINGS_ROOT_KEY", "TIDINGS_MASTER_KEY", "TIDINGS_REDIS_PASSWORD"):
        assert settings[name].startswith(f"${{{name}:?")


def test_tidings_runs_without_rights(services: dict[str, Any]) -> None:
    assert dockerfile("USER") == ["10001:10001"], "a number, which Kubernetes can judge"
    for service in (service for service in services.values() if roles(service)):
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]
        in_memory = {place.split(":")[0] for place in service["tmpfs"]}
        assert in_memory == {"/tmp", *dockerfile("VOLUME")}, "`down` leaves no unnamed volume"


def test_the_image_has_everything_that_a_wheel_has() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]
    copied = [name for line in dockerfile("COPY") for name in line.split()[:-1]]
    assert [name for name in included if not name.startswith(tuple(copied))] == []


def test_the_image_is_built_from_files_that_are_there_and_sent() -> None:
    copied = [line.split()[:-1] for line in dockerfile("COPY") if "--from" not in line]
    sent = (FOLDER / "Dockerfile.dockerignore").read_text().splitlines()
    for name in (name for names in copied for name in names):
        assert (ROOT / name).exists()
        assert f"!{name}" in sent


def test_the_documented_user_of_redis_is_the_one_that_is_shipped(services: dict[str, Any]) -> None:
    """The one that tests run with."""
    page = (ROOT / "docs" / "reference" / "configuration.md").read_text()
    documented = re.search(r"^ACL SETUSER tidings on >\S+ (.+)$", page, re.MULTILINE)
    command = services["redis"]["command"]
    shipped = command[command.index("tidings") + 3 :]
    assert documented is not None
    assert documented[1].split() == shipped

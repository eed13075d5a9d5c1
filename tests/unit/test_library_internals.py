# SPDX-License-Identifier: Apache-2.0
"""Where we go below the public interface of a library, a changed release is noticed.

Each digest is of the source of a function that we override, call or copy the behaviour of. If one
differs, somebody has to read what changed before the new release is used.
"""

import ast
import inspect
import re
import tomllib
from functools import reduce
from hashlib import sha256
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Final

import picows
import pytest
from packaging.requirements import Requirement

ROOT: Final = Path(__file__).parents[2]
SOURCE: Final = ROOT / "src/tidings"
DIGEST_CHARS: Final = 32

FENCES: Final = {
    "uvicorn": "gateway/http/uvicorn_internals.py",
    "picows": "gateway/http/handshake.py",
    "aiokafka": "buses/kafka_clients.py",
    "redis": "cluster/redis_servers.py",
}
"""The one module that knows the internals of each library."""

INTERNALS: Final = ("uvicorn.protocols", "uvicorn.server", "picows.picows")
"""Modules that nothing but a fence imports."""

DIGESTS: Final[dict[str, dict[str, str]]] = {
    "uvicorn.protocols.http.httptools_impl": {
        "HttpToolsProtocol.__init__": "4f08999410347141468656d82e71ffeb",
        "HttpToolsProtocol.connection_made": "6efb565ff3d36b916c29bd42330a2b99",
        "HttpToolsProtocol.connection_lost": "c91a4c9bf2e29c554a97418b5f3064e9",
        "HttpToolsProtocol._unset_keepalive_if_required": "00a6a4e47214e68edef469a2a8f21ade",
        "HttpToolsProtocol._should_upgrade": "8fcad1ab8e0967397808d644a390da64",
        "HttpToolsProtocol._unsupported_upgrade_warning": "55bbd2762b189d9a9d833d550e80b7e2",
        "HttpToolsProtocol.data_received": "010a7ae59a5d3b1a5e7326ce24687856",
        "HttpToolsProtocol.on_message_begin": "96d377fdc7c2baef943c2bd245003abc",
        "HttpToolsProtocol.on_header": "65d62c044f61fdbd354dcb3401aa5907",
        "HttpToolsProtocol.on_headers_complete": "1ea8589acfad92d8ff9182775f337d98",
        "HttpToolsProtocol._start_asgi_task": "9c08c2571ae9b0380320a24c20c3af18",
        "HttpToolsProtocol.on_body": "dba9c32aeba35b6ae10722f86232d44d",
        "HttpToolsProtocol.on_message_complete": "1fbad42dc31fc01fd4106a9885b2a2e0",
        "HttpToolsProtocol.on_response_complete": "64e254f28e389e7614f2c828176d6391",
        "HttpToolsProtocol.shutdown": "d7351fa33f00d430e0a4179912a4ed47",
        "HttpToolsProtocol.resume_writing": "7844bbaa8cceb1ef14d74f44c229ecf7",
        "HttpToolsProtocol.timeout_keep_alive_handler": "8b53bf5f2e202970f6f6c0338a5c381c",
        "RequestResponseCycle.__init__": "4d2f220910c33c12f2891cbf2fb89ad3",
        "RequestResponseCycle.run_asgi": "0f33f2449a444bc210e26187fae751e6",
        "RequestResponseCycle.send": "abdd8601b326a8da972436918d3a954e",
        "RequestResponseCycle.receive": "8124ae006be71184810da91d586b97c4",
    },
    "uvicorn.protocols.http.flow_control": {
        "FlowControl": "126debcdaa894c83ed9491b41cb3b99c",
    },
    "uvicorn.server": {
        "ServerState": "f2260fbf1015474626a79b73b09e8269",
    },
    "picows.picows": {
        "WSProtocol.__init__": "41744fd0058aadf497b9c3275abff94b",
        "WSProtocol.connection_made": "94627dc7f3af510d0519ae65bfb08204",
        "WSProtocol.connection_lost": "fa0951ff71dc2918b37be1c91a4cd9c4",
        "WSProtocol.get_buffer": "3fd1e99dc357a947a89c4a835e4a3a17",
        "WSProtocol.buffer_updated": "32143bb4c3a63467e6d15149c1c429e2",
    },
    "aiokafka.producer.producer": {
        "AIOKafkaProducer.stop": "43ef97147111893b2d336de3e8f7bd2f",
    },
    "aiokafka.producer.sender": {
        "Sender.close": "f60b3d023d2526f4c30e5642931e9477",
    },
    "aiokafka.consumer.consumer": {
        "AIOKafkaConsumer.stop": "bc5da9c98595299a3d968526cd9f4a34",
    },
    "aiokafka.consumer.group_coordinator": {
        "GroupCoordinator.close": "f30d831089456312e58c9790ef349046",
        "GroupCoordinator._stop_heartbeat_task": "b3022a920670abc0a07890c5f44c9c2b",
        "GroupCoordinator._stop_commit_offsets_refresh_task": "c621b6c8285084b65d676bdd112c89d7",
    },
    "aiokafka.consumer.fetcher": {
        "Fetcher.close": "1cd24bc1c442149e7d9a4ddef0770f4a",
    },
    "aiokafka.client": {
        "AIOKafkaClient.close": "02119d4d618ae4937013a007854f69e5",
    },
    "redis.asyncio.cluster": {
        "RedisCluster._execute_command": "d3b4bf161162bb6dd4f2d6aae3b1de77",
        "ClusterNode.acquire_connection": "41b75bff8bdf6d2a28b954376e10bff3",
        "ClusterPubSub.execute_command": "35ad65b06c80c1c364c02feccfbdf22a",
    },
}


FUNCTIONS: Final = [(module, name) for module, digests in DIGESTS.items() for name in digests]


def source_of(module: str, name: str) -> str:
    """The source of a function; picows is compiled, and ships its source beside."""
    if module != "picows.picows":
        return inspect.getsource(reduce(getattr, name.split("."), import_module(module)))
    kind, method = name.split(".")
    text = Path(picows.__file__).with_name("picows.pyx").read_text(encoding="utf-8")
    _, _, body = text.partition(f"\ncdef class {kind}(")
    found = re.search(rf"^    def {method}\(.*?(?=^    \S|^\S)", body, re.DOTALL | re.MULTILINE)
    assert found is not None, f"picows has no {name} any more"
    return found[0]


@pytest.mark.parametrize(("module", "name"), FUNCTIONS)
def test_a_function_is_as_we_have_read_it(module: str, name: str) -> None:
    library = module.partition(".")[0]
    digest = sha256(source_of(module, name).encode()).hexdigest()[:DIGEST_CHARS]
    assert digest == DIGESTS[module][name], (
        f"{library} {version(library)} has changed {name}, on which {FENCES[library]} depends. "
        f"Compare it with the release before, adapt our code and its tests, and only then write "
        f"{digest} here and raise the cap in pyproject.toml."
    )


@pytest.mark.parametrize("library", FENCES)
def test_the_next_minor_release_is_not_installed_by_itself(library: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [one for extra in project["optional-dependencies"].values() for one in extra]
    wanted = {one.name: one for one in map(Requirement, [*project["dependencies"], *extras])}
    major, minor, *_ = version(library).split(".")
    assert version(library) in wanted[library].specifier
    assert f"{major}.{int(minor) + 1}" not in wanted[library].specifier


def test_nothing_but_a_fence_goes_below_the_interface() -> None:
    fences = {SOURCE / fence for fence in FENCES.values()}
    assert {path for path in SOURCE.rglob("*.py") if _imports_internals(path)} <= fences
    kafka = [path for path in (SOURCE / "buses").glob("*.py") if _reads_private_parts(path)]
    assert kafka == [SOURCE / FENCES["aiokafka"]]


def _imports_internals(path: Path) -> bool:
    text = path.read_text(encoding="utf-8")
    if not any(name in text for name in INTERNALS):
        return False  # to parse every module takes seconds
    return any(
        isinstance(node, ast.ImportFrom) and (node.module or "").startswith(INTERNALS)
        for node in ast.walk(ast.parse(text))
    )


def _reads_private_parts(path: Path) -> bool:
    """Whether a module uses an attribute with a leading underscore of anything but `self`."""
    return any(
        isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
        and not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    )

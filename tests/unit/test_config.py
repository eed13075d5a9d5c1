# SPDX-License-Identifier: Apache-2.0
"""Settings: where they come from, what they may be, and all mistakes at once."""

import random
from base64 import b64encode, urlsafe_b64encode
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.support.settings import config_of
from tidings.assembly.system import SystemChance
from tidings.config import Config, load_config
from tidings.config.building import CHOICES, with_defaults
from tidings.config.settings import Keys, Network, Process, PushServices, Sqlite
from tidings.config.values import PARSE
from tidings.keyrings import ensure_root_key, why_weak
from tidings.model.setup_error import SetupError
from tidings.ports.processes import Setting

STRONG = "mF3kq9Zt7Lw2Xb8Vn5Rc1Yd6Hs4Jg0Pa"
KEY = b64encode(bytes(range(32))).decode()
NO_FILE = Path("no-such-file.toml")


def load(
    flags: dict[str, str | None] | None = None, file: Path = NO_FILE, **environment: str
) -> Config:
    variables = {f"TIDINGS_{name}": value for name, value in environment.items()}
    return load_config(flags or {}, {"PATH": "/bin", **variables}, file)


def without_sources(config: Config) -> Config:
    """The settings alone, without the list of where they come from."""
    return replace(config, settings=())


def mistakes(
    flags: dict[str, str | None] | None = None, file: Path = NO_FILE, **environment: str
) -> list[str]:
    with pytest.raises(SetupError) as caught:
        load(flags, file, **environment)
    return str(caught.value).split("\n- ")[1:]


def toml(folder: Path, text: str, mode: int = 0o600) -> Path:
    path = folder / "tidings.toml"
    path.write_text(text)
    path.chmod(mode)
    return path


def test_without_settings_it_runs_on_loopback() -> None:
    config = load()
    assert without_sources(config) == Config()
    assert (config.network.host, config.network.port) == ("127.0.0.1", 8080)
    assert (config.data, config.keys) == (Path("tidings-data"), Keys())
    assert (config.store, config.is_alone) == (Sqlite(), True)


def test_everything_can_be_set(tmp_path: Path) -> None:
    url_safe = urlsafe_b64encode(b"\xff" * 32).decode()
    config = load(
        HOST="0.0.0.0",
        PORT="0",
        DATA=str(tmp_path),
        ROOT_KEY=STRONG,
        MASTER_KEY=KEY,
        MASTER_KEY_PREVIOUS=url_safe,
        STORE="sqlite",
        BUS="memory",
        REGISTRY="memory",
        ALLOWED_ORIGINS="https://a.example, http://localhost:3000,",
        DRAIN_SECONDS="0.5",
        LOG_LEVEL="DEBUG",
        FAILPOINTS="before_commit:3,between_key_and_entry:1",
        LIMITS="on",
        METRICS="[::1]:0",
        ROLES="relay,api, worker,gateway,",
        PUSH="OFF",
    )
    assert without_sources(config) == config_of(
        host="0.0.0.0",
        port=0,
        data=tmp_path,
        root_key=STRONG,
        master_key=bytes(range(32)),
        master_key_previous=b"\xff" * 32,
        allowed_origins=("https://a.example", "http://localhost:3000"),
        drain_seconds=0.5,
        log_level="debug",
        failpoints={"before_commit": 3, "between_key_and_entry": 1},
        metrics=("::1", 0),
    )
    assert STRONG not in repr(config)
    assert "x1f" not in repr(config)


def test_every_setting_belongs_to_a_section_or_has_a_default() -> None:
    chosen = {name for choice in CHOICES for name, _ in choice.settings()}
    sections = (Network, Process, Keys, PushServices)
    always = {field for section in sections for field in section.__struct_fields__}
    assert set(PARSE) <= chosen | always | set(with_defaults({}))


def test_each_setting_in_effect_is_listed_with_its_source(tmp_path: Path) -> None:
    file = toml(tmp_path, 'drain_seconds = 1.5\nallowed_origins = ["http://localhost:3000"]\n')
    config = load({"port": "0"}, file, HOST="::1", ROOT_KEY=STRONG)
    listed = {setting.name: setting for setting in config.settings}
    assert [*listed] == sorted(listed)
    assert listed["port"] == Setting("port", "0", "--port")
    assert listed["host"] == Setting("host", "::1", "TIDINGS_HOST")
    assert listed["drain_seconds"] == Setting("drain_seconds", "1.5", f"{file}: drain_seconds")
    assert listed["allowed_origins"].value == "http://localhost:3000"
    assert listed["roles"] == Setting("roles", "gateway,api,worker,relay", "default")
    assert listed["store"] == Setting("store", "sqlite", "default")
    assert listed["metrics"].value is None
    assert listed["root_key"] == Setting("root_key", None, "TIDINGS_ROOT_KEY", True)
    assert listed["master_key"] == Setting("master_key", None, "default", True)
    assert not {name for name in listed if name.startswith(("dynamodb_", "redis_", "push_"))}


def test_flags_before_environment_before_file(tmp_path: Path) -> None:
    file = toml(tmp_path, 'port = 1\nhost = "::1"\ndrain_seconds = 1.5\ndata = "a"\n')
    config = load({"port": "3", "data": None}, file, PORT="2", HOST="127.0.0.2")
    assert (config.network.port, config.network.host) == (3, "127.0.0.2")
    assert config.process.drain_seconds == 1.5
    assert config.data == Path("a")


def test_lists_in_the_file(tmp_path: Path) -> None:
    file = toml(tmp_path, 'allowed_origins = ["https://a.example", "https://b.example"]')
    assert load(file=file).network.allowed_origins == ("https://a.example", "https://b.example")


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    file = toml(tmp_path, 'prot = 1\nlog_level = "loud"\nbus = true\n[store]\na = 1\n')
    told = mistakes(
        {"port": "70000"},
        file,
        MASTER_KEY="short",
        ALLOWED_ORIGINS="*",
        NONSENSE="1",
        DRAIN_SECONDS="soon",
        REGISTRY="rabbit",
    )
    expected = [
        "tidings.toml: prot: there is no such setting; the settings are allowed_origins",
        "tidings.toml: bus: a string, a number",
        "tidings.toml: store: a string, a number",
        "TIDINGS_NONSENSE: there is no such setting",
        "tidings.toml: log_level: 'loud' is not one of debug",
        "TIDINGS_ALLOWED_ORIGINS: '*' is not an origin",
        "TIDINGS_DRAIN_SECONDS: 'soon'",
        "TIDINGS_MASTER_KEY: 32 bytes in base64",
        "TIDINGS_REGISTRY: 'rabbit' is not one of memory, redis",
        "--port: '70000' is not a port",
    ]
    for text in expected:
        assert [line for line in told if text in line], f"{text!r} is missing in {told}"
    assert len(told) == len(expected)


def test_the_message_lists_them() -> None:
    with pytest.raises(SetupError) as caught:
        load(PORT="x", HOST="")
    assert str(caught.value).count("\n- ") == 2
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "address"),
    [("9464", ("127.0.0.1", 9464)), ("metrics.internal:80", ("metrics.internal", 80))],
)
def test_metrics_have_a_port_on_loopback_or_an_address(text: str, address: tuple[str, int]) -> None:
    assert load(METRICS=text).process.metrics == address


@pytest.mark.parametrize("port", ["", "-1", "8080.5", "65536", "1e3", "٣", " 80"])
def test_ports(port: str) -> None:
    assert len(mistakes(PORT=port)) == 1


@pytest.mark.parametrize(
    "origin",
    [
        "https://a.example/",
        "https://a.example/x",
        "a.example",
        "https://*.example",
        "HTTPS://A.example",
        "null",
        "https://a.example:123456",
    ],
)
def test_origins_are_exact(origin: str) -> None:
    assert len(mistakes(ALLOWED_ORIGINS=origin)) == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("STORE", "postgres"),
        ("DRAIN_SECONDS", "-1"),
        ("DRAIN_SECONDS", "nan"),
        ("DRAIN_SECONDS", "301"),
        ("FAILPOINTS", "before_commit"),
        ("FAILPOINTS", "before_commit:0"),
        ("FAILPOINTS", "nowhere:1"),
        ("LIMITS", "maybe"),
        ("METRICS", ""),
        ("METRICS", ":9464"),
        ("METRICS", "host:port"),
        ("ROOT_KEY", ""),
        ("ROOT_KEY", "with space"),
        ("ROOT_KEY", "é" * 40),
        ("MASTER_KEY", ""),
        ("MASTER_KEY", KEY[:-4]),
        ("MASTER_KEY", "*" * 44),
        ("MASTER_KEY_PREVIOUS", KEY),
        ("DATA", ""),
        ("Port", "1"),
    ],
)
def test_what_is_refused(name: str, value: str) -> None:
    assert len(mistakes(None, NO_FILE, **{name: value})) == 1


def test_the_same_master_key_twice_is_no_rotation() -> None:
    assert "the same" in mistakes(MASTER_KEY=KEY, MASTER_KEY_PREVIOUS=KEY)[0]


def test_a_file_is_no_data_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "not a folder" in mistakes(DATA=str(tmp_path / "file"))[0]


def test_a_file_that_is_no_toml(tmp_path: Path) -> None:
    assert "tidings.toml" in mistakes(file=toml(tmp_path, "port = "))[0]


def test_a_key_in_a_file_that_others_may_read(tmp_path: Path) -> None:
    text = f'root_key = "{STRONG}"'
    assert load(file=toml(tmp_path, text)).keys.root_key == STRONG
    assert "chmod 600" in mistakes(file=toml(tmp_path, text, mode=0o644))[0]
    assert load(file=toml(tmp_path, "port = 1", mode=0o644)).network.port == 1


# --- Addresses that others can reach


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_loopback_needs_no_root_key(host: str) -> None:
    assert load(HOST=host).network.is_loopback
    assert not load(HOST=host).network.is_public


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.4", "example.com", "::ffff:1.2.3.4"])
def test_a_public_address_needs_a_root_key(tmp_path: Path, host: str) -> None:
    data = str(tmp_path / "data")
    assert "there is no root key" in mistakes(HOST=host, DATA=data)[0]
    assert load(HOST=host, DATA=data, ROOT_KEY=STRONG).network.host == host


WEAK = [
    "admin",
    "a" * 64,
    STRONG[:31],
    "password" * 8,
    "0123456789" * 4,
    "change-me-" * 5,
    "abcdefghijk" * 3,
    "correct-horse-correct-horse-corre1",
    "abcdefghijklmnopqrstuvwxyz0123456789",
    "please-ChangeMe-before-you-go-to-work",
    "the-root-Password-of-our-fine-server1",
]


@pytest.mark.attack("S11", "H06")
@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
@pytest.mark.parametrize("key", WEAK)
def test_a_weak_root_key_is_refused_on_every_address(tmp_path: Path, key: str, host: str) -> None:
    [told] = mistakes(HOST=host, ROOT_KEY=key)
    assert "TIDINGS_ROOT_KEY: the root key is weak" in told
    assert key not in told
    (tmp_path / "root.key").write_text(f"{key}\n")
    (tmp_path / "root.key").chmod(0o600)
    [told] = mistakes(HOST=host, DATA=str(tmp_path))
    assert "root.key is weak" in told


def test_random_keys_are_strong() -> None:
    chance = random.Random(7)
    made = [chance.randbytes(32) for _ in range(2_000)]
    keys = [key.hex() for key in made] + [b64encode(key).decode() for key in made]
    assert [key for key in keys if why_weak(key)] == []


def test_a_root_key_made_on_an_earlier_start_is_strong(tmp_path: Path) -> None:
    ensure_root_key(tmp_path, SystemChance())
    assert load(HOST="0.0.0.0", DATA=str(tmp_path)).keys.root_key is None
    (tmp_path / "root.key").chmod(0o644)
    assert "chmod 600" in mistakes(HOST="0.0.0.0", DATA=str(tmp_path))[0]


PUBLIC: list[dict[str, str]] = [
    {"HOST": "0.0.0.0"},
    {"TRUSTED_PROXIES": "127.0.0.1"},
    {"ALLOWED_ORIGINS": "https://app.example.com"},
]


@pytest.mark.attack("S11", "H06")
@pytest.mark.parametrize("public", PUBLIC)
def test_whoever_names_a_proxy_or_an_origin_is_in_public(public: dict[str, str]) -> None:
    reached = {**public, "ROOT_KEY": STRONG}
    assert load(None, NO_FILE, **reached).network.is_public
    [told] = mistakes(None, NO_FILE, **reached, LIMITS="off")
    assert "limits cannot be turned off" in told
    [told] = mistakes(None, NO_FILE, **reached, SMS="log")
    assert "TIDINGS_SMS=log writes login codes into the log" in told


def test_behind_a_proxy_the_first_start_makes_the_root_key(tmp_path: Path) -> None:
    assert load(TRUSTED_PROXIES="127.0.0.1", DATA=str(tmp_path)).keys.root_key is None


def test_a_page_on_this_machine_makes_nothing_public() -> None:
    config = load(LIMITS="off", ALLOWED_ORIGINS="http://localhost:3000,http://[::1]:3000")
    assert (config.network.has_limits, config.sms) == (False, "log")


def test_tenants_may_reach_networks_that_the_operator_names() -> None:
    config = load(OUTGOING_ALLOW="10.0.0.0/8, fd00::/8")
    assert [str(one) for one in config.network.outgoing_allow] == ["10.0.0.0/8", "fd00::/8"]
    assert load().network.outgoing_allow == ()
    with pytest.raises(SetupError, match="not an address or a network"):
        load(OUTGOING_ALLOW="inside")


def test_trusted_proxies_are_addresses_and_networks() -> None:
    config = load(TRUSTED_PROXIES="127.0.0.1, 10.0.0.0/8,2001:db8::/48,")
    assert [str(one) for one in config.network.trusted_proxies] == [
        "127.0.0.1/32",
        "10.0.0.0/8",
        "2001:db8::/48",
    ]
    assert load().network.trusted_proxies == ()


@pytest.mark.attack("D16")
@pytest.mark.parametrize(
    "proxies", ["proxy.example", "10.0.0.1/8", "0.0.0.0/0", "::/0", "*", "10.0.0.0/8 10.1.0.0/16"]
)
def test_who_is_trusted_with_addresses_is_named(proxies: str) -> None:
    assert len(mistakes(TRUSTED_PROXIES=proxies)) == 1

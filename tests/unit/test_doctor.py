# SPDX-License-Identifier: Apache-2.0
"""The doctor on the embedded store: each fault is made, found, and named with its cure."""

import asyncio
import json
import os
import shutil
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from tests.support.clock import NOW, ManualClock
from tests.support.settings import config_of
from tests.unit.small_deployment import open_small_deployment
from tests.unit.stub_server import stub_server
from tidings.cli import main
from tidings.config import Config
from tidings.data_folder import LAST_BACKUP, LOCK, only_process
from tidings.doctor import examination
from tidings.doctor.examination import CHECKS, examine
from tidings.doctor.findings import Check, Finding, Subject
from tidings.doctor.machine import ThisMachine
from tidings.model.ids import rfc3339
from tidings.stores.sqlite.engine.connections import DATABASE, RESTORING
from tidings.stores.sqlite.engine.schema import VERSION

GIB = 1024**3


class GoodMachine(ThisMachine):
    """A machine without a fault."""

    synchronised: bool | None = True
    kind = "ext4"
    bytes_left = 100 * GIB
    files_left: int | None = 1_000_000
    flush = 0.001
    files: tuple[int | None, int] = (30, 65_536)

    def free_bytes(self, folder: Path) -> int:
        return self.bytes_left

    def free_files(self, folder: Path) -> int | None:
        return self.files_left

    def sync_seconds(self, folder: Path) -> float:
        return self.flush

    def file_system(self, folder: Path) -> str | None:
        return self.kind

    def is_clock_synchronised(self) -> bool | None:
        return self.synchronised

    def open_files(self, pid: int | None) -> tuple[int | None, int]:
        return self.files


class Patient:
    """A data folder, the machine it is on, and what the doctor says about them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.machine = GoodMachine()
        self.settings: dict[str, object] = {}
        self.public_url: str | None = None
        self.server: str | None = None

    @property
    def config(self) -> Config:
        return config_of(data=self.folder, port=self.settings.pop("port", 0), **self.settings)

    def findings(self) -> list[Finding]:
        subject = Subject(self.config, ManualClock(), self.machine, self.server, self.public_url)
        return asyncio.run(examine(subject))

    def worst(self) -> Finding:
        return self.findings()[0]


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder without a fault, of which each test gets a copy."""
    folder = tmp_path_factory.mktemp("healthy")

    async def fill() -> None:
        async with open_small_deployment(folder):
            pass

    asyncio.run(fill())
    (folder / LAST_BACKUP).write_text(rfc3339(NOW - 3_600_000))
    for path in folder.iterdir():
        os.utime(path, (NOW / 1_000, NOW / 1_000))
    return folder


@pytest.fixture
def patient(healthy: Path, tmp_path: Path) -> Patient:
    """A deployment without a fault, whose server is not running."""
    return Patient(shutil.copytree(healthy, tmp_path / "data"))


def test_a_deployment_without_a_fault(patient: Patient) -> None:
    before = sorted(path.name for path in patient.folder.iterdir())
    findings = patient.findings()
    assert [finding for finding in findings if finding.level != "ok"] == []
    embedded = {check.name for check in CHECKS if check.applies(patient.config)}
    assert {finding.check for finding in findings} == embedded
    assert sorted(path.name for path in patient.folder.iterdir()) == before, "it changes nothing"


def test_a_deployment_that_was_never_started(tmp_path: Path) -> None:
    findings = Patient(tmp_path / "new").findings()
    assert {finding.level for finding in findings} == {"ok", "unknown"}
    assert not (tmp_path / "new").exists()


def _set(**figures: object) -> Callable[[Patient], None]:
    def change(patient: Patient) -> None:
        for name, figure in figures.items():
            setattr(patient.machine, name, figure)

    return change


def _settings(**settings: object) -> Callable[[Patient], None]:
    return lambda patient: patient.settings.update(settings)


def _mode(name: str, mode: int) -> Callable[[Patient], None]:
    return lambda patient: (patient.folder / name).chmod(mode)


def _write(name: str, text: str) -> Callable[[Patient], None]:
    def change(patient: Patient) -> None:
        (patient.folder / name).write_text(text)

    return change


def _sql(*statements: str) -> Callable[[Patient], None]:
    def change(patient: Patient) -> None:
        db = apsw.Connection(str(patient.folder / DATABASE))
        for statement in statements:
            db.execute(statement).fetchall()
        db.close()

    return change


def _no_key(patient: Patient) -> None:
    (patient.folder / "master.key").unlink()


def _later(patient: Patient) -> None:
    later = NOW / 1_000 + 60
    os.utime(patient.folder / DATABASE, (later, later))


def _long_log(patient: Patient) -> None:
    log = patient.folder / f"{DATABASE}-wal"
    log.touch(mode=0o600)
    os.truncate(log, 300_000_000)


def _strange_owner(patient: Patient) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can give a file away")
    os.chown(patient.folder / DATABASE, 65_534, 65_534)


NO_INDEX = "DROP INDEX messages_expiring"

FAULTS: dict[str, tuple[Callable[[Patient], None], str, str, str, str]] = {
    # what is wrong: how it is made, then check, level, and parts of the finding and its cure
    "failpoints": (_settings(failpoints={"x": 1}), "settings", "fault", "FAILPOINTS", "unset"),
    "no limits": (_settings(limits="off"), "settings", "warning", "rate limits", "TIDINGS_LIMITS"),
    "no texts": (
        _settings(sms="sns", sms_region="eu-west-1", sms_per_day=0, host="0.0.0.0"),
        "settings", "warning", "nobody can log in", "TIDINGS_SMS=off",
    ),
    "folder open to others": (_mode(".", 0o755), "files", "warning", "mode 0755", "chmod 700"),
    "key open to others": (_mode("master.key", 0o644), "files", "fault", "master.key", "chmod 600"),
    "store open to others": (_mode(DATABASE, 0o644), "files", "warning", DATABASE, "chmod 600"),
    "file of another user": (_strange_owner, "files", "fault", DATABASE, "chown"),
    "disk full": (_set(bytes_left=1_000), "disk", "fault", "MiB are free", "larger disk"),
    "disk nearly full": (_set(bytes_left=GIB // 2), "disk", "warning", "512 MiB", "larger disk"),
    "no more files": (_set(files_left=3), "disk", "fault", "only 3 files", "larger disk"),
    "slow disk": (_set(flush=0.05), "disk", "warning", "50.0 ms", "SSD"),
    "very slow disk": (_set(flush=0.5), "disk", "fault", "500.0 ms", "SSD"),
    "network disk": (_set(kind="nfs4"), "disk", "fault", "nfs4", "local disk"),
    "disk in memory": (_set(kind="tmpfs"), "disk", "fault", "tmpfs", "to a disk"),
    "clock went back": (_later, "clock", "fault", "60 s in the future", "timedatectl"),
    "clock runs free": (_set(synchronised=False), "clock", "warning", "nothing sync", "chrony"),
    "few files": (_set(files=(None, 1_024)), "limits", "warning", "1,024", "LimitNOFILE"),
    "files used up": (_set(files=(900, 1_024)), "limits", "fault", "900 of 1,024", "LimitNOFILE"),
    "old backup": (
        _write(LAST_BACKUP, rfc3339(NOW - 100_000_000)), "backup", "warning", "27.8", "backup",
    ),
    "backup time unread": (_write(LAST_BACKUP, "soon"), "backup", "unknown", "cannot be read", ""),
    "restore unfinished": (_write(RESTORING, ""), "store", "fault", "not finished", "restore"),
    "not a database": (_write(DATABASE, "x" * 100), "store", "fault", "cannot be read", "first"),
    "newer schema": (
        _sql(f"PRAGMA user_version = {VERSION + 1}"), "store", "fault", "schema", "upgrade.md",
    ),
    "no index": (_sql(NO_INDEX), "store", "warning", "no index messages_expiring", "CREATE INDEX"),
    "no table": (_sql("DROP TABLE reactions"), "store", "fault", "no table reactions", "restore"),
    "long log": (_long_log, "store", "warning", "300 MB", "lsof"),
    "jobs aside": (
        _sql("INSERT INTO jobs_aside VALUES ('1', 'j', 'r', 1)"),
        "store", "warning", "1 delivery", "jobs list",
    ),
    "no master key": (_no_key, "store", "fault", "master key is missing", "keep-the-master-key"),
    "another master key": (
        _sql("UPDATE sealed_secrets SET master_key_id = 'abc'"),
        "store", "fault", "(abc)", "keep-the-",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_and_its_cure_named(patient: Patient, name: str) -> None:
    make, check, level, what, cure = FAULTS[name]
    make(patient)
    worst = patient.worst()
    assert (worst.check, worst.level) == (check, level)
    assert what in worst.what
    assert cure in worst.cure


def test_an_older_schema_needs_nothing(patient: Patient) -> None:
    _sql(f"PRAGMA user_version = {VERSION - 1}")(patient)
    assert any("next start migrates it" in finding.what for finding in patient.findings())


def test_a_folder_that_was_never_backed_up(patient: Patient) -> None:
    (patient.folder / LAST_BACKUP).unlink()
    assert "never backed up" in patient.worst().what


def test_an_unfinished_rotation(patient: Patient) -> None:
    key = patient.folder / "master.key"
    key.write_text(key.read_text() + "A" * 43 + "=\n")
    assert "tidings keys rotate" in patient.worst().cure


def test_figures_that_cannot_be_read_are_unknown(
    patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> tuple[int, int]:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(patient.machine, "open_files", fail)
    patient.machine.synchronised = None
    found = {finding.check: finding for finding in patient.findings() if finding.level != "ok"}
    assert {finding.level for finding in found.values()} == {"unknown"}
    assert found.keys() == {"limits", "clock"}


def test_a_disk_that_fails_a_flush(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(folder: Path) -> float:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(patient.machine, "sync_seconds", fail)
    assert "Input/output error" in patient.worst().what


def test_the_real_machine_tells_its_figures(tmp_path: Path) -> None:
    machine = ThisMachine()
    assert machine.free_bytes(tmp_path) > 0
    assert machine.free_files(tmp_path) is None or machine.free_files(tmp_path)
    assert machine.sync_seconds(tmp_path) >= 0
    assert list(tmp_path.iterdir()) == []
    assert machine.file_system(tmp_path)
    assert machine.file_system(Path("/proc")) == "proc"
    assert machine.is_clock_synchronised() in (True, False, None)
    assert machine.open_files(None)[0] is None
    used, limit = machine.open_files(os.getpid())
    assert used is not None
    assert 0 < used < limit


# --- Ports and servers -------------------------------------------------------------------------


def test_a_port_that_another_program_uses(patient: Patient) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other, stub_server(lambda _: (404, {})) as stub:
        patient.settings = {"port": int(stub.url.rpartition(":")[2])}
        assert "another program answers (404)" in patient.worst().what
        patient.settings = {"metrics": other.getsockname()[:2]}
        worst = patient.worst()
    assert (worst.check, worst.level) == ("server", "fault")
    assert "TIDINGS_METRICS" in worst.cure


def test_an_address_of_another_machine(patient: Patient) -> None:
    patient.settings = {"host": "192.0.2.1"}
    assert "name an address of this machine" in patient.worst().cure


@pytest.mark.parametrize(
    ("answer", "level", "what"),
    [
        ((200, {"status": "ready"}), "ok", "is ready"),
        ((503, {"detail": "the store is broken"}), "fault", "the store is broken"),
        ((200, ["something"]), "fault", "another program"),
    ],
)
def test_a_running_server_is_asked(
    patient: Patient, answer: tuple[int, object], level: str, what: str
) -> None:
    with stub_server(lambda _: answer) as stub:
        patient.server = stub.url
        found = [finding for finding in patient.findings() if finding.check == "server"]
    assert [(each.level, what in each.what) for each in found] == [(level, True)]


def test_a_server_that_breaks_off(patient: Patient) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        patient.server = f"http://127.0.0.1:{listener.getsockname()[1]}"
        closing = threading.Thread(target=lambda: listener.accept()[0].close())
        closing.start()
        worst = patient.worst()
        closing.join()
    assert (worst.check, worst.level) == ("server", "fault")
    assert "SIGUSR1" in worst.cure


def test_a_process_that_does_not_serve_yet(patient: Patient) -> None:
    with only_process(patient.folder):
        assert "does not serve yet" in patient.worst().what
        (patient.folder / LOCK).write_text("?")
        assert patient.worst().level == "ok"


def test_a_public_address_that_leads_nowhere(patient: Patient) -> None:
    patient.public_url = "http://127.0.0.1:9"
    assert "look at the proxy" in patient.worst().cure


# --- The command -------------------------------------------------------------------------------


@pytest.fixture
def clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings but those a test gives."""
    for name in list(os.environ):
        if name.startswith("TIDINGS_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("clean")
def test_wrong_settings_are_findings(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TIDINGS_PROT", "1")
    assert main(["doctor", "--port", "x"]) == 2
    told = capsys.readouterr().out
    assert "there is no such setting" in told
    assert "'x' is not a port" in told
    assert "2 fault." in told


@pytest.mark.usefixtures("clean")
def test_the_command_tells_the_worst_first(
    patient: Patient, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def two(_subject: Subject) -> object:
        yield Finding(level="ok", what="good")
        yield Finding(level="warning", what="bad", cure="do it")

    checks = (Check("one", two), Check("two", two))  # type: ignore[arg-type]
    monkeypatch.setattr(examination, "CHECKS", checks)
    words = ["doctor", "--data", str(patient.folder), "--port", "0"]
    assert main([*words, "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["worst"], [each["level"] for each in told["findings"]]) == (
        "warning",
        ["warning", "warning", "ok", "ok"],
    )
    assert main(words) == 1
    text = capsys.readouterr().out
    assert text.index("bad") < text.index("-> do it") < text.index("good")


def test_a_check_that_does_not_end_is_a_fault(
    patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(_subject: Subject) -> object:
        yield Finding(level="ok", what="began")
        await asyncio.Event().wait()

    monkeypatch.setattr(examination, "CHECKS", (Check("slow", hang),))  # type: ignore[arg-type]
    monkeypatch.setattr(examination, "CHECK_SECONDS_MAX", 0.0)
    assert [finding.level for finding in patient.findings()] == ["fault", "ok"]

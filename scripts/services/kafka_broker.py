# SPDX-License-Identifier: Apache-2.0
"""Kafka: one broker that is its own controller, from jars that Maven downloads."""

import shutil
import socket
import struct
from pathlib import Path
from tempfile import mkdtemp
from typing import ClassVar, Final

from scripts.services.maven import copy_jars, java_with_jars, version_of
from scripts.services.obtaining import FOLDER, kept, run
from scripts.services.ports import HOST, free_port
from scripts.services.process import START_SECONDS_MAX, ServiceDied, ServiceProcess

POM: Final = Path(__file__).with_name("kafka.pom.xml")
DIGESTS: Final = Path(__file__).with_name("kafka.sha256")
CLUSTER_ID: Final = "dGlkaW5ncy10ZXN0cy0tLQ"

_ARCHIVE: Final = "classes.jsa"
_CONFIG: Final = "server.properties"
_DATA: Final = "data"
_FORMATTED: Final = "formatted"
_JVM: Final = (
    "-Xmx256m",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
)
# A single broker can have only one replica of each topic. Consumer groups form without a delay. The
# session timeout of a broker is three seconds instead of nine, because a killed broker can register
# again only after its last session has ended. Index files are small, because Kafka allocates their
# full size at once.
_SETTINGS: Final = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller_port}
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller_port}
advertised.listeners=PLAINTEXT://{host}:{port}
controller.listener.names=CONTROLLER
log.dirs={data}
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=500
log.index.size.max.bytes=65536
log.cleaner.dedupe.buffer.size=4194304
"""
_ANSWER_SECONDS_MAX: Final = 5.0
_API_VERSIONS: Final = 18
_CORRELATION_ID: Final = 7


def obtain(folder: Path = FOLDER) -> Path:
    """Return the folder with the jars in `libs`, and an empty, formatted data folder in
    `formatted`."""
    home = kept(folder / f"kafka-{version()}", _build, "maven")
    _archive_classes(home)
    return home


def version() -> str:
    """Return the version of Kafka that the project file names."""
    return version_of("kafka_2.13", POM)


class KafkaBroker(ServiceProcess):
    """A broker with its topics in its folder, where they survive a restart."""

    name: ClassVar[str] = "Kafka"

    def __init__(
        self,
        folder: Path,
        port: int | None = None,
        *,
        controller_port: int | None = None,
        guarded: bool = True,
    ) -> None:
        super().__init__(folder, port, guarded=guarded)
        self._controller_port = free_port() if controller_port is None else controller_port

    @property
    def address(self) -> str:
        """Host and port of the bootstrap server."""
        return f"{HOST}:{self.port}"

    def command(self) -> list[str]:
        """Return the command that runs the broker; prepare its data folder at the first start."""
        home = obtain()
        return self._command(home, f"-XX:SharedArchiveFile={home / _ARCHIVE}")

    def answers(self) -> bool:
        """Return whether the broker lists its supported requests, which it does only when it is
        ready."""
        request = struct.pack(">hhih", _API_VERSIONS, 0, _CORRELATION_ID, -1)
        try:
            with socket.create_connection((HOST, self.port), _ANSWER_SECONDS_MAX) as connection:
                connection.sendall(struct.pack(">i", len(request)) + request)
                answer = connection.makefile("rb").read(10)
        except OSError:
            return False
        return answer[4:] == struct.pack(">ih", _CORRELATION_ID, 0)

    def prepare(self, home: Path) -> None:
        """Put a formatted data folder and the settings into the broker's folder."""
        data = self.folder / _DATA
        if not data.exists():
            shutil.copytree(home / _FORMATTED, data)
        self.write_settings()

    def write_settings(self, more: str = "") -> None:
        """Write the settings file, with `more` lines for this broker."""
        _write_settings(self.folder, self.port, self._controller_port, more)

    def _command(self, home: Path, archive_option: str) -> list[str]:
        self.prepare(home)
        return [
            *java_with_jars(home, *_JVM),
            archive_option,
            "kafka.Kafka",
            str(self.folder / _CONFIG),
        ]


def _build(folder: Path) -> None:
    copy_jars(POM, DIGESTS, folder)
    _write_settings(folder, 0, 0)
    format_data(folder, folder)
    # A new broker starts with a copy of this folder, because formatting takes a second.
    (folder / _DATA).rename(folder / _FORMATTED)


def format_data(home: Path, folder: Path, *options: str) -> None:
    """Format the data folder that the settings in a folder name."""
    tool = [*java_with_jars(home, *_JVM), "kafka.tools.StorageTool", "format"]
    run([*tool, "--cluster-id", CLUSTER_ID, "--config", str(folder / _CONFIG), *options], folder)


class _FirstStart(KafkaBroker):
    """A broker that writes an archive of its loaded classes when it stops."""

    stop_seconds_max = START_SECONDS_MAX  # it writes the archive when it stops

    def command(self) -> list[str]:
        home, archive = self.folder.parent, self.folder / _ARCHIVE
        return self._command(home, f"-XX:ArchiveClassesAtExit={archive}")


def _archive_classes(home: Path) -> None:
    """Start a broker once to write Java's archive of classes, which makes later starts faster.

    The archive is valid for one class path only, so the jars must already be in their final folder.
    """
    if (home / _ARCHIVE).exists():
        return
    folder = Path(mkdtemp(dir=home))
    with _FirstStart(folder) as broker:
        pass
    if not (folder / _ARCHIVE).exists():
        raise ServiceDied(
            f"{broker.name} wrote no archive of classes; its log is {broker.log_file}"
        )
    (folder / _ARCHIVE).replace(home / _ARCHIVE)
    shutil.rmtree(folder)  # after a failure the folder stays, because it contains the log


def _write_settings(folder: Path, port: int, controller_port: int, more: str = "") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    text = _SETTINGS.format(
        host=HOST, port=port, controller_port=controller_port, data=folder / _DATA
    )
    # If a setting occurs twice in the file, Java uses the last one.
    (folder / _CONFIG).write_text(text + more)

# SPDX-License-Identifier: Apache-2.0
"""ElasticMQ: a server with the protocol of SQS, from jars that Maven downloads."""

from pathlib import Path
from typing import ClassVar, Final

from scripts.services import json_protocol
from scripts.services.maven import copy_jars, java_with_jars, version_of
from scripts.services.obtaining import FOLDER, kept
from scripts.services.ports import HOST
from scripts.services.process import ServiceProcess

POM: Final = Path(__file__).with_name("elasticmq.pom.xml")
DIGESTS: Final = Path(__file__).with_name("elasticmq.sha256")

_CONFIG: Final = "elasticmq.conf"
_SETTINGS: Final = """\
node-address {{ protocol = http, host = "{host}", port = {port}, context-path = "" }}
rest-sqs {{ enabled = true, bind-hostname = "{host}", bind-port = {port}, sqs-limits = strict }}
rest-stats {{ enabled = false }}
generate-node-address = false
"""


def obtain(folder: Path = FOLDER) -> Path:
    """Return the folder with the jars in `libs`; download them if necessary."""
    version = version_of("elasticmq-server_2.13", POM)
    return kept(
        folder / f"elasticmq-{version}", lambda part: copy_jars(POM, DIGESTS, part), "maven"
    )


class ElasticMQ(ServiceProcess):
    """ElasticMQ with its queues in memory; a restart deletes them."""

    name: ClassVar[str] = "ElasticMQ"

    @property
    def address(self) -> str:
        """The endpoint for clients."""
        return f"http://{HOST}:{self.port}"

    def command(self) -> list[str]:
        """Return the command that runs the server, with a file that sets its address."""
        settings = self.folder / _CONFIG
        self.folder.mkdir(parents=True, exist_ok=True)
        settings.write_text(_SETTINGS.format(host=HOST, port=self.port))
        java = java_with_jars(obtain(), "-Xmx128m", f"-Dconfig.file={settings}")
        return [*java, "org.elasticmq.server.Main"]

    def answers(self) -> bool:
        """Return whether the service can list its queues."""
        return json_protocol.answers(self.port, "AmazonSQS.ListQueues", {})

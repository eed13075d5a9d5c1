# SPDX-License-Identifier: Apache-2.0
"""ElasticMQ: queues that speak the protocol of SQS, from the jars that Maven has."""

from pathlib import Path
from typing import ClassVar, Final

from scripts.services import json_protocol
from scripts.services.maven import copy_jars, java_with_jars, version_of
from scripts.services.obtaining import FOLDER, kept
from scripts.services.process import HOST, ServiceProcess

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
    """The folder with the jars in `libs`."""
    version = version_of("elasticmq-server_2.13", POM)
    return kept(folder / f"elasticmq-{version}", lambda part: copy_jars(POM, DIGESTS, part))


class ElasticMQ(ServiceProcess):
    """Queues in memory: after a restart there are none."""

    name: ClassVar[str] = "ElasticMQ"

    @property
    def address(self) -> str:
        """The endpoint for a client."""
        return f"http://{HOST}:{self.port}"

    def command(self) -> list[str]:
        """Java with the server's class and a file that says where to listen."""
        settings = self.folder / _CONFIG
        self.folder.mkdir(parents=True, exist_ok=True)
        settings.write_text(_SETTINGS.format(host=HOST, port=self.port))
        java = java_with_jars(obtain(), "-Xmx128m", f"-Dconfig.file={settings}")
        return [*java, "org.elasticmq.server.Main"]

    def answers(self) -> bool:
        """Whether it lists its queues."""
        return json_protocol.answers(self.port, "AmazonSQS.ListQueues", {})

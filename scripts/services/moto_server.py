# SPDX-License-Identifier: Apache-2.0
"""moto's server: an AWS account in memory, for AWS services that no other local program
imitates."""

import sys
from typing import ClassVar

from scripts.services import json_protocol
from scripts.services.ports import HOST
from scripts.services.process import ServiceProcess


class MotoServer(ServiceProcess):
    """CloudWatch, Application Auto Scaling, Backup and more; a restart deletes everything."""

    name: ClassVar[str] = "moto"

    @property
    def address(self) -> str:
        """The endpoint for clients of any service."""
        return f"http://{HOST}:{self.port}"

    def command(self) -> list[str]:
        """Return the command that runs the server, a package of the development environment."""
        return [sys.executable, "-m", "moto.server", "-H", HOST, "-p", str(self.port)]

    def answers(self) -> bool:
        """Return whether the server can list its tables."""
        return json_protocol.answers(self.port, "DynamoDB_20120810.ListTables", {})

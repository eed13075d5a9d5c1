# SPDX-License-Identifier: Apache-2.0
"""moto's server: an account of AWS in memory, for the services that have no engine of their own."""

import sys
from typing import ClassVar

from scripts.services import json_protocol
from scripts.services.process import HOST, ServiceProcess


class MotoServer(ServiceProcess):
    """CloudWatch, Application Auto Scaling, Backup and more; after a restart all is gone."""

    name: ClassVar[str] = "moto"

    @property
    def address(self) -> str:
        """The endpoint for a client of any service."""
        return f"http://{HOST}:{self.port}"

    def command(self) -> list[str]:
        """The server, which is a package of the development environment."""
        return [sys.executable, "-m", "moto.server", "-H", HOST, "-p", str(self.port)]

    def answers(self) -> bool:
        """Whether it lists its tables."""
        return json_protocol.answers(self.port, "DynamoDB_20120810.ListTables", {})

# SPDX-License-Identifier: Apache-2.0
"""A Kafka broker that requires TLS, and a password or a client certificate."""

from pathlib import Path
from typing import ClassVar, Final

from scripts.services.kafka_broker import KafkaBroker, format_data
from scripts.services.ports import HOST, free_port

_SASL: Final = "org.apache.kafka.common.security"
_MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
# The plain listener is for the broker itself and for the check whether it runs.
_SETTINGS: Final = """\
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller},\
SASL_SSL://{host}:{sasl},SSL://{host}:{tls}
advertised.listeners=PLAINTEXT://{host}:{port},SASL_SSL://{host}:{sasl},SSL://{host}:{tls}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL,SSL:SSL
inter.broker.listener.name=PLAINTEXT
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512
listener.name.sasl_ssl.plain.sasl.jaas.config={sasl_class}.plain.PlainLoginModule required \
user_{username}="{password}";
listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config={sasl_class}.scram.ScramLoginModule required;
listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config={sasl_class}.scram.ScramLoginModule required;
ssl.keystore.type=PEM
ssl.keystore.location={identity}
ssl.truststore.type=PEM
ssl.truststore.location={authority}
listener.name.ssl.ssl.client.auth=required
"""


class SecureKafkaBroker(KafkaBroker):
    """A broker with one TLS listener for passwords and another for client certificates."""

    name: ClassVar[str] = "Kafka with TLS"

    def __init__(
        self, folder: Path, *, identity: Path, authority: Path, username: str, password: str
    ) -> None:
        """Set up the broker; `identity` is a PEM file with its key and certificate."""
        super().__init__(folder)
        self.sasl_address = f"{HOST}:{free_port()}"
        self.tls_address = f"{HOST}:{free_port()}"
        self._identity = identity
        self._authority = authority
        self._username = username
        self._password = password

    def prepare(self, home: Path) -> None:
        """Format the data folder with the SCRAM users, whom the broker stores in its own data."""
        self.write_settings(self._more())
        users = [
            f"{mechanism}=[name={self._username},password={self._password}]"
            for mechanism in _MECHANISMS
        ]
        format_data(home, self.folder, *(word for user in users for word in ("--add-scram", user)))

    def _more(self) -> str:
        return _SETTINGS.format(
            host=HOST,
            port=self.port,
            controller=self._controller_port,
            sasl=self.sasl_address.rpartition(":")[2],
            tls=self.tls_address.rpartition(":")[2],
            sasl_class=_SASL,
            username=self._username,
            password=self._password,
            identity=self._identity,
            authority=self._authority,
        )

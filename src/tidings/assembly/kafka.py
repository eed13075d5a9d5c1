# SPDX-License-Identifier: Apache-2.0
"""Where Kafka is and how to log in there, as the settings say."""

import ssl
from typing import TYPE_CHECKING

from tidings.config import Config
from tidings.stores.trouble import StoreRefused

if TYPE_CHECKING:
    from tidings.buses.kafka_clients import KafkaServers


def kafka_servers(config: Config) -> "KafkaServers":
    """The servers with TLS and credentials.

    Raises:
        StoreRefused: The certificate and its key do not belong together, or are none.
    """
    from tidings.buses.kafka_clients import KafkaServers, Sasl

    assert config.kafka_bootstrap is not None, "settings are checked"
    sasl = None
    if config.kafka_username is not None and config.kafka_password is not None:
        sasl = Sasl(config.kafka_sasl.upper(), config.kafka_username, config.kafka_password)
    return KafkaServers(config.kafka_bootstrap, _tls(config), sasl)


def _tls(config: Config) -> ssl.SSLContext | None:
    if config.kafka_tls == "off":
        return None
    context = ssl.create_default_context(cafile=config.kafka_ca)
    if config.kafka_certificate is not None:
        try:
            # An encrypted key is refused; without a password here, OpenSSL would ask a terminal.
            context.load_cert_chain(
                config.kafka_certificate, config.kafka_certificate_key, password=lambda: ""
            )
        except ssl.SSLError as error:
            raise StoreRefused(
                "TIDINGS_KAFKA_CERTIFICATE and TIDINGS_KAFKA_CERTIFICATE_KEY are not a "
                f"certificate and its key: {error.reason or error}"
            ) from error
    return context

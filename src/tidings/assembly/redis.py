# SPDX-License-Identifier: Apache-2.0
"""Where Redis is and how to log in there, as the settings say."""

from typing import TYPE_CHECKING

from tidings.config import Config

if TYPE_CHECKING:
    from tidings.registries.servers import RedisServers


def redis_servers(config: Config) -> "RedisServers":
    """The server or the cluster, with TLS and credentials."""
    from tidings.registries.servers import RedisServers

    assert config.redis_url is not None, "settings are checked"
    return RedisServers(
        config.redis_url,
        ca=config.redis_ca,
        password=config.redis_password,
        is_cluster=config.redis_mode == "cluster",
    )

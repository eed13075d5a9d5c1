# SPDX-License-Identifier: Apache-2.0
"""Makes settings for tests, from the names that operators write."""

from typing import Any

from tidings.config import Config, DynamoDb
from tidings.config.building import make_config
from tidings.config.settings import Cluster


def config_of(**settings: Any) -> Config:
    """Return the settings with these values; a setting that is None is not set."""
    return make_config({name: value for name, value in settings.items() if value is not None})


def tables_of(config: Config) -> DynamoDb:
    """Return the section of the DynamoDB store."""
    assert isinstance(config.store, DynamoDb)
    return config.store


def cluster_of(config: Config) -> Cluster:
    """Return the section of the services between processes."""
    assert config.cluster is not None
    return config.cluster

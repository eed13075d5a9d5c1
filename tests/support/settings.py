# SPDX-License-Identifier: Apache-2.0
"""Settings for tests, by the flat names that operators write."""

from typing import Any

from tidings.config import Config, DynamoDb
from tidings.config.building import make_config
from tidings.config.settings import Cluster


def config_of(**settings: Any) -> Config:
    """Settings out of parsed values; None stands for a setting that is not set."""
    return make_config({name: value for name, value in settings.items() if value is not None})


def tables_of(config: Config) -> DynamoDb:
    """The section of the store on tables."""
    assert isinstance(config.store, DynamoDb)
    return config.store


def cluster_of(config: Config) -> Cluster:
    """The section of several processes."""
    assert config.cluster is not None
    return config.cluster

# SPDX-License-Identifier: Apache-2.0
"""Settings from flags, environment and file, checked, with all mistakes reported at once."""

from tidings.config.loading import FILE_NAME, load_config
from tidings.config.settings import ROLES, Config, DynamoDb, Kafka, Redis, Sns, Sqs, Webhook

__all__ = [
    "FILE_NAME",
    "ROLES",
    "Config",
    "DynamoDb",
    "Kafka",
    "Redis",
    "Sns",
    "Sqs",
    "Webhook",
    "load_config",
]

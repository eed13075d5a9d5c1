# SPDX-License-Identifier: Apache-2.0
"""Reads settings from flags, environment and file, checks them, and reports all mistakes at
once."""

from tidings.config.loading import FILE_NAME, WrongSettings, load_config
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
    "WrongSettings",
    "load_config",
]

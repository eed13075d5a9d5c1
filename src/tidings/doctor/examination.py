# SPDX-License-Identifier: Apache-2.0
"""Runs all checks of a deployment, and orders what they found by importance."""

import asyncio
from typing import Final

import msgspec

from tidings.config import Config, DynamoDb
from tidings.doctor.attachment_checks import has_attachments, look_at_attachments
from tidings.doctor.cluster_checks import look_at_kafka, look_at_redis, look_at_sqs
from tidings.doctor.findings import LEVELS, Check, Finding, Subject, fault
from tidings.doctor.host_checks import (
    look_at_backups,
    look_at_clock,
    look_at_disk,
    look_at_files,
    look_at_limits,
    look_at_settings,
)
from tidings.doctor.network_checks import look_at_certificates, look_at_server
from tidings.doctor.store_checks import look_at_database, look_at_tables
from tidings.doctor.tls_checks import has_certificate, look_at_port_certificate
from tidings.model.setup_error import SetupError

CHECK_SECONDS_MAX: Final = 30.0
_CURE: Final = "correct this first; then run the doctor again, because the check ended here"


def _is_embedded(config: Config) -> bool:
    return not isinstance(config.store, DynamoDb)


def _has_folder(config: Config) -> bool:
    """Return whether the data or a key of the deployment is in the data folder."""
    return _is_embedded(config) or config.is_alone


def _is_cluster(config: Config) -> bool:
    return config.cluster is not None


CHECKS: Final = (
    Check("settings", look_at_settings),
    Check("files", look_at_files, _has_folder),
    Check("store", look_at_database, _is_embedded),
    Check("store", look_at_tables, lambda config: not _is_embedded(config)),
    Check("disk", look_at_disk, _is_embedded),
    Check("attachments", look_at_attachments, has_attachments),
    Check("server", look_at_server),
    Check("clock", look_at_clock),
    Check("tls", look_at_port_certificate, has_certificate),
    Check("certificates", look_at_certificates),
    Check("kafka", look_at_kafka, _is_cluster),
    Check("redis", look_at_redis, _is_cluster),
    Check("sqs", look_at_sqs, lambda config: config.sqs is not None),
    Check("limits", look_at_limits),
    Check("backup", look_at_backups, _is_embedded),
)
"""All checks, the most important first."""


async def examine(subject: Subject) -> list[Finding]:
    """Run every check that applies; return what they found, the most important first."""
    found = []
    for check in CHECKS:
        if check.applies(subject.config):
            found += await _run(check, subject)
    return in_order(found)


def in_order(findings: list[Finding]) -> list[Finding]:
    """Return the findings with the worst first; equally bad ones keep their order."""
    return sorted(findings, key=lambda finding: LEVELS.index(finding.level))


async def _run(check: Check, subject: Subject) -> list[Finding]:
    """Run a check. If it cannot finish, this is a fault, and what it found before remains."""
    found: list[Finding] = []
    try:
        async with asyncio.timeout(CHECK_SECONDS_MAX):
            async for finding in check.look(subject):
                found.append(finding)  # noqa: PERF401 - keeps what came before an error
    except TimeoutError:
        found.append(fault(f"no answer for {CHECK_SECONDS_MAX:.0f} s", _CURE))
    except (OSError, SetupError) as error:
        found.append(fault(str(error), _CURE))
    return [msgspec.structs.replace(finding, check=check.name) for finding in found]

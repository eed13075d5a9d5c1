# SPDX-License-Identifier: Apache-2.0
"""`tidings doctor`: examines settings, machine, store and services, and says what to do."""

import argparse
import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from tidings import __version__
from tidings.assembly.system import SystemClock
from tidings.cli.server_access import certificate_of, running_server
from tidings.config import FILE_NAME, WrongSettings, load_config
from tidings.doctor.findings import EXIT_CODES, LEVELS, Finding, Subject

_SHOWN: Final = {"fault": "FAULT", "warning": "WARNING", "unknown": "unknown", "ok": "ok"}


def add_doctor_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `tidings doctor`."""
    parser.add_argument(
        "--url", metavar="URL", help="the address at which clients reach the server, to check it"
    )
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")


def doctor(
    flags: Mapping[str, str | None], environment: Mapping[str, str], options: argparse.Namespace
) -> int:
    """Examine the deployment without changing it; return the exit code of the worst finding."""
    try:
        config = load_config(flags, environment, Path(FILE_NAME))
    except WrongSettings as wrong:
        findings = [
            Finding(check="settings", level="fault", what=mistake, cure="correct this setting")
            for mistake in wrong.mistakes
        ]
    else:
        # Imported here, because the other commands start faster without it.
        from tidings.doctor.examination import examine

        server = running_server(config.data)
        subject = Subject(
            config,
            SystemClock(),
            server=server,
            public_url=options.url,
            server_certificate=certificate_of(server),
        )
        findings = asyncio.run(examine(subject))
    worst = findings[0].level
    print(_as_json(findings) if options.json else _as_text(findings))
    return EXIT_CODES[worst]


def _as_json(findings: list[Finding]) -> str:
    return json.dumps(
        {
            "version": __version__,
            "worst": findings[0].level,
            "findings": msgspec.to_builtins(findings),
        },
        indent=2,
        ensure_ascii=False,
    )


def _as_text(findings: list[Finding]) -> str:
    lines = []
    for finding in findings:
        lines.append(f"{_SHOWN[finding.level]:<9}{finding.check:<14}{finding.what}")
        if finding.cure:
            lines.append(f"{'':<9}{'':<14}-> {finding.cure}")
    counts = [(level, sum(each.level == level for each in findings)) for level in LEVELS]
    lines.append("")
    lines.append(", ".join(f"{count} {level}" for level, count in counts if count) + ".")
    return "\n".join(lines)

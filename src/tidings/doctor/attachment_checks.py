# SPDX-License-Identifier: Apache-2.0
"""Checks the place for the bytes of attachments: a folder, or a bucket."""

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from tidings.assembly.stores import open_blobs
from tidings.assembly.system import SystemChance
from tidings.config import Config
from tidings.data_folder import ATTACHMENTS
from tidings.doctor.findings import Finding, Subject, fault, fine
from tidings.doctor.reaching import judge_latency, reached_in
from tidings.model.refusals import StoreUnavailable

BUCKET_SECONDS_SLOW: Final = 0.2
_NO_ATTACHMENT: Final = "0" * 26
"""An id that no attachment has."""


def has_attachments(config: Config) -> bool:
    """Return True if users of the deployment may upload files."""
    return config.attachments != "off"


async def look_at_attachments(subject: Subject) -> AsyncIterator[Finding]:
    """Check whether the bytes of attachments can be stored and read. Nothing is stored."""
    config = subject.config
    if config.blobs is None:
        yield _judge_folder(config)
        return
    async with open_blobs(config, subject.clock, SystemChance()) as blobs:
        try:
            _, seconds = await reached_in(lambda: blobs.names(_NO_ATTACHMENT))
        except StoreUnavailable as reason:
            yield fault(
                f"{config.blobs} cannot be used: {reason.__cause__}",
                "check the name and region of the bucket, the credentials of the server, and the "
                "rights in docs/how-to/send-files.md",
            )
        else:
            yield judge_latency(config.blobs, seconds, BUCKET_SECONDS_SLOW)


def _judge_folder(config: Config) -> Finding:
    assert config.attachments != "off", "the check is for deployments with attachments"
    folder: Path = config.attachments.folder or config.data / ATTACHMENTS
    if not folder.exists():
        return fine(f"{folder} does not exist yet: the server creates it")
    if not folder.is_dir() or not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        return fault(
            f"files cannot be stored in {folder}",
            "run the doctor as the user of the server, or give that user the folder with chown",
        )
    return fine(f"files are stored in {folder}")

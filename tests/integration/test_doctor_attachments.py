# SPDX-License-Identifier: Apache-2.0
"""What the doctor says about the place for the bytes of files."""

from pathlib import Path

import pytest

from tests.support.buckets import a_bucket_url, an_account
from tests.support.settings import config_of
from tidings.assembly.system import SystemClock
from tidings.aws import objects
from tidings.config import Config
from tidings.data_folder import ATTACHMENTS
from tidings.doctor.attachment_checks import has_attachments, look_at_attachments
from tidings.doctor.findings import Subject


async def found_in(config: Config) -> list[tuple[str, str]]:
    findings = look_at_attachments(Subject(config, SystemClock()))
    return [(finding.level, finding.what) async for finding in findings]


async def test_a_folder(tmp_path: Path) -> None:
    config, folder = config_of(data=tmp_path), tmp_path / ATTACHMENTS
    assert has_attachments(config)
    assert not has_attachments(config_of(data=tmp_path, attachments="off"))
    assert await found_in(config) == [("ok", f"{folder} does not exist yet: the server creates it")]
    folder.mkdir()
    assert await found_in(config) == [("ok", f"files are stored in {folder}")]
    other = tmp_path / "a file"
    other.touch()
    elsewhere = config_of(data=tmp_path, attachments_folder=other)
    assert await found_in(elsewhere) == [("fault", f"files cannot be stored in {other}")]


async def test_a_bucket(aws_endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with an_account(aws_endpoint):
        [(_, told)] = await found_in(config_of(data=tmp_path, blobs=a_bucket_url()))
        assert "answers in" in told
        [(level, told)] = await found_in(config_of(data=tmp_path, blobs="s3://nowhere/x"))
        assert (level, "NoSuchBucket" in told) == ("fault", True)
    monkeypatch.setattr(objects, "PAUSE_SECONDS_FIRST", 0.0)
    with an_account("http://127.0.0.1:1"):
        [(level, told)] = await found_in(config_of(data=tmp_path, blobs="s3://nowhere/x"))
        assert (level, "cannot be used" in told) == ("fault", True)

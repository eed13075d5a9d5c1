# SPDX-License-Identifier: Apache-2.0
"""Backups in a bucket: of moto in each run, and of S3Proxy in long ones."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from tests.contract.backup_bench import Bench, Signature
from tests.contract.moving_ground import FolderPlace
from tests.contract.test_verify import verify
from tests.support.buckets import S3_SERVERS, a_bucket_url, an_account
from tests.support.clock import NOW
from tidings.model.setup_error import SetupError
from tidings.stores.sqlite.backup import bucket as buckets
from tidings.stores.sqlite.backup import bucket_lock
from tidings.stores.sqlite.backup.bucket import BackupBucket, open_bucket
from tidings.stores.sqlite.backup.manifest import BackupDamaged, backup_ids, read_manifest
from tidings.stores.sqlite.backup.restoring import check_backup, restore


@pytest.fixture(params=S3_SERVERS)
def place(request: pytest.FixtureRequest) -> Iterator[BackupBucket]:
    """A prefix of a bucket that exists."""
    with an_account(request.getfixturevalue(request.param)):
        yield open_bucket(f"{a_bucket_url('backups')}/")


async def test_backups_go_to_a_bucket_and_come_back(
    place: BackupBucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buckets, "UPLOAD_BYTES", 5 * 1024 * 1024)
    bench = Bench(tmp_path)
    await bench.send("x" * 6_000_000)  # more than one part
    first = bench.back_up(place).manifest
    await bench.send("more")
    second = bench.back_up(place, keep=1).manifest

    assert backup_ids(place) == [second.backup_id]
    assert second.new_bytes < first.new_bytes / 10
    check_backup(place, read_manifest(place, second.backup_id, Signature()))
    restore(place, second, tmp_path / "new", [], NOW)
    found = await verify(FolderPlace(tmp_path / "new"))
    assert not [line for line in found if "data key" not in line]

    assert (place.size(second.keys.name) > 0, place.size("nothing")) == (True, -1)
    place.remove(second.packs[0])
    with pytest.raises(BackupDamaged, match="cannot be read"):
        check_backup(place, second)


def test_two_machines_never_back_up_at_once(
    place: BackupBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bucket_lock, "RENEW_SECONDS", 0.001)
    with place.alone(), pytest.raises(SetupError, match="another backup"), place.alone():
        pass
    with place.create("running-killed"):
        pass
    with pytest.raises(SetupError, match="another backup"), place.alone():
        pass
    monkeypatch.setattr(bucket_lock, "OLD_AFTER", timedelta())
    with place.alone():
        assert place.size("running-killed") == -1


def test_a_place_that_is_none(place: BackupBucket, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SetupError, match="names no bucket"):
        open_bucket("s3:///prefix")
    with pytest.raises(FileNotFoundError), place.open("nothing"):
        pass
    with pytest.raises(OSError, match="NoSuchBucket"):
        open_bucket("s3://nowhere").names()
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with pytest.raises(OSError, match="Could not connect"):
        open_bucket("s3://backups").names()

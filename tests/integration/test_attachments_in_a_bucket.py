# SPDX-License-Identifier: Apache-2.0
"""A server whose files are in a bucket: uploads, ranges, sweeps, and backups to another bucket."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.attachments import of, sent, some_bytes, start, sweep, upload
from tests.integration.rest_world import open_rest
from tests.support.buckets import a_bucket_url, an_account
from tidings.aws import objects
from tidings.cli import main
from tidings.data_folder import ATTACHMENTS
from tidings.model.attachments import PART_BYTES
from tidings.ports.attachments import StoredParts


@pytest.fixture
def account(aws_endpoint: str) -> Iterator[None]:
    with an_account(aws_endpoint):
        yield


@pytest.mark.usefixtures("account")
async def test_files_in_a_bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url, data = a_bucket_url(), some_bytes(2 * PART_BYTES + 5)
    async with open_rest(tmp_path, settings={"blobs": url}) as rest:
        ann, ben = await rest.users("ann", "ben")
        chat = await ann.group("ben")
        file = await upload(ann, data)
        message = await sent(ann, chat, "m1", file)
        assert (await ben.call("GET", of(chat, message, file))).content == data
        around = {"Range": f"bytes={PART_BYTES - 2}-{PART_BYTES + 1}"}
        part = await ben.call("GET", of(chat, message, file), headers=around)
        assert (part.status_code, part.content) == (206, data[PART_BYTES - 2 : PART_BYTES + 2])
        stored: list[StoredParts] = [one async for one in rest.core.files.sweep.blobs.all()]
        assert [(one.attachment_id, len(one.names)) for one in stored] == [(file, 3)]
        assert not (tmp_path / ATTACHMENTS).exists()

        made = await start(ann, 5)
        monkeypatch.setattr(objects, "PAUSE_SECONDS_FIRST", 0.0)
        with monkeypatch.context() as patched:
            blobs = rest.core.files.sweep.blobs
            patched.setattr(blobs._bucket, "_endpoint", "http://127.0.0.1:1")  # type: ignore[attr-defined]
            refused = await ann.call("PUT", made["upload_url"], content=b"12345")
            assert refused.status_code == 503
            assert (await ben.call("GET", of(chat, message, file))).status_code == 503
        assert (await ann.call("PUT", made["upload_url"], content=b"12345")).status_code == 204

        await ann.ok("DELETE", f"/v1/chats/{chat}/messages/{message['sequence']}")
        await sweep(rest)
        left = {one.attachment_id async for one in rest.core.files.sweep.blobs.all()}
        assert left == {made["attachment_id"]}


@pytest.mark.usefixtures("account")
async def test_a_backup_from_a_bucket_to_a_bucket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    live, backups, elsewhere = a_bucket_url(), a_bucket_url("backups"), a_bucket_url()
    data, folder = some_bytes(PART_BYTES + 5), str(tmp_path / "data")
    async with open_rest(Path(folder), settings={"blobs": live}) as rest:
        ann, ben = await rest.users("ann", "ben")
        chat = await ann.group("ben")
        file = await upload(ann, data)
        message = await sent(ann, chat, "m1", file)

    def run(*command: str, blobs: str = live) -> int:
        monkeypatch.setenv("TIDINGS_BLOBS", blobs)
        return main([*command])

    for expected in ("wrote and verified 4.", "wrote and verified 0."):
        assert await asyncio.to_thread(run, "backup", backups, "--data", folder) == 0
        assert expected in capsys.readouterr().out
    assert await asyncio.to_thread(run, "restore", backups, "--check", "--data", folder) == 0
    new = tmp_path / "new"
    new.mkdir(mode=0o700)
    (new / "master.key").write_bytes((tmp_path / "data" / "master.key").read_bytes())
    (new / "master.key").chmod(0o600)
    restoring = ("restore", backups, "--data", str(new))
    assert await asyncio.to_thread(lambda: run(*restoring, blobs=elsewhere)) == 0
    verifying = ("verify", "--data", str(new))
    assert await asyncio.to_thread(lambda: run(*verifying, blobs=elsewhere)) == 0
    assert " 0 violations" in capsys.readouterr().out
    drill = ("drill", backups, "--data", folder, "--scratch", str(tmp_path))
    assert await asyncio.to_thread(run, *drill) == 0
    async with open_rest(new, settings={"blobs": elsewhere}) as rest:
        ben = await rest.user("ben")
        assert (await ben.call("GET", of(chat, message, file))).content == data

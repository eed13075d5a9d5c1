# SPDX-License-Identifier: Apache-2.0
"""The bucket in which backups are stored, on S3 or a compatible service."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, Final

import botocore.session
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from tidings.model.setup_error import SetupError
from tidings.stores.sqlite.backup.bucket_lock import only_backup
from tidings.stores.sqlite.backup.place import FILE_NAME, BackupPlace

SCHEME: Final = "s3://"
UPLOAD_BYTES: Final = 64 * 1024 * 1024
"""Size of the parts in which a larger file is uploaded. S3 accepts 10,000 of them."""
_REGION: Final = "us-east-1"
"""Region for services that have none."""
# Not every service knows the newest checksums of S3. A backup has digests of its own, and they are
# compared after it was written.
_CONFIG: Final = Config(
    request_checksum_calculation="when_required", response_checksum_validation="when_required"
)
_MISSING: Final = frozenset({"404", "NoSuchKey", "NotFound"})


class BackupBucket:
    """Stores backups as objects under a prefix of a bucket.

    Files are written and read by way of a temporary file, which needs room for the largest.
    """

    def __init__(self, client: Any, bucket: str, prefix: str) -> None:  # noqa: ANN401 - no types
        self._client = client
        self._bucket = bucket
        self._prefix = prefix

    def names(self) -> list[str]:
        with _told():
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self._bucket, Prefix=self._prefix, Delimiter="/"
            )
            keys = [item["Key"] for page in pages for item in page.get("Contents", ())]
        return sorted(filter(FILE_NAME.fullmatch, (key.removeprefix(self._prefix) for key in keys)))

    def size(self, name: str) -> int:
        try:
            with _told():
                return int(self._client.head_object(**self._object(name))["ContentLength"])
        except FileNotFoundError:
            return -1

    @contextmanager
    def create(self, name: str) -> Iterator[BinaryIO]:
        with tempfile.TemporaryFile() as file:
            yield file
            size = file.tell()
            file.seek(0)
            with _told():
                if size <= UPLOAD_BYTES:
                    self._client.put_object(**self._object(name), Body=file.read())
                else:
                    self._upload(name, file)

    def _upload(self, name: str, file: BinaryIO) -> None:
        """Upload a file in parts. The object exists only after the last of them."""
        upload = self._client.create_multipart_upload(**self._object(name))["UploadId"]
        try:
            parts: list[dict[str, object]] = []
            while content := file.read(UPLOAD_BYTES):
                number = len(parts) + 1
                done = self._client.upload_part(
                    **self._object(name), UploadId=upload, PartNumber=number, Body=content
                )
                parts.append({"PartNumber": number, "ETag": done["ETag"]})
            self._client.complete_multipart_upload(
                **self._object(name), UploadId=upload, MultipartUpload={"Parts": parts}
            )
        except BaseException:
            self._client.abort_multipart_upload(**self._object(name), UploadId=upload)
            raise

    @contextmanager
    def open(self, name: str) -> Iterator[BinaryIO]:
        with tempfile.TemporaryFile() as file:
            with _told():
                body = self._client.get_object(**self._object(name))["Body"]
                for content in body.iter_chunks(1024 * 1024):
                    file.write(content)
            file.seek(0)
            yield file

    def remove(self, name: str) -> None:
        with _told():
            self._client.delete_object(**self._object(name))

    @contextmanager
    def alone(self) -> Iterator[None]:
        with _told(), only_backup(self._client, self._bucket, self._prefix):
            yield

    def _object(self, name: str) -> dict[str, str]:
        return {"Bucket": self._bucket, "Key": self._prefix + name}


def open_bucket(url: str) -> BackupBucket:
    """Open a place such as `s3://bucket/prefix`, with the credentials that AWS tools use.

    Raises:
        SetupError: The name of the bucket is missing.
    """
    bucket, _, prefix = url.removeprefix(SCHEME).partition("/")
    if not bucket:
        raise SetupError(f"{url} names no bucket: write {SCHEME}bucket/prefix")
    session = botocore.session.get_session()
    region = session.get_config_variable("region") or _REGION
    client = session.create_client("s3", region_name=region, config=_CONFIG)
    return BackupBucket(client, bucket, f"{prefix.rstrip('/')}/" if prefix.strip("/") else "")


@contextmanager
def _told() -> Iterator[None]:
    """Turn errors of the service into errors of a file."""
    try:
        yield
    except ClientError as error:
        is_missing = error.response.get("Error", {}).get("Code") in _MISSING
        raise (FileNotFoundError if is_missing else OSError)(str(error)) from error
    except BotoCoreError as error:
        raise OSError(str(error)) from error


_conforms: type[BackupPlace] = BackupBucket

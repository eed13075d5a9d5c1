# SPDX-License-Identifier: Apache-2.0
"""Lets one backup at a time write to a prefix of a bucket, from whatever machine.

Not every service can write an object only if there is none. Therefore each backup first writes an
object with a name of its own, and then lists all such objects. Of two backups that start together,
at least one sees the object of the other, and refuses to run. A running backup writes its object
again and again, so that the object of a backup that was killed grows old and no longer counts.
"""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from threading import Event, Thread
from typing import Any, Final

from botocore.exceptions import BotoCoreError, ClientError

from tidings.model.setup_error import SetupError

RENEW_SECONDS: Final = 60.0
OLD_AFTER: Final = timedelta(minutes=5)
_RUNNING: Final = "running-"


@contextmanager
def only_backup(client: Any, bucket: str, prefix: str) -> Iterator[None]:  # noqa: ANN401 - no types
    """Hold the lock of a prefix inside this context.

    Raises:
        SetupError: Another backup into this prefix is running.
    """
    name = f"{prefix}{_RUNNING}{secrets.token_hex(8)}"
    mark = {"Bucket": bucket, "Key": name}
    client.put_object(**mark, Body=b"")
    is_over = Event()
    renewing = Thread(target=_renew, args=(client, mark, is_over), daemon=True)
    try:
        _refuse_others(client, bucket, prefix, name)
        renewing.start()
        yield
    finally:
        is_over.set()
        if renewing.is_alive():
            renewing.join()
        client.delete_object(**mark)


def _renew(client: Any, mark: dict[str, str], is_over: Event) -> None:  # noqa: ANN401 - no types
    """Write the object of a running backup again and again, until the backup is over."""
    while not is_over.wait(RENEW_SECONDS):
        with suppress(BotoCoreError, ClientError):  # the backup itself meets the same trouble
            client.put_object(**mark, Body=b"")


def _refuse_others(client: Any, bucket: str, prefix: str, own: str) -> None:  # noqa: ANN401
    """Refuse to run beside another backup, and remove what killed backups have left.

    The service's own times are compared, so the clocks of machines do not matter.
    """
    pages = client.get_paginator("list_objects_v2").paginate(
        Bucket=bucket, Prefix=prefix + _RUNNING
    )
    found = {item["Key"]: item["LastModified"] for page in pages for item in page["Contents"]}
    now = found.pop(own)
    for name, renewed in found.items():
        if now - renewed < OLD_AFTER:
            raise SetupError(
                f"another backup into s3://{bucket}/{prefix} is running, or was killed in the last"
                f" {OLD_AFTER // timedelta(minutes=1)} minutes: try again later"
            )
        client.delete_object(Bucket=bucket, Key=name)

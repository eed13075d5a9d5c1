# SPDX-License-Identifier: Apache-2.0
"""Buckets of the account that moto stands in for."""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import botocore.session
import pytest

from tests.support.dynamo_tables import REGION

_numbers = itertools.count()


@contextmanager
def an_account(endpoint: str) -> Iterator[None]:
    """Let the SDK and the server use the account at this endpoint."""
    with pytest.MonkeyPatch.context() as patched:
        for name, value in {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": REGION,
        }.items():
            patched.setenv(name, value)
        yield


def a_bucket_url(bucket: str = "attachments") -> str:
    """Return a prefix of its own in a bucket of the account, such as `s3://bucket/prefix`."""
    client = botocore.session.get_session().create_client("s3", region_name=REGION)
    where = {"LocationConstraint": REGION}
    with suppress(client.exceptions.BucketAlreadyOwnedByYou):  # another test has made it
        client.create_bucket(Bucket=bucket, CreateBucketConfiguration=where)
    return f"s3://{bucket}/town-{next(_numbers)}"

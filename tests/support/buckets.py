# SPDX-License-Identifier: Apache-2.0
"""Buckets of the account that moto stands in for, or of another server with the protocol of S3."""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

import botocore.session
import pytest

from tests.support.dynamo_tables import REGION

S3_SERVERS: Final = ("aws_endpoint", pytest.param("s3proxy_endpoint", marks=pytest.mark.soak))
"""Fixtures with the endpoint of a server: moto in each run, and S3Proxy in long ones."""

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
    # In this region a bucket needs no constraint, which not every server knows.
    client = botocore.session.get_session().create_client("s3", region_name="us-east-1")
    with suppress(client.exceptions.BucketAlreadyOwnedByYou):  # another test has made it
        client.create_bucket(Bucket=bucket)
    return f"s3://{bucket}/town-{next(_numbers)}"

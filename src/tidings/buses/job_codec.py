# SPDX-License-Identifier: Apache-2.0
"""Delivery jobs as bytes, for queues outside of the store."""

import msgspec

from tidings.ports.jobs import Job

encode_job = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Job).decode


class NotAJob(Exception):
    """These bytes make no sense."""


def decode_job(data: bytes | str) -> Job:
    """A job as it came.

    Raises:
        NotAJob: It is none, or one of a newer kind.
    """
    try:
        job: Job = _decode(data)
    except msgspec.MsgspecError as error:
        raise NotAJob(str(error)) from None
    return job

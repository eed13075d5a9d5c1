# SPDX-License-Identifier: Apache-2.0
"""Encoding of delivery jobs for queues outside the store."""

import msgspec

from tidings.ports.jobs import Job

encode_job = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Job).decode


class NotAJob(Exception):
    """The bytes are not a delivery job."""


def decode_job(data: bytes | str) -> Job:
    """Decode a job from a queue.

    Raises:
        NotAJob: The bytes are not a job, or a job of a newer version.
    """
    try:
        job: Job = _decode(data)
    except msgspec.MsgspecError as error:
        raise NotAJob(str(error)) from None
    return job

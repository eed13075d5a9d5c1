# SPDX-License-Identifier: Apache-2.0
"""Texts through SNS and jobs through SQS, in an account of AWS that moto stands in for."""

import pytest

from tests.contract.inbox_builders import some_jobs
from tests.support.delivery import at_once
from tests.support.dynamo_tables import REGION
from tests.support.message_cipher import a_cipher
from tests.support.queues import a_queue
from tidings.assembly.system import SystemClock
from tidings.buses.sqs import open_sqs_jobs
from tidings.phones.sms import open_sns
from tidings.ports.delivery import TextRejected


async def test_a_text_is_taken_by_sns(aws_endpoint: str) -> None:
    async with open_sns(
        endpoint=aws_endpoint, region=REGION, sender="Tidings", clock=SystemClock()
    ) as sms:
        await sms.send("+4930901820", "Your code is 123456.")
        with pytest.raises(TextRejected):
            await sms.send("nobody", "Your code is 123456.")


async def test_jobs_go_through_sqs(aws_endpoint: str) -> None:
    (job,) = some_jobs(1)
    async with (
        a_queue(aws_endpoint) as url,
        open_sqs_jobs(
            queue_url=url,
            region=REGION,
            cipher=a_cipher(),
            clock=SystemClock(),
            back_off=at_once,
            wait_seconds=0,
        ) as jobs,
    ):
        await jobs.put([job])
        (taken,) = await jobs.take(10)
        assert taken.job == job
        await jobs.finish(taken)
        assert not await jobs.take(10)

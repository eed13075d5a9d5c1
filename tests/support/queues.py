# SPDX-License-Identifier: Apache-2.0
"""Creates SQS queues for tests, at an endpoint with the protocol of SQS."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final
from uuid import uuid4

from tests.support.dynamo_tables import REGION
from tidings.assembly.system import SystemClock
from tidings.aws.transport import Rejected, RequestError, Transport, open_transport
from tidings.buses.sqs import SQS

_SECONDS_MAX: Final = 20.0


@asynccontextmanager
async def sqs_transport(endpoint: str) -> AsyncIterator[Transport]:
    """Open a client for any operation of the endpoint."""
    async with open_transport(
        endpoint=endpoint,
        region=REGION,
        service=SQS,
        clock=SystemClock(),
        explain=_explain,
        needs_credentials=False,
        answer_seconds_max=_SECONDS_MAX,
    ) as transport:
        yield transport


def _explain(status: int, answer: dict[str, Any]) -> RequestError:
    return Rejected(str(status), str(answer))


@asynccontextmanager
async def a_queue(endpoint: str) -> AsyncIterator[str]:
    """Create a queue, yield its address, and delete it on exit."""
    async with sqs_transport(endpoint) as transport:
        until = asyncio.get_running_loop().time() + _SECONDS_MAX
        name = f"test-{uuid4().hex[:12]}"
        made = await transport.send("CreateQueue", {"QueueName": name}, until)
        url = str(made["QueueUrl"])
        yield url
        until = asyncio.get_running_loop().time() + _SECONDS_MAX
        await transport.send("DeleteQueue", {"QueueUrl": url}, until)

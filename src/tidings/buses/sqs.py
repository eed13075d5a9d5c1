# SPDX-License-Identifier: Apache-2.0
"""Queue of delivery jobs in SQS.

A process that takes a job hides it from other processes for a minute, and extends this time until
the work is done. If the process dies, the job becomes visible again and another process takes it. A
message that is not a job, or that this deployment did not encrypt for this queue, is not deleted.
It becomes visible again and again, until the queue's own policy moves it to a dead-letter queue.
"""

import asyncio
import logging
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from yarl import URL

from tidings.aws.signing import Service
from tidings.aws.transport import (
    Rejected,
    RequestError,
    Throttled,
    Transport,
    Unanswered,
    error_code,
    error_message,
    open_transport,
)
from tidings.ports.bus import Job, Jobs, JobsUnavailable, NotAJob, Taken, decode_job, encode_job
from tidings.ports.world import Clock
from tidings.tasks import Tasks
from tidings.wire.events import MessageCipher

log = logging.getLogger("tidings.bus")

SQS: Final = Service("sqs", "AmazonSQS", may_say_nothing=True)
BATCH_MAX: Final = 10
BATCHES_AT_ONCE: Final = 8
ATTEMPTS_MAX: Final = 6
WAIT_SECONDS: Final = 10
"""Time for which SQS waits for a job before it answers that there is none. An idle worker asks six
times per minute."""
VISIBLE_SECONDS: Final = 60
HIDE_AGAIN_SECONDS: Final = 20.0
ANSWER_SECONDS_MAX: Final = 5.0
CLOSE_SECONDS_MAX: Final = 2.0

_THROTTLED: Final = frozenset(
    {"KmsThrottled", "OverLimit", "RequestThrottled", "ThrottlingException"}
)

assert 2 * HIDE_AGAIN_SECONDS < VISIBLE_SECONDS, "one failure to hide them again does no harm"


class SqsJobs:
    """Puts jobs into the queue, takes them from it, and hides taken jobs from other processes."""

    def __init__(
        self,
        transport: Transport,
        queue_url: str,
        cipher: MessageCipher,
        back_off: Callable[[int], Awaitable[None]],
        *,
        visible_seconds: int = VISIBLE_SECONDS,
        hide_again_seconds: float = HIDE_AGAIN_SECONDS,
        wait_seconds: int = WAIT_SECONDS,
    ) -> None:
        """Set up the client; `back_off(n)` waits a random time before the n-th retry, at most ten
        seconds."""
        self._transport = transport
        self._queue_url = queue_url
        self._cipher = cipher
        self._back_off = back_off
        self._visible_seconds = visible_seconds
        self._hide_again_seconds = hide_again_seconds
        self._wait_seconds = wait_seconds
        self._free = asyncio.Semaphore(BATCHES_AT_ONCE)
        self._taken: set[str] = set()
        self._tasks = Tasks("sqs")
        self._is_hiding = False

    @property
    def refused(self) -> int:
        """Number of received messages that were refused because this deployment did not encrypt
        them for this queue."""
        return self._cipher.refused

    async def put(self, jobs: Sequence[Job]) -> None:
        sealed = [self._cipher.seal(self._queue_url, encode_job(job)) for job in jobs]
        bodies = [b64encode(job).decode() for job in sealed]
        try:
            async with asyncio.TaskGroup() as group:
                for start in range(0, len(bodies), BATCH_MAX):
                    group.create_task(self._send(bodies[start : start + BATCH_MAX]))
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from None

    async def take(self, most: int) -> Sequence[Taken]:
        if not self._is_hiding:
            self._is_hiding = True
            self._tasks.repeat(self._keep_hidden)
        answer = await self._ask(
            "ReceiveMessage",
            {
                "MaxNumberOfMessages": min(most, BATCH_MAX),
                "WaitTimeSeconds": self._wait_seconds,
                "VisibilityTimeout": self._visible_seconds,
                "AttributeNames": ["ApproximateReceiveCount"],
            },
        )
        read = [self._read(message) for message in answer.get("Messages") or ()]
        taken = [job for job in read if job is not None]
        self._taken.update(job.handle for job in taken)
        return taken

    async def finish(self, taken: Taken) -> None:
        try:
            await self._request("DeleteMessage", {"ReceiptHandle": taken.handle})
        except Rejected as rejected:
            # The job was visible for a while, and another process has taken it, so it is done
            # twice.
            log.info("job is done again: %s", rejected, extra={"action": "job_visible"})
        except RequestError as trouble:
            raise JobsUnavailable(str(trouble)) from trouble
        self._taken.discard(taken.handle)

    async def close(self) -> None:
        await self._tasks.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS_MAX):
                await self._hide(0)
        self._taken.clear()

    async def _send(self, bodies: list[str]) -> None:
        """Send a batch of messages; retry those that SQS did not accept, a few times."""
        waiting = {str(number): body for number, body in enumerate(bodies)}
        reason = ""
        for attempt in range(1, ATTEMPTS_MAX + 1):
            entries = [{"Id": name, "MessageBody": body} for name, body in waiting.items()]
            try:
                async with self._free:
                    answer = await self._request("SendMessageBatch", {"Entries": entries})
            except Rejected as rejected:
                raise _refused(rejected) from rejected
            except RequestError as trouble:
                reason = str(trouble)
            else:
                failed = answer.get("Failed") or []
                waiting = {failure["Id"]: waiting[failure["Id"]] for failure in failed}
                if not waiting:
                    return
                reason = str(failed[0].get("Code"))
            await self._back_off(attempt)
        raise JobsUnavailable(f"{len(waiting)} jobs were not accepted: {reason}")

    async def _ask(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        try:
            return await self._request(operation, request)
        except Rejected as rejected:
            raise _refused(rejected) from rejected
        except RequestError as trouble:
            raise JobsUnavailable(str(trouble)) from trouble

    async def _request(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        until = asyncio.get_running_loop().time() + self._wait_seconds + ANSWER_SECONDS_MAX
        return await self._transport.send(
            operation, {"QueueUrl": self._queue_url, **request}, until
        )

    def _read(self, message: dict[str, Any]) -> Taken | None:
        """Return the job in a message, or None if it is not a job or not from this deployment."""
        data = self._cipher.open(self._queue_url, _unpacked(message["Body"]))
        if data is None:
            return None
        try:
            job = decode_job(data)
        except NotAJob as reason:
            where = {"message_id": message.get("MessageId")}
            log.error("not a job: %s", reason, extra={"action": "job_unreadable", **where})
            return None
        count = message.get("Attributes", {}).get("ApproximateReceiveCount", "1")
        return Taken(job, message["ReceiptHandle"], int(count))

    async def _keep_hidden(self) -> None:
        """Keep the taken jobs hidden from other processes until they are finished."""
        await asyncio.sleep(self._hide_again_seconds)
        await self._hide(self._visible_seconds)

    async def _hide(self, seconds: int) -> None:
        """Hide all taken jobs for this many seconds. If this fails, a job may be done twice."""
        handles = list(self._taken)
        for start in range(0, len(handles), BATCH_MAX):
            entries = [
                {"Id": str(number), "ReceiptHandle": handle, "VisibilityTimeout": seconds}
                for number, handle in enumerate(handles[start : start + BATCH_MAX])
            ]
            try:
                await self._request("ChangeMessageVisibilityBatch", {"Entries": entries})
            except RequestError as trouble:
                log.warning("jobs not hidden: %s", trouble, extra={"action": "jobs_not_hidden"})


def _unpacked(body: str) -> bytes:
    """Decode the base64 body of a queue message to the encrypted job.

    Return `b""` if the body is not valid base64.
    """
    try:
        return b64decode(body, validate=True)
    except ValueError:
        return b""


def _refused(rejected: Rejected) -> JobsUnavailable:
    """Convert a refusal by SQS to JobsUnavailable.

    The refusal is also logged, because only the operator can fix its cause.
    """
    log.error("the queue refused a request: %s", rejected, extra={"action": "queue_refuses"})
    return JobsUnavailable(str(rejected))


def _explain(status: int, answer: dict[str, Any]) -> RequestError:
    code = error_code(answer)
    if code in _THROTTLED:
        return Throttled(code)
    if status >= 500:
        return Unanswered(f"{status} {code}")
    return Rejected(code or str(status), error_message(answer))


def _is_of_aws(url: URL) -> bool:
    return (url.host or "").endswith((".amazonaws.com", ".amazonaws.com.cn"))


@asynccontextmanager
async def open_sqs_jobs(
    *,
    queue_url: str,
    region: str,
    cipher: MessageCipher,
    clock: Clock,
    back_off: Callable[[int], Awaitable[None]],
    wait_seconds: int = WAIT_SECONDS,
) -> AsyncIterator[SqsJobs]:
    """Open the queue at this address. Credentials are needed only for a queue on AWS.

    Raises:
        SetupError: The queue is on AWS, and the SDK finds no credentials.
    """
    url = URL(queue_url)
    async with open_transport(
        endpoint=str(url.origin()),
        region=region,
        service=SQS,
        clock=clock,
        explain=_explain,
        needs_credentials=_is_of_aws(url),
        answer_seconds_max=wait_seconds + ANSWER_SECONDS_MAX,
    ) as transport:
        yield SqsJobs(transport, queue_url, cipher, back_off, wait_seconds=wait_seconds)


_conforms: type[Jobs] = SqsJobs

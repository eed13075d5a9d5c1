# SPDX-License-Identifier: Apache-2.0
"""Ways to send texts: signed, tried once, within a deadline, and silent about numbers."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from urllib.parse import parse_qs

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import ReadOnlyCredentials

from tests.support.clock import ManualClock
from tests.support.phones import SECRET, some_phones
from tidings.model.ids import EPOCH
from tidings.model.refusals import SmsUnavailable
from tidings.phones.log import LogSms
from tidings.phones.sms import SnsSms, WebhookSms, open_sns
from tidings.ports.delivery import Sms, TextRejected

NUMBER = "+41791234567"
TEXT = "123456 is your code for Grüezi & Co."
REGION = "eu-central-1"


class Service:
    """Answers as it is told, and keeps what it gets."""

    def __init__(self) -> None:
        self.status, self.body = 200, "<PublishResponse/>"
        self.requests: list[tuple[dict[str, str], bytes]] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.url = ""

    async def answer(self, request: web.Request) -> web.Response:
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.requests.append((headers, await request.read()))
        await self.may_answer.wait()
        return web.Response(status=self.status, text=self.body, headers={"Location": self.url})


@asynccontextmanager
async def a_service() -> AsyncIterator[Service]:
    service = Service()
    app = web.Application()
    app.router.add_post("/", service.answer)
    async with TestServer(app) as server:
        service.url = str(server.make_url("/"))
        yield service


def told(caplog: pytest.LogCaptureFixture) -> str:
    return "".join(str(vars(record)) for record in caplog.records)


async def refused(
    sms: Sms,
    caplog: pytest.LogCaptureFixture,
    error: type[Exception] = SmsUnavailable,
) -> str:
    """The reason that the log gives for a text that was not taken."""
    caplog.clear()
    with caplog.at_level(logging.DEBUG), pytest.raises(error):
        await sms.send(NUMBER, TEXT)
    assert NUMBER not in told(caplog) and "123456" not in told(caplog)
    [line] = [one for one in caplog.records if vars(one).get("action") == "sms_failed"]
    return str(vars(line)["reason"])


# --- Webhook -----------------------------------------------------------------------------------


async def test_a_text_is_posted_and_signed() -> None:
    async with some_phones() as phones:
        sms = WebhookSms(url=phones.url, secrets=[SECRET.encode()], clock=ManualClock())
        forged = WebhookSms(url=phones.url, secrets=[b"another secret"], clock=ManualClock())
        try:
            await sms.send(NUMBER, TEXT)
            with pytest.raises(SmsUnavailable):
                await forged.send(NUMBER, "forged")
        finally:
            await sms.aclose()
            await forged.aclose()
        assert dict(phones.texts) == {NUMBER: [TEXT]}


@pytest.mark.attack("B08")
@pytest.mark.attack("W03")
@pytest.mark.parametrize(
    ("status", "error"),
    [
        (302, SmsUnavailable),
        (400, TextRejected),
        (401, SmsUnavailable),
        (422, TextRejected),
        (429, SmsUnavailable),
        (500, SmsUnavailable),
    ],
)
async def test_a_webhook_that_says_no_is_asked_once(
    status: int, error: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    async with a_service() as service:
        service.status = status
        sms = WebhookSms(url=service.url, secrets=[b"secret"], clock=ManualClock())
        try:
            assert await refused(sms, caplog, error) == f"status {status}"
        finally:
            await sms.aclose()
        assert len(service.requests) == 1


@pytest.mark.attack("B08")
async def test_a_webhook_that_is_slow_or_away_is_given_up(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with a_service() as service:
        service.may_answer.clear()
        url = service.url
        sms = WebhookSms(url=url, secrets=[b"secret"], clock=ManualClock(), seconds_max=0.05)
        assert await refused(sms, caplog) == "TimeoutError"
        await sms.aclose()
        service.may_answer.set()
    sms = WebhookSms(url=url, secrets=[b"secret"], clock=ManualClock())
    assert await refused(sms, caplog) == "ClientConnectorError"
    await sms.aclose()


# --- SNS ---------------------------------------------------------------------------------------


@asynccontextmanager
async def at_sns(
    service: Service, monkeypatch: pytest.MonkeyPatch, sender: str | None = None
) -> AsyncIterator[SnsSms]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a secret")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "a/session+token==")
    async with open_sns(
        endpoint=service.url, region=REGION, sender=sender, clock=ManualClock()
    ) as sms:
        yield sms


async def test_a_text_is_published_and_signed_as_the_sdk_signs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with a_service() as service, at_sns(service, monkeypatch, "Tidings") as sms:
        await sms.send(NUMBER, TEXT)
    [(headers, body)] = service.requests
    assert {name: value for name, [value] in parse_qs(body.decode()).items()} == {
        "Action": "Publish",
        "Version": "2010-03-31",
        "PhoneNumber": NUMBER,
        "Message": TEXT,
        "MessageAttributes.entry.1.Name": "AWS.SNS.SMS.SMSType",
        "MessageAttributes.entry.1.Value.DataType": "String",
        "MessageAttributes.entry.1.Value.StringValue": "Transactional",
        "MessageAttributes.entry.2.Name": "AWS.SNS.SMS.SenderID",
        "MessageAttributes.entry.2.Value.DataType": "String",
        "MessageAttributes.entry.2.Value.StringValue": "Tidings",
    }

    moment = (EPOCH + timedelta(milliseconds=ManualClock().now())).replace(tzinfo=None)
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda: moment)
    request = AWSRequest("POST", service.url, {"Content-Type": headers["content-type"]}, body)
    credentials = ReadOnlyCredentials("AKIDEXAMPLE", "a secret", "a/session+token==")
    SigV4Auth(credentials, "sns", REGION).add_auth(request)
    assert headers["authorization"] == request.headers["Authorization"]
    assert headers["x-amz-date"] == request.headers["X-Amz-Date"]
    assert headers["x-amz-security-token"] == "a/session+token=="
    assert "x-amz-target" not in headers


@pytest.mark.attack("B08")
@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (400, "<Code>InvalidParameter</Code>", "InvalidParameter"),
        (
            400,
            "<ErrorResponse><Error><Code>Throttling</Code></Error></ErrorResponse>",
            "Throttling",
        ),
        (403, f"<Code>{NUMBER}</Code>", "status 403"),
        (500, "", "status 500"),
    ],
)
async def test_what_sns_does_not_take_is_told_once_without_the_number(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    status: int,
    body: str,
    reason: str,
) -> None:
    async with a_service() as service, at_sns(service, monkeypatch) as sms:
        service.status, service.body = status, body
        error = TextRejected if reason == "InvalidParameter" else SmsUnavailable
        assert await refused(sms, caplog, error) == reason
        assert len(service.requests) == 1


@pytest.mark.attack("B08")
async def test_sns_that_is_slow_or_away_is_given_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_service() as service, at_sns(service, monkeypatch) as sms:
        service.may_answer.clear()
        sms._seconds_max = 0.05
        assert await refused(sms, caplog) == "Unanswered"
        service.may_answer.set()
        service.url = "http://127.0.0.1:1/"
        async with at_sns(service, monkeypatch) as nowhere:
            assert await refused(nowhere, caplog) == "Unsent"


# --- Log ---------------------------------------------------------------------------------------


async def test_the_log_shows_number_and_text_to_whoever_develops(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO):
        await LogSms().send(NUMBER, TEXT)
    [line] = caplog.records
    assert (vars(line)["phone_number"], vars(line)["text"]) == (NUMBER, TEXT)

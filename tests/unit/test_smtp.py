# SPDX-License-Identifier: Apache-2.0
"""E-mails by SMTP: what goes over the wire, and what each answer of the mail server means."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from tests.support.clock import NOW, ManualClock
from tests.support.mail_server import HANG_UP, TestMailServer, open_mail_server
from tests.support.push_tls import ServiceTls
from tidings.model.emails import Email, EmailOutcome, one_line
from tidings.outgoing.smtp import MailServer, SmtpMailer, to_bytes
from tidings.ports.email import MailUnavailable

LETTER = Email(
    recipient="ann+news@example.org",
    sender_name='Bänk "News", <evil@example.org>',
    subject="Hällo 🎉",
    text="Zeile 1\n.\nÄ" + "x" * 2_000,
    html="<p>Ä</p>",
    message_id="01ABC.00ff",
    unsubscribe_url="https://chat.example.org/v1/unsubscribe/" + "x" * 400,
)


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> ServiceTls:
    return ServiceTls(tmp_path_factory.mktemp("mail"))


@pytest_asyncio.fixture
async def server(tls: ServiceTls) -> AsyncIterator[TestMailServer]:
    async with open_mail_server(tls.server) as opened:
        yield opened


def mailer(server: TestMailServer, ca: Path | None, **more: Any) -> SmtpMailer:
    settings = MailServer(
        host="localhost",
        port=server.port,
        sender="news@example.com",
        begins_with_tls=False,
        must_start_tls=True,
        ca=ca,
    )
    return SmtpMailer(msgspec.structs.replace(settings, **more), ManualClock())


async def send(mail: SmtpMailer) -> EmailOutcome:
    async with mail.connect() as connection:
        return await connection.send(LETTER)


async def test_an_email_goes_out_encrypted_with_a_login(
    server: TestMailServer, tls: ServiceTls
) -> None:
    mail = mailer(server, tls.authority, username="me", password="secret")
    assert await send(mail) == "sent"
    (got,) = server.received
    assert (got.was_encrypted, got.login) == (True, "me:secret")
    assert (got.sender, got.recipient) == ("news@example.com", LETTER.recipient)
    assert got.content.isascii()
    assert max(map(len, got.content.split(b"\r\n"))) <= 998
    message = got.message
    assert message["Subject"] == LETTER.subject
    (sender,) = message["From"].addresses
    assert (sender.display_name, sender.addr_spec) == (LETTER.sender_name, "news@example.com")
    assert message["To"] == LETTER.recipient
    assert message["Message-ID"] == "<01ABC.00ff@example.com>"
    assert message["List-Unsubscribe"] == f"<{LETTER.unsubscribe_url}>"
    assert message["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    assert got.part("plain").replace("\r\n", "\n").strip() == LETTER.text
    assert got.part("html").strip() == LETTER.html
    assert "secret" not in repr(mail._server)


async def test_without_a_link_there_are_no_headers_to_unsubscribe() -> None:
    content = to_bytes(msgspec.structs.replace(LETTER, unsubscribe_url=None), "a@b.example", NOW)
    assert b"unsubscribe" not in content.lower()


@pytest.mark.parametrize(
    ("command", "answer", "outcome"),
    [
        ("MAIL", "451 later", "later"),
        ("RCPT", "450 greylisted", "later"),
        ("RCPT", "550 no such user", "refused"),
        ("DATA", "451 later", "later"),
        ("END", "452 full", "later"),
        ("END", "554 spam", "refused"),
        ("END", HANG_UP, "unknown"),
    ],
)
async def test_each_answer_says_whether_it_was_sent(
    server: TestMailServer, tls: ServiceTls, command: str, answer: str, outcome: str
) -> None:
    server.answers[command].append(answer)
    assert await send(mailer(server, tls.authority)) == outcome
    assert server.received == []


async def test_what_cannot_be_written_as_a_message_is_refused(
    server: TestMailServer, tls: ServiceTls
) -> None:
    odd = msgspec.structs.replace(LETTER, recipient="=?utf-8?q?a=0d=0aBcc=3ax?=@example.org")
    async with mailer(server, tls.authority).connect() as connection:
        assert [await connection.send(one) for one in (odd, LETTER)] == ["refused", "sent"]
    assert [got.recipient for got in server.received] == [LETTER.recipient]


async def test_a_refusal_does_not_end_the_connection(
    server: TestMailServer, tls: ServiceTls
) -> None:
    server.answers["RCPT"] += ["550 no such user", "451 later"]
    async with mailer(server, tls.authority).connect() as connection:
        outcomes = [await connection.send(LETTER) for _ in range(3)]
    assert outcomes == ["refused", "later", "sent"]
    assert server.connections == 1


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("CONNECT", "554 go away"),
        ("CONNECT", HANG_UP),
        ("AUTH", "535 wrong password"),
        ("RCPT", HANG_UP),
        ("RCPT", "421 closing"),
    ],
)
async def test_a_server_that_cannot_talk_has_not_taken_it(
    server: TestMailServer, tls: ServiceTls, command: str, answer: str
) -> None:
    server.answers[command].append(answer)
    mail = mailer(server, tls.authority, username="me", password="secret")
    with pytest.raises(MailUnavailable) as raised:
        await send(mail)
    assert "password" not in str(raised.value)
    assert server.received == []


async def test_nothing_is_sent_without_encryption(tls: ServiceTls) -> None:
    async with open_mail_server() as plain:
        with pytest.raises(MailUnavailable):
            await send(mailer(plain, tls.authority))
        assert await send(mailer(plain, None, must_start_tls=False)) == "sent"
    assert [got.was_encrypted for got in plain.received] == [False]


async def test_a_certificate_of_somebody_else_is_refused(server: TestMailServer) -> None:
    with pytest.raises(MailUnavailable):
        await send(mailer(server, None))
    assert server.received == []


async def test_a_server_that_is_not_there_is_unavailable(tls: ServiceTls) -> None:
    async with open_mail_server(tls.server) as server:
        pass
    with pytest.raises(MailUnavailable):
        await send(mailer(server, tls.authority))


@pytest.mark.parametrize(
    "text", ["a\r\nBcc: eve@example.org", "a\nb", "a\x00b", "a\u2028b", "a\x1b[0m", " a\tb "]
)
def test_a_title_stays_in_its_header(text: str) -> None:
    letter = msgspec.structs.replace(LETTER, subject=one_line(text), sender_name=one_line(text))
    head = to_bytes(letter, "a@b.example", NOW).partition(b"\r\n\r\n")[0]
    assert b"\r\nBcc" not in head
    assert head.count(b"Subject:") == 1
    assert len(one_line("x" * 1_000)) == 200

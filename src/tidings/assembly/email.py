# SPDX-License-Identifier: Apache-2.0
"""Makes the parts that escalate notifications by e-mail."""

from importlib.util import find_spec
from typing import Final
from urllib.parse import urlsplit

from tidings.actions.inbox.composing import ComposeEmail, UnsubscribeLinks
from tidings.actions.inbox.emailing import SendEmails
from tidings.actions.inbox.escalating import Escalate
from tidings.actions.verbs import InboxVerbs
from tidings.assembly.foundation import Foundation
from tidings.config.settings import Config, Smtp, is_this_machine
from tidings.model.setup_error import SetupError
from tidings.ports.email import Mailer
from tidings.ports.world import Clock

PORTS: Final = {"smtp": 587, "smtps": 465}


def make_escalation(base: Foundation, inbox: InboxVerbs, config: Config) -> Escalate:
    """Make the part that escalates what is due."""
    store = base.store
    links = UnsubscribeLinks(base.vault.cursors)
    send = SendEmails(
        escalations=store.escalations,
        copies=store.copies,
        showing=inbox.showing,
        compose=ComposeEmail(links, config.network.public_url),
        mailer=_mailer(config.email, base.clock) if isinstance(config.email, Smtp) else None,
        raise_event=base.tenant_events,
        clock=base.clock,
    )
    return Escalate(
        configs=inbox.configs,
        tenants=store.tenants,
        users=store.users,
        notifications=store.notifications,
        escalations=store.escalations,
        reachable=inbox.reachable,
        showing=inbox.showing,
        send=send,
        clock=base.clock,
    )


def _mailer(smtp: Smtp, clock: Clock) -> Mailer:
    if find_spec("aiosmtplib") is None:
        raise SetupError("TIDINGS_EMAIL=smtp needs aiosmtplib: pip install 'tidings[email]'")
    from tidings.outgoing.smtp import MailServer, SmtpMailer

    url = urlsplit(smtp.url)
    host = url.hostname or ""
    server = MailServer(
        host=host,
        port=url.port or PORTS[url.scheme],
        sender=smtp.sender,
        begins_with_tls=url.scheme == "smtps",
        must_start_tls=url.scheme == "smtp" and not is_this_machine(host),
        username=smtp.username,
        password=smtp.password,
        ca=smtp.ca,
    )
    return SmtpMailer(server, clock)

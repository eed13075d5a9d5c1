# SPDX-License-Identifier: Apache-2.0
"""The part of a tenant's API with which it moderates chats and handles reports."""

from collections.abc import AsyncIterator
from typing import Any

from tidings_client.listed import (
    ChatSettings,
    ListPage,
    ReportAction,
    ReportedCase,
    ReportState,
    part_of,
)
from tidings_client.rest import Rest, path_of


class ModerationApi:
    """What a tenant does to the chats and messages of its users. The audit trail records it."""

    def __init__(self, rest: Rest, tenant: str) -> None:
        self._rest = rest
        self._tenant = tenant

    async def unseal(
        self, chat: str, reason: str, *, after: int = 0, limit: int = 50
    ) -> list[dict[str, Any]]:
        """Return entries of a chat's log with content. The audit trail records the reason."""
        path = path_of("tenants", self._tenant, "chats", chat, "unseal")
        body = {"reason": reason, "after": after, "limit": limit}
        page = await self._rest.ask(dict[str, Any], "POST", path, body)
        return list(page["data"])

    async def redact_message(self, chat: str, sequence: int) -> None:
        """Remove the content of any message for good; the entry has the sender `~tenant`."""
        path = path_of("tenants", self._tenant, "chats", chat, "messages", str(sequence))
        await self._rest.request("DELETE", path)

    async def reports(
        self,
        state: ReportState | None = None,
        *,
        sealed: bool = False,
        limit: int = 50,
        cursor: str | None = None,
    ) -> ListPage[ReportedCase]:
        """Return a page of what users have reported, newest first; the audit trail records it.
        A sealed page has no content and no comments."""
        path = path_of("tenants", self._tenant, "reports")
        query = part_of(limit, cursor) | ({} if state is None else {"state": state})
        query |= {"sealed": "true"} if sealed else {}
        return await self._rest.ask(ListPage[ReportedCase], "GET", path, query=query)

    async def unseal_report(self, report: str, reason: str) -> ReportedCase:
        """Return a report with content and comment. The audit trail records the reason."""
        path = path_of("tenants", self._tenant, "reports", report, "unseal")
        return await self._rest.ask(ReportedCase, "POST", path, {"reason": reason})

    async def reported_file(self, report: str, attachment_id: str) -> AsyncIterator[bytes]:
        """Yield the bytes of a file of a reported message. The audit trail records it."""
        path = path_of("tenants", self._tenant, "reports", report, "attachments", attachment_id)
        async for data in self._rest.stream(path, {}):
            yield data

    async def change_report(
        self,
        report: str,
        *,
        state: ReportState | None = None,
        note: str | None = None,
        action: ReportAction | None = None,
    ) -> ReportedCase:
        """Act on what was reported, and change the report; None changes nothing."""
        wanted = {"state": state, "note": note, "action": action}
        body = {name: value for name, value in wanted.items() if value is not None}
        path = path_of("tenants", self._tenant, "reports", report)
        return await self._rest.ask(ReportedCase, "PATCH", path, body)

    async def change_settings(
        self, chat: str, *, frozen: bool | None = None, slow_mode_seconds: int | None = None
    ) -> ChatSettings:
        """Freeze a chat or set its slow mode, and return both settings; None changes nothing."""
        wanted = {"frozen": frozen, "slow_mode_seconds": slow_mode_seconds}
        body = {name: value for name, value in wanted.items() if value is not None}
        path = path_of("tenants", self._tenant, "chats", chat)
        return await self._rest.ask(ChatSettings, "PATCH", path, body)

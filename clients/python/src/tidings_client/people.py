# SPDX-License-Identifier: Apache-2.0
"""The part of a tenant's API that is about its users: profiles, tokens, deletion and export."""

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

import msgspec

from tidings_client.listed import ConnectionList, ListedUser, ListPage, part_of
from tidings_client.records import Job
from tidings_client.rest import Rest, path_of


class UserChange(msgspec.Struct, frozen=True, kw_only=True):
    """New values of a user. Absent fields do not change; None removes a value."""

    display_name: str | msgspec.UnsetType = msgspec.UNSET
    phone_number: str | msgspec.UnsetType | None = msgspec.UNSET
    """A number that the tenant sets is not verified until the user logs in with a code."""
    avatar_url: str | msgspec.UnsetType | None = msgspec.UNSET
    metadata: dict[str, Any] | msgspec.UnsetType | None = msgspec.UNSET
    email: str | msgspec.UnsetType | None = msgspec.UNSET
    deactivated: bool | msgspec.UnsetType = msgspec.UNSET
    """If true, the user's sessions and tokens end for good."""
    banned_until: datetime | msgspec.UnsetType | None = msgspec.UNSET
    """Until this time, the user can read, but not write. It needs a time zone."""


class UserToken(msgspec.Struct, frozen=True):
    """A token of a user, for a `Client`, and when it expires."""

    token: str
    expires_at: datetime


class _Erased(msgspec.Struct, frozen=True):
    destroyed: int


class PeopleApi:
    """What a tenant does for its users, and with their data. The audit trail records it."""

    _rest: Rest
    _tenant: str

    async def user(self, user: str) -> ListedUser:
        """Return a user."""
        return await self._rest.ask(ListedUser, "GET", self._of(user))

    async def put_user(self, user: str, change: UserChange | None = None) -> ListedUser:
        """Create a user, or change one that exists; return the user."""
        body = msgspec.to_builtins(change or UserChange())
        return await self._rest.ask(ListedUser, "PUT", self._of(user), body)

    async def users(
        self, prefix: str = "", *, limit: int = 50, cursor: str | None = None
    ) -> ListPage[ListedUser]:
        """Return a page of the tenant's users, by id; with `prefix`, those whose ids begin with
        it."""
        path = path_of("tenants", self._tenant, "users")
        query = part_of(limit, cursor) | ({"prefix": prefix} if prefix else {})
        return await self._rest.ask(ListPage[ListedUser], "GET", path, query=query)

    async def token(
        self, user: str, *, device: str | None = None, expires_in: int | None = None
    ) -> UserToken:
        """Create a token for a user, who is created if there is none.

        It is valid for an hour, or for `expires_in` seconds, at most a day. With a `device`, only
        this device can use it.
        """
        wanted = {"user_id": user, "device": device, "expires_in": expires_in}
        body = {name: value for name, value in wanted.items() if value is not None}
        path = path_of("tenants", self._tenant, "tokens")
        return await self._rest.ask(UserToken, "POST", path, body, is_safe=True)

    async def end_sessions(self, user: str) -> None:
        """End all sessions of a user, and every token that was issued up to now."""
        await self._rest.request("DELETE", f"{self._of(user)}/sessions")

    async def connections(self, user: str) -> ConnectionList:
        """Return the open connections of a user to all processes, oldest first."""
        return await self._rest.ask(ConnectionList, "GET", f"{self._of(user)}/connections")

    async def erase_content(self, user: str) -> int:
        """Destroy the keys of everything that a user wrote; return how many keys there were.

        With several processes, this takes about five seconds.
        """
        return (await self._rest.ask(_Erased, "DELETE", f"{self._of(user)}/content")).destroyed

    async def delete_user(self, user: str) -> Job:
        """Delete a user for good; after the answer, every use of the id is refused.

        The finished job has a `receipt`. A repeated request returns the same job.
        """
        return await self._rest.ask(Job, "DELETE", self._of(user))

    async def export_user(self, user: str) -> str:
        """Start a job that gathers the stored data of a user; return the id of the job.

        While the job runs, a repeated request returns the same job.
        """
        return str((await self._rest.ask(dict[str, Any], "GET", f"{self._of(user)}/export"))["job"])

    async def exported(self, job: str) -> AsyncIterator[dict[str, Any]]:
        """Yield the records of an export whose job is done."""
        path = path_of("tenants", self._tenant, "jobs", job, "download")
        query: dict[str, str] = {}
        while True:
            part = await self._rest.ask(ListPage[dict[str, Any]], "GET", path, query=query)
            for record in part.data:
                yield record
            if part.next_cursor is None:
                return
            query = {"cursor": part.next_cursor}

    async def exported_file(self, user: str, attachment_id: str) -> AsyncIterator[bytes]:
        """Yield the bytes of a file that a user has sent; the messages of an export name it."""
        path = path_of("tenants", self._tenant, "users", user, "files", attachment_id)
        async for data in self._rest.stream(path, {}):
            yield data

    def _of(self, user: str) -> str:
        return path_of("tenants", self._tenant, "users", user)

# SPDX-License-Identifier: Apache-2.0
"""All that can be done with logins and sessions, in one typed bundle."""

from dataclasses import dataclass

from tidings.actions.contacts import FindContacts
from tidings.actions.logins import RequestCode
from tidings.actions.refreshing import RefreshSession
from tidings.actions.sessions import ListSessions, OpenSession, RevokeSession, RevokeSessions


@dataclass(frozen=True, slots=True)
class LoginVerbs:
    """The verbs of logging in, and of what comes of it."""

    request_code: RequestCode
    open_session: OpenSession
    refresh: RefreshSession
    sessions: ListSessions
    revoke_session: RevokeSession
    revoke_sessions: RevokeSessions
    find_contacts: FindContacts

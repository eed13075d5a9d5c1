# SPDX-License-Identifier: Apache-2.0
"""Access tokens for FCM, which Google gives for a token that a service account has signed.

This is the grant of RFC 7523. A token is used until shortly before it expires. Requests that need
one at the same time wait for the same answer, and after a refusal none is asked for a while.
"""

import asyncio
from typing import Final
from urllib.parse import urlencode

import jwt
import msgspec

from tidings.caches import LruCache
from tidings.model import limits
from tidings.outgoing.push.answers import NoAnswer, ServicePosts, not_sent
from tidings.ports.push import PushOutcome
from tidings.ports.world import Clock

FCM_TOKEN_URL: Final = "https://oauth2.googleapis.com/token"
SCOPE: Final = "https://www.googleapis.com/auth/firebase.messaging"
GRANT: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
ASSERTION_SECONDS: Final = 60 * 60
EARLY_SECONDS: Final = 5 * 60
"""How long before its end a token is replaced."""
REFUSAL_SECONDS: Final = 60
"""How long nobody asks again after Google refused a service account."""
_TOKENS_MAX: Final = 1_000


class ServiceAccount(msgspec.Struct, frozen=True):
    """A service account of Google Cloud that may send messages for a project."""

    project_id: str
    client_email: str
    private_key_id: str
    private_key: str

    def __repr__(self) -> str:
        return f"ServiceAccount(client_email={self.client_email!r})"


class TokenAnswer(msgspec.Struct):
    """Google's answer to a request for a token."""

    access_token: str
    expires_in: int = ASSERTION_SECONDS


class AccountState(msgspec.Struct):
    """What is known about a service account: its token, or why it has none."""

    lock: asyncio.Lock
    until: int = 0
    """Time in milliseconds until which the other fields are valid."""
    token: str = ""
    refusal: PushOutcome | None = None


class FcmTokens:
    """Obtains the access tokens of service accounts."""

    def __init__(self, posts: ServicePosts, clock: Clock, url: str = FCM_TOKEN_URL) -> None:
        self._posts = posts
        self._clock = clock
        self._url = url
        self._accounts: LruCache[ServiceAccount, AccountState] = LruCache(_TOKENS_MAX)

    async def token(self, account: ServiceAccount) -> str:
        """Return a valid token.

        Raises:
            NoAnswer: No token can be obtained; the exception has the outcome of the notice.
        """
        state = self._accounts.get(account)
        if state is None:
            state = AccountState(asyncio.Lock())
            self._accounts.put(account, state)
        async with state.lock:
            if state.until <= self._clock.now():
                await self._renew(account, state)
        if state.refusal is not None:
            raise NoAnswer(state.refusal)
        return state.token

    def drop(self, account: ServiceAccount, token: str) -> None:
        """Forget a token that FCM did not accept."""
        state = self._accounts.get(account)
        if state is not None and state.token == token:
            state.until = 0

    async def _renew(self, account: ServiceAccount, state: AccountState) -> None:
        now = self._clock.now()
        form = {"grant_type": GRANT, "assertion": self._assertion(account, now)}
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        try:
            answer = await self._posts.post(self._url, headers, urlencode(form).encode())
        except NoAnswer as failure:
            # Whatever became of the request for a token: the notice itself was not sent.
            is_final = failure.outcome.kind == "refused"
            reason = f"token: {failure.outcome.reason}"
            outcome = PushOutcome("refused" if is_final else "not_sent", reason)
            raise NoAnswer(outcome) from None
        if answer.status == 200:
            try:
                given = msgspec.json.decode(answer.body, type=TokenAnswer)
            except msgspec.DecodeError:
                raise NoAnswer(PushOutcome("not_sent", "token: malformed")) from None
            state.token, state.refusal = given.access_token, None
            state.until = now + max(0, given.expires_in - EARLY_SECONDS) * limits.SECOND_MS
        elif answer.status == 429 or answer.status >= 500:
            raise NoAnswer(not_sent(f"token: status {answer.status}", answer, now))
        else:
            state.refusal = PushOutcome("refused", f"token: status {answer.status}")
            state.until = now + REFUSAL_SECONDS * limits.SECOND_MS

    def _assertion(self, account: ServiceAccount, now: int) -> str:
        seconds = now // limits.SECOND_MS
        claims = {
            "iss": account.client_email,
            "scope": SCOPE,
            "aud": self._url,
            "iat": seconds,
            "exp": seconds + ASSERTION_SECONDS,
        }
        return jwt.encode(
            claims,
            account.private_key,
            algorithm="RS256",
            headers={"kid": account.private_key_id},
        )

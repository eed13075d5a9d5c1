# SPDX-License-Identifier: Apache-2.0
"""Names over REST: dots that paths lose, names that look like others, and what was there before."""

from pathlib import Path

import pytest

from tests.integration.rest_world import open_rest
from tidings.model.ids import user_key

INVALID = (400, "request.invalid")
TURNED = "Ann\u202egnirts"


@pytest.mark.attack("S19", "D13")
@pytest.mark.parametrize("dots", [".", ".."])
async def test_dots_are_no_name_wherever_one_is_given(tmp_path: Path, dots: str) -> None:
    async with open_rest(tmp_path) as rest:
        backend, alice = await rest.tenant(), await rest.user("alice")
        path, hidden = "/v1/tenants/acme", dots.replace(".", "%2E")
        assert await backend.refused("PUT", f"{path}/users/{hidden}", {}) == INVALID
        assert await backend.refused("POST", f"{path}/tokens", {"user_id": dots}) == INVALID
        inbox = {"title": "News"}
        assert await backend.refused("PUT", f"{path}/inboxes/{hidden}", inbox) == INVALID
        group = {"type": "group", "name": "Team", "members": [dots]}
        assert await alice.refused("POST", "/v1/chats", group) == INVALID
        chat = await alice.group()
        for method, body in (("PUT", {}), ("DELETE", None)):
            refused = await alice.refused(method, f"/v1/chats/{chat}/members/{hidden}", body)
            assert refused[0] in (400, 404)
        assert await alice.refused("GET", f"/v1/users/{hidden}") == (404, "user.not_found")
        assert await rest.core.store.users.get(user_key("acme", dots)) is None


@pytest.mark.attack("S20", "E06")
async def test_a_name_that_turns_around_is_refused_and_an_old_one_is_still_shown(
    tmp_path: Path,
) -> None:
    async with open_rest(tmp_path) as rest:
        backend, alice = await rest.tenant(), await rest.user("alice")
        for body in ({"display_name": TURNED}, {"display_name": "A\u200bnn"}):
            assert await alice.refused("PATCH", "/v1/me", body) == INVALID
            assert await backend.refused("PUT", "/v1/tenants/acme/users/bob", body) == INVALID
        chat = await alice.group()
        assert await alice.refused("PATCH", f"/v1/chats/{chat}", {"name": TURNED}) == INVALID

        old = user_key("acme", "alice")
        await rest.core.store.users.put(old, display_name=TURNED, phone_number=None, now=1)
        assert (await alice.ok("GET", "/v1/me"))["display_name"] == TURNED
        named = await alice.ok("PATCH", "/v1/me", {"display_name": "می\u200cخواهم"})
        assert named["display_name"] == "می\u200cخواهم"

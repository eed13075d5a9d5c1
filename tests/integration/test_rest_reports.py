# SPDX-License-Identifier: Apache-2.0
"""Reports: what was reported is shown to the tenant as it was, and to nobody else."""

from typing import Any

import pytest

from tests.integration.attachments import blobs_of, of, sent, sweep, upload
from tests.integration.engines import long_engine as long_engine
from tests.integration.rest_world import Actor, Rest
from tidings.actions.chat import reporting
from tidings.actions.chat.message_changes import find_message
from tidings.model import reports
from tidings.model.attachments import ERASED_FILES_MS
from tidings.model.entries import Entry
from tidings.model.ids import UserKey
from tidings.model.reports import REPORT_MS

pytestmark = pytest.mark.asyncio(loop_scope="module")

SPAM = {"reason": "spam"}


async def reported(backend: Actor, report_id: str) -> dict[str, Any]:
    listed = (await backend.ok("GET", "/v1/tenants/acme/reports"))["data"]
    return next(one for one in listed if one["report_id"] == report_id)


async def test_the_tenant_sees_a_message_as_it_was_when_it_was_reported(rest: Rest) -> None:
    backend = await rest.tenant()
    ann, ben = await rest.users("rp-ann", "rp-ben")
    chat = await ann.group("rp-ben")
    path = f"/v1/chats/{chat}/messages/{(await ben.send(chat, 'm1', 'bad words'))['sequence']}"
    body = {"reason": "abuse", "comment": "he does it all the time"}
    made = await ann.ok("POST", f"{path}/report", body)
    assert await ann.ok("POST", f"{path}/report", SPAM) == made, "each message once"
    await ben.ok("DELETE", path)

    shown = await reported(backend, made["report_id"])
    assert shown["content"] == "bad words"
    assert (shown["comment"], shown["reason"]) == (body["comment"], "abuse")
    assert (shown["state"], shown["user_id"], shown["reporter_id"]) == ("open", "rp-ben", "rp-ann")
    trail = (await backend.ok("GET", "/v1/tenants/acme/audit"))["data"]
    assert "list_reports" in [act["action"] for act in trail]
    late = await ann.ok("POST", f"/v1/chats/{chat}/messages/{await gone(ben, chat)}/report", SPAM)
    assert (await reported(backend, late["report_id"]))["content"] is None

    await backend.ok("DELETE", "/v1/tenants/acme/users/rp-ben/content")
    erased = await reported(backend, made["report_id"])
    assert (erased["content"], erased["erased"], erased["comment"]) == (None, True, body["comment"])


async def test_the_files_of_a_reported_message_are_kept_for_the_tenant(rest: Rest) -> None:
    backend, other = await rest.tenant(), await rest.tenant("rp-other")
    pam, rob = await rest.users("rp-pam", "rp-rob")
    chat = await pam.group("rp-rob")
    files = [await upload(rob, data, name="cat.png") for data in (b"bytes", b"more")]
    messages = [await sent(rob, chat, f"m{number}", file) for number, file in enumerate(files)]
    path = f"/v1/chats/{chat}/messages/{messages[0]['sequence']}"
    made = await pam.ok("POST", f"{path}/report", SPAM)
    for message in messages:
        await rob.ok("DELETE", f"/v1/chats/{chat}/messages/{message['sequence']}")
    await sweep(rest)
    assert [len(blobs_of(rest, file)) for file in files] == [1, 0], "only what was reported"
    gone = (410, "attachment.gone")
    assert await pam.refused("GET", of(chat, messages[0], files[0])) == gone

    shown = await reported(backend, made["report_id"])
    assert (shown["content"], [one["name"] for one in shown["attachments"]]) == ("", ["cat.png"])
    of_report = f"/v1/tenants/acme/reports/{made['report_id']}/attachments"
    answer = await backend.call("GET", f"{of_report}/{files[0]}", headers={"Range": "bytes=1-3"})
    assert (answer.status_code, answer.content) == (206, b"yte")
    (act,) = (await backend.ok("GET", "/v1/tenants/acme/audit?limit=1"))["data"]
    assert (act["action"], act["outcome"]) == ("read_reported_file", "done")
    missing = (404, "attachment.not_found")
    assert await backend.refused("GET", f"{of_report}/{files[1]}") == missing
    assert (await other.refused("GET", f"{of_report}/{files[0]}"))[0] == 404
    sealed = (await backend.ok("GET", "/v1/tenants/acme/reports?sealed=true"))["data"]
    (one,) = [one for one in sealed if one["report_id"] == made["report_id"]]
    assert (one["attachments"], one["sealed"]) == ([], True)

    rest.clock.time += REPORT_MS
    await sweep(rest)
    assert blobs_of(rest, files[0]) == []


@pytest.mark.parametrize("read", [1, 2])
async def test_a_redaction_during_a_report_leaves_all_or_nothing(
    rest: Rest, monkeypatch: pytest.MonkeyPatch, read: int
) -> None:
    backend = await rest.tenant()
    una, vic = await rest.users("rp-una", "rp-vic")
    chat = await una.group("rp-vic")
    file = await upload(vic, b"bytes")
    path = f"/v1/chats/{chat}/messages/{(await sent(vic, chat, 'm1', file))['sequence']}"
    reads = 0

    async def find(*place: Any) -> Entry:
        nonlocal reads
        found, reads = await find_message(*place), reads + 1
        if reads == read:
            await vic.ok("DELETE", path)
            await sweep(rest)
        return found

    monkeypatch.setattr(reporting, "find_message", find)
    made = await una.ok("POST", f"{path}/report", SPAM)
    shown = await reported(backend, made["report_id"])
    files = [one["attachment_id"] for one in shown["attachments"]]
    assert (shown["content"], files) == ((None, []) if read == 1 else ("", [file]))
    assert len(blobs_of(rest, file)) == len(files)


async def test_a_report_during_a_visit_of_the_sweeper_keeps_the_files(
    rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    await rest.tenant()
    wim, xia = await rest.users("rp-wim", "rp-xia")
    chat = await wim.group("rp-xia")
    file = await upload(xia, b"bytes")
    path = f"/v1/chats/{chat}/messages/{(await sent(xia, chat, 'm1', file))['sequence']}"
    log = rest.core.store.log
    entry = log.entry

    async def late_entry(*place: Any) -> Entry | None:
        await wim.ok("POST", f"{path}/report", SPAM)
        await xia.ok("DELETE", path)
        return await entry(*place)

    await rest.core.store.uploads.visit_all(UserKey("acme:rp-xia"), rest.clock.now())
    with monkeypatch.context() as patched:
        patched.setattr(log, "entry", late_entry)
        await sweep(rest)
    await sweep(rest)
    assert len(blobs_of(rest, file)) == 1


async def test_erasure_takes_the_files_of_a_report_away(rest: Rest) -> None:
    backend = await rest.tenant()
    sue, tom = await rest.users("rp-sue", "rp-tom")
    chat = await sue.group("rp-tom")
    file = await upload(tom, b"bytes")
    sequence = (await sent(tom, chat, "m1", file))["sequence"]
    made = await sue.ok("POST", f"/v1/chats/{chat}/messages/{sequence}/report", SPAM)
    await backend.ok("DELETE", "/v1/tenants/acme/users/rp-tom/content")
    shown = await reported(backend, made["report_id"])
    assert (shown["erased"], shown["attachments"]) == (True, [])
    path = f"/v1/tenants/acme/reports/{made['report_id']}/attachments/{file}"
    assert await backend.refused("GET", path) == (410, "attachment.gone")
    rest.clock.time += ERASED_FILES_MS
    await sweep(rest)
    assert blobs_of(rest, file) == []


async def gone(sender: Actor, chat: str) -> int:
    """A message that was redacted."""
    sequence = int((await sender.send(chat, "m2"))["sequence"])
    await sender.ok("DELETE", f"/v1/chats/{chat}/messages/{sequence}")
    return sequence


async def test_a_report_is_sealed_until_there_is_a_reason(rest: Rest) -> None:
    backend = await rest.tenant()
    lea, max_ = await rest.users("rp-lea", "rp-max")
    chat = await lea.group("rp-max")
    sequence = (await max_.send(chat, "m1", "bad words"))["sequence"]
    body = {"reason": "abuse", "comment": "he does it all the time"}
    made = await lea.ok("POST", f"/v1/chats/{chat}/messages/{sequence}/report", body)
    bare = await lea.ok("POST", "/v1/users/rp-max/report", SPAM)

    answer = await backend.call("GET", "/v1/tenants/acme/reports?sealed=true&state=open")
    assert "bad words" not in answer.text and body["comment"] not in answer.text
    sealed = {one["report_id"]: one["sealed"] for one in answer.json()["data"]}
    assert (sealed[made["report_id"]], sealed[bare["report_id"]]) == (True, False)

    path = f"/v1/tenants/acme/reports/{made['report_id']}/unseal"
    for wrong in ({}, {"reason": " "}, {"reason": "\u202e"}):
        assert await backend.refused("POST", path, wrong) == (400, "request.invalid")
    shown = await backend.ok("POST", path, {"reason": "Ticket 4711"})
    assert (shown["content"], shown["comment"]) == ("bad words", body["comment"])
    assert shown["sealed"] is False
    (act,) = (await backend.ok("GET", "/v1/tenants/acme/audit?limit=1"))["data"]
    assert (act["action"], act["target"]) == ("unseal_report", made["report_id"])
    assert act["fields"] == ["reason=Ticket 4711"]
    missing = f"/v1/tenants/acme/reports/{chat}/unseal"
    assert await backend.refused("POST", missing, {"reason": "x"}) == (404, "report.not_found")


async def test_a_report_is_handled_with_an_action(rest: Rest) -> None:
    backend = await rest.tenant()
    cid, dot, eve = await rest.users("rp-cid", "rp-dot", "rp-eve")
    chat = await cid.group("rp-dot", "rp-eve")
    sequence = (await dot.send(chat, "m1"))["sequence"]
    made = await cid.ok("POST", f"/v1/chats/{chat}/messages/{sequence}/report", SPAM)
    path = f"/v1/tenants/acme/reports/{made['report_id']}"

    change = {"state": "resolved", "note": "first warning", "action": "redact"}
    handled = await backend.ok("PATCH", path, change)
    assert (handled["state"], handled["note"], handled["action"]) == tuple(change.values())
    assert (await eve.ok("GET", f"/v1/chats/{chat}/messages/{sequence}"))["redacted"] is True
    for _ in range(2):
        handled = await backend.ok("PATCH", path, {"action": "remove"})
        assert (handled["state"], handled["note"]) == ("resolved", "first warning")
    assert await dot.refused("GET", f"/v1/chats/{chat}") == (404, "chat.not_found")
    found = (await backend.ok("GET", "/v1/tenants/acme/reports?state=resolved"))["data"]
    assert [one["report_id"] for one in found] == [made["report_id"]]
    assert await backend.refused("PATCH", path + "0", {}) == (404, "report.not_found")
    rest.clock.time += REPORT_MS
    assert await backend.refused("PATCH", path, {"note": "late"}) == (404, "report.not_found")


async def test_what_can_be_reported(rest: Rest, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = await rest.tenant()
    fay, gus, hope = await rest.users("rp-fay", "rp-gus", "rp-hope")
    chat = await fay.group("rp-gus")
    sequence = (await gus.send(chat, "m1"))["sequence"]
    path = f"/v1/chats/{chat}/messages/{sequence}/report"
    assert await hope.refused("POST", path, SPAM) == (404, "chat.not_found")
    assert await gus.refused("POST", path, SPAM) == (400, "request.invalid")
    assert await fay.refused("POST", path, {"reason": "boring"}) == (400, "request.invalid")
    long = {"reason": "spam", "comment": "x" * (reports.REPORT_TEXT_CHARS_MAX + 1)}
    assert await fay.refused("POST", path, long) == (400, "request.invalid")
    nowhere = f"/v1/chats/{chat}/messages/99/report"
    assert await fay.refused("POST", nowhere, SPAM) == (404, "message.not_found")
    assert await fay.refused("POST", "/v1/users/rp-fay/report", SPAM) == (400, "request.invalid")
    assert await fay.refused("POST", "/v1/users/nobody/report", SPAM) == (404, "user.not_found")
    assert await fay.refused("POST", "/v1/users/ä/report", SPAM) == (404, "user.not_found")

    made = await hope.ok("POST", "/v1/users/rp-gus/report", SPAM)
    shown = await reported(backend, made["report_id"])
    assert (shown["chat_id"], shown["sequence"], shown["content"]) == (None, None, None)
    patch = f"/v1/tenants/acme/reports/{made['report_id']}"
    assert await backend.refused("PATCH", patch, {"action": "redact"}) == (400, "request.invalid")
    assert (await reported(backend, made["report_id"]))["state"] == "open"

    notice = {"client_message_id": "m1", "content": "of the tenant itself"}
    posted = await backend.ok("POST", f"/v1/tenants/acme/chats/{chat}/messages", notice)
    made = await fay.ok("POST", f"/v1/chats/{chat}/messages/{posted['sequence']}/report", SPAM)
    patch = f"/v1/tenants/acme/reports/{made['report_id']}"
    for action in ("ban", "remove"):
        refused = await backend.refused("PATCH", patch, {"action": action})
        assert refused == (400, "request.invalid"), "the tenant is no user"


async def test_a_user_makes_a_limited_number_of_reports(
    rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    ida, *_ = await rest.users("rp-ida", "rp-jon", "rp-kim")
    monkeypatch.setattr("tidings.actions.chat.reporting.USER_DAY_REPORTS_MAX", 1)
    await ida.ok("POST", "/v1/users/rp-jon/report", SPAM)
    assert await ida.refused("POST", "/v1/users/rp-kim/report", SPAM) == (429, "rate.limited")

# SPDX-License-Identifier: Apache-2.0
"""Writes a run: first its idempotency keys, then its entries and everything that they change.

A single message needs two writes of one unit each: the key, then the entry. Several messages are
written as a pack: their keys, then one item. A message may have no key, if the appender knows that
it is not in the log. The entries of any other run are written in one transaction, which costs twice
as much for each item. A reply is written in a transaction too, with the count of its target, and
so is a message that mentions users or has attachments.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Final

from tidings.model import limits
from tidings.model.entries import Entry
from tidings.model.formats import PACKS
from tidings.model.ids import ChatId
from tidings.model.refusals import StoreUnavailable, Unavailable
from tidings.ports.log import Declined, Failed, Kept, KeyTaken, Outcome, Run, SlotTaken
from tidings.ports.secrets import Deployment
from tidings.ports.world import Chance, Failpoints
from tidings.stores.dynamodb.chat.deletion_patterns import DELETE_CHAT
from tidings.stores.dynamodb.chat.deletions import plan_deletion
from tidings.stores.dynamodb.chat.heads import Heads
from tidings.stores.dynamodb.chat.items import (
    body_item,
    claim_item,
    claim_key,
    entry_item,
    reactions_of,
)
from tidings.stores.dynamodb.chat.link_patterns import RELEASE_KEY
from tidings.stores.dynamodb.chat.links import mention_items
from tidings.stores.dynamodb.chat.members import (
    SLOT_TAKEN,
    Stale,
    TransactionPlan,
    have_room,
    plan_people,
)
from tidings.stores.dynamodb.chat.packs import is_pack, pack_item
from tidings.stores.dynamodb.chat.targets import TARGET_KINDS, plan_reply, plan_target
from tidings.stores.dynamodb.chat.uploads import plan_attachments
from tidings.stores.dynamodb.client.dynamo import Dynamo
from tidings.stores.dynamodb.client.retrying import (
    Canceled,
    ConditionFailed,
    Conflicted,
    Item,
    gather_bounded,
)
from tidings.stores.dynamodb.client.writes import Put
from tidings.stores.dynamodb.patterns import (
    CHANGE_CHAT,
    CLAIM_KEY,
    CLAIM_SLOT,
    CLAIM_SLOTS,
    FORGET_REACTIONS,
    PUT_BODY,
    READ_REACTIONS,
    Pattern,
)
from tidings.tasks import Tasks

log = logging.getLogger("tidings.dynamodb")

FREE_SLOT: Final = "attribute_not_exists(#chat_id)"
_FREE_KEY: Final = "attribute_not_exists(#chat_id) OR #expires_at <= :now"
_KEPT: Final = Kept()
_SLOT_LOST_KEYS_CLAIMED: Final = SlotTaken(keys_are_claimed=True)


def _is_linked(message: Entry) -> bool:
    """Return True if a message is also listed elsewhere, which needs a transaction."""
    return message.reply_to is not None or bool(message.mentioned) or message.files is not None


class Runs:
    """Writes runs of entries to the logs of chats."""

    def __init__(
        self,
        dynamo: Dynamo,
        heads: Heads,
        chance: Chance,
        failpoints: Failpoints,
        deployment: Deployment,
    ) -> None:
        self._dynamo = dynamo
        self._heads = heads
        self._chance = chance
        self._failpoints = failpoints
        self._deployment = deployment
        self._tasks = Tasks("runs")

    async def write(self, run: Run) -> Outcome:
        """Write all entries of a run or none.

        This never raises; if the outcome is unknown, it returns Failed.
        """
        try:
            self._failpoints.reach("before_commit")
            keys = await self._claim_keys(run)
            if keys.indexes:
                return keys
            self._failpoints.reach("between_key_and_entry")
            outcome = await self._write_entries(run)
            if outcome == SLOT_TAKEN and keys.claimed:
                return _SLOT_LOST_KEYS_CLAIMED
            if isinstance(outcome, Declined):
                await self._release_keys(run, keys.claimed)
            self._failpoints.reach("after_commit_before_answer")
        except Unavailable:
            return Failed()
        except Exception:
            log.exception("a run could not be written", extra={"action": "run_failed"})
            return Failed()
        return outcome

    async def add_people(self, entry: Entry) -> Outcome:
        """Append an `added` entry; the caller has checked that its users may join one more chat.

        Raises:
            StoreUnavailable: The outcome is unknown.
        """
        plan = TransactionPlan()
        plan.add(Put("messages", entry_item(entry), FREE_SLOT))
        return await self._transact(entry.chat_id, [entry], plan)

    async def close(self) -> None:
        """Wait for the reactions that are being deleted in the background."""
        await self._tasks.finish()

    # Keys.

    async def _claim_keys(self, run: Run) -> KeyTaken:
        """Claim the idempotency keys of a run; return which are taken, and which are claimed now.

        A key is taken if an earlier send has claimed it. A key with `after` is reported as taken
        even if it was free, so that the log is searched for its message. The message may be there
        without a key, because other processes may start to write packs a minute before this one.
        """
        wanted = [(index, key) for index, key in enumerate(run.keys) if key is not None]
        if len(wanted) == 1:
            claimed = [await self._claim(run, wanted[0][0])]
        else:
            claimed = await gather_bounded(partial(self._claim, run, index) for index, _ in wanted)
        ours = tuple(
            index
            for (index, key), is_ours in zip(wanted, claimed, strict=True)
            if is_ours and key.after is None
        )
        return KeyTaken(tuple(index for index, _ in wanted if index not in ours), ours)

    async def _claim(self, run: Run, index: int) -> bool:
        """Claim the idempotency key of the message at this index in the run.

        Return True if the key is claimed now, False if an earlier send has claimed it. An expired
        claim does not count, even if it is not deleted yet.
        """
        key = run.keys[index]
        assert key is not None
        # The hint is the first slot of the run: the next attempt may leave out messages before it.
        item = claim_item(run.chat_id, key, run.entries[0])
        now = {":now": run.entries[0].created_at}
        try:
            await self._dynamo.put(CLAIM_KEY, item, _FREE_KEY, now)
        except ConditionFailed as failed:
            return failed.is_repeat and failed.item == item
        return True

    async def _release_keys(self, run: Run, claimed: Sequence[int]) -> None:
        """Give back the keys of messages that were declined, as an engine with one transaction
        does. A repeat of such a message is declined too."""
        for index in claimed:
            key = run.keys[index]
            assert key is not None
            mine = {":mark": run.entries[0].mark}
            with suppress(ConditionFailed, Unavailable):
                await self._dynamo.delete(
                    RELEASE_KEY, claim_key(run.chat_id, key), "#mark = :mark", mine
                )

    # Entries.

    async def _write_entries(self, run: Run) -> Outcome:
        entries = run.entries
        if is_pack(entries) and self._deployment.writes >= PACKS:
            claim = partial(self._claim_slot, CLAIM_SLOTS, entries[-1], pack_item(entries))
            return await self._in_time(run, claim)
        bodies = await self._put_bodies(run)
        if len(entries) == 1 and entries[0].kind == "message" and not _is_linked(entries[0]):
            item = entry_item(entries[0], bodies[0])
            return await self._in_time(run, partial(self._claim_slot, CLAIM_SLOT, entries[0], item))
        return await self._change(run, bodies)

    async def _in_time(self, run: Run, put: Callable[[], Awaitable[Outcome]]) -> Outcome:
        """Start a write of encrypted content only while its data key may be used.

        A data key is destroyed no earlier than `SEALED_WRITE_SECONDS_MAX` after its last permitted
        use. A write that takes less time therefore ends before the key is destroyed. If a write
        took longer and the key may no longer be used, the outcome is reported as unknown.
        """
        if not run.may_write():
            return SLOT_TAKEN
        began = monotonic()
        outcome = await put()
        took = monotonic() - began
        if outcome == _KEPT and took > limits.SEALED_WRITE_SECONDS_MAX and not run.may_write():
            return Failed()
        return outcome

    async def _put_bodies(self, run: Run) -> list[str | None]:
        """Write the content of expiring messages; return the name of each entry's body, or None.

        Each attempt uses a new name, so two writers that compete for a slot never share a body. A
        body whose entry is never written is deleted when it expires.
        """
        names: list[str | None] = []
        for entry in run.entries:
            name = None
            if entry.kind == "message" and entry.expires_at is not None:
                name = f"{entry.sequence:016d}.{self._chance.token(8).hex()}"
                await self._dynamo.put(PUT_BODY, body_item(entry, name))
            names.append(name)
        return names

    async def _claim_slot(self, pattern: Pattern, last: Entry, item: Item) -> Outcome:
        """Write a message or a pack into its slot; `last` is the last message in the item."""
        try:
            await self._dynamo.put(pattern, item, FREE_SLOT, gives_way=True)
        except ConditionFailed as failed:
            if not (failed.is_repeat and failed.item and failed.item["mark"] == last.mark):
                return SLOT_TAKEN
        except Conflicted:
            return SLOT_TAKEN
        self._heads.appended(last)
        return _KEPT

    async def _change(self, run: Run, bodies: list[str | None]) -> Outcome:
        if run.entries[0].kind == "deleted":
            return await self._delete(run.entries[0])
        plan = TransactionPlan()
        for entry, body_id in zip(run.entries, bodies, strict=True):
            plan.add(Put("messages", entry_item(entry, body_id), FREE_SLOT))
        for index, entry in enumerate(run.entries):
            if declined := await self._plan_change(plan, index, entry):
                return declined
        return await self._in_time(run, partial(self._transact, run.chat_id, run.entries, plan))

    async def _delete(self, entry: Entry) -> Outcome:
        plan = TransactionPlan()
        plan.add(Put("messages", entry_item(entry), FREE_SLOT))
        try:
            await plan_deletion(self._dynamo, plan, entry)
            await self._dynamo.transact(DELETE_CHAT, plan.writes)
        except Canceled as canceled:
            return plan.outcome(canceled)
        self._heads.appended(entry)
        return _KEPT

    async def _plan_change(
        self, plan: TransactionPlan, index: int, entry: Entry
    ) -> Declined | None:
        if entry.kind in TARGET_KINDS:
            if (declined := await plan_target(self._dynamo, plan, index, entry)) is None:
                await self._touch(entry)
            return declined
        for item in mention_items(entry):
            plan.add(Put("idempotency_keys", item))
        plan_attachments(plan, index, entry)
        if entry.reply_to is not None:
            return await plan_reply(self._dynamo, plan, index, entry)
        if entry.kind in {"created", "added"}:
            if not await have_room(self._dynamo, [entry]):
                return Declined(index, "too_many_chats")
        return None

    async def _touch(self, entry: Entry) -> None:
        """Remove copies of a message before its content is changed."""
        if entry.kind in {"edited", "redacted"}:
            assert entry.target is not None
            await self._heads.touch(entry.chat_id, entry.target)

    async def _transact(self, chat: ChatId, entries: list[Entry], plan: TransactionPlan) -> Outcome:
        try:
            await plan_people(self._dynamo, plan, chat, entries)
            await self._dynamo.transact(CHANGE_CHAT, plan.writes)
        except Stale:
            return SLOT_TAKEN
        except Canceled as canceled:
            return plan.outcome(canceled)
        self._heads.appended(entries[-1])
        for entry in entries:
            if entry.kind == "redacted":
                assert entry.target is not None
                self._tasks.start(self._delete_reactions(chat, entry.target))
        return _KEPT

    # After a redaction.

    async def _delete_reactions(self, chat: ChatId, sequence: int) -> None:
        """Delete the reactions to a redacted message to save space; they are no longer shown."""
        try:
            rows = await self._dynamo.query(
                READ_REACTIONS, "#message_id = :message", {":message": reactions_of(chat, sequence)}
            )
            keys = [{name: row[name] for name in ("message_id", "reaction")} for row in rows]
            await self._dynamo.batch_write(FORGET_REACTIONS, deletes=keys)
        except StoreUnavailable:
            log.warning(
                "reactions to a redacted message were not deleted",
                extra={"action": "reactions_left", "chat": chat, "sequence": sequence},
            )

# SPDX-License-Identifier: Apache-2.0
"""Rules for search: a user finds exactly what is there to be seen, whatever became of it."""

import re
from typing import Final

from hypothesis import strategies as st
from hypothesis.stateful import rule
from hypothesis.strategies import SearchStrategy

from tests.model.ground import USERS, Ground, picks, users
from tests.model.lines import Line
from tests.support.canary import canary
from tidings.actions.search.searching import Asked
from tidings.model.ids import ChatId, UserKey, user_key

FOREIGNER: Final = user_key("other", "ann")
"""Somebody of the same name, of another tenant."""
queries: SearchStrategy[str] = st.sampled_from(
    ["one", "two", "tw", "canary one", "one canary", "almond", "hazel png", "canary", "none"]
)


def words(text: str) -> list[str]:
    """The words of a plain text."""
    return re.findall(r"[a-z0-9]+", text.lower())


def matches(query: str, text: str) -> bool:
    """Whether the text has all the words, of which the last may be only begun."""
    *whole, last = query.split()
    found = words(text)
    return set(whole) <= set(found) and any(word.startswith(last) for word in found)


class SearchRules(Ground):
    """What users look for."""

    @rule(
        user=st.sampled_from([None, None, None, FOREIGNER]),
        asker=users,
        query=queries,
        sender=st.sampled_from([None, None, None]) | users,
        has_file=st.sampled_from([False, False, True]),
        limit=st.sampled_from([1, 3, 100]),
        is_indexed=st.booleans(),
    )
    def search(
        self,
        user: UserKey | None,
        asker: UserKey,
        query: str,
        sender: UserKey | None,
        has_file: bool,
        limit: int,
        is_indexed: bool,
    ) -> None:
        """In all chats, with the index as it happens to be."""
        blockers = sorted(who for who, _ in self.blocks)
        reader = user or UserKey((blockers or [asker])[0])
        self._prepare(is_indexed)
        expected = {
            (chat, sequence)
            for chat, room in self.rooms.items()
            if reader in room.members
            for sequence, line in room.messages()
            if self._is_found(reader, line, query, sender, has_file)
        }
        asked = Asked(query, None, sender, None, None, has_file)
        assert self._searched(reader, asked, limit) == expected
        self.happened["found"] += len(expected) > 0
        self.happened["found a file"] += query in ("almond", "hazel png") and len(expected) > 0

    @rule(chat=Ground.chats, user=users, query=queries, limit=st.sampled_from([1, 100]),
          is_indexed=st.booleans(), edited=st.none() | picks)  # fmt: skip
    def search_in(
        self,
        chat: ChatId,
        user: UserKey,
        query: str,
        limit: int,
        is_indexed: bool,
        edited: int | None,
    ) -> None:
        """In one chat, whoever is a member of it; perhaps just after a message was edited."""
        self._prepare(is_indexed)
        room = self.rooms[chat]
        if edited is not None:
            self._edit_one(chat, edited, "two" if query.startswith("tw") else "one")

        def expect() -> set[tuple[ChatId, int]]:
            room.member(user)
            return {
                (chat, sequence)
                for sequence, line in room.messages()
                if self._is_found(user, line, query, None, has_file=False)
            }

        asked = Asked(query, chat, None, None, None)
        both = self.same(expect, self._pages(user, asked, limit))
        assert both is None or both[0] == set(both[1])
        assert both is None or len(both[0]) == len(both[1])

    def _edit_one(self, chat: ChatId, pick: int, word: str) -> None:
        room, target = self.room(chat), self.target(chat, pick)
        is_there = 1 <= target <= len(room.log)
        sender = UserKey(room.log[target - 1].sender) if is_there else USERS[0]
        text = canary(word)
        self.same(
            lambda: room.edit(sender, target, text, self.now),
            self.product.verbs.edit(sender, chat, target, text),
        )

    def _prepare(self, is_indexed: bool) -> None:
        self.product.switch()
        self.product.run(self.product.deliver(self.rooms))
        for chat in self.rooms if is_indexed else ():
            while self.product.run(self.product.deployment.core.indexer.step(chat)):
                self.happened["indexed"] += 1

    def _is_found(
        self, user: str, line: Line, query: str, sender: str | None, has_file: bool
    ) -> bool:
        if line.gone(self.now) or (user, line.sender) in self.blocks:
            return False
        names = [self.tenancy.shelf.uploads[name].name for name in line.files]
        is_asked_for = sender in (None, line.sender) and (names or not has_file)
        return bool(is_asked_for) and matches(query, "\n".join([line.content or "", *names]))

    def _searched(self, user: UserKey, asked: Asked, limit: int) -> set[tuple[ChatId, int]]:
        found = self.product.run(self._pages(user, asked, limit))
        assert len(set(found)) == len(found)
        return set(found)

    async def _pages(self, user: UserKey, asked: Asked, limit: int) -> list[tuple[ChatId, int]]:
        """What is found page by page, newest first."""
        found = []
        cursor = None
        while True:
            page = await self.product.verbs.search(user, asked, cursor, limit)
            assert len(page.found) <= limit
            found += page.found
            if (cursor := page.cursor) is None:
                break
        times = [one.entry.created_at for one in found]
        assert times == sorted(times, reverse=True)
        return [(one.entry.chat_id, one.entry.sequence) for one in found]

# SPDX-License-Identifier: Apache-2.0
"""Content at rest: sealed with a key per author, opened on the way to a reader, erased by key.

What cannot be opened is never served: a destroyed key and a wrong tag both read as `erased`, so
that one bad row does not take a page with it; the wrong tag is counted and logged besides.
"""

import logging
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Final

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tidings.actions.content.cursors import Cursors
from tidings.actions.content.data_keys import ALONE, CachedKeys, KeyLeases
from tidings.actions.content.erasing import Erasing
from tidings.actions.content.wrapping import (
    NONCE_BYTES,
    CannotUnwrap,
    Wrapping,
    deployment_secret_purpose,
    send_digest,
)
from tidings.actions.identity.refresh_tokens import LoginDigests
from tidings.actions.identity.revocation_watch import RevocationWatch
from tidings.model.entries import Entry, Gone
from tidings.model.ids import ChatId, UserKey
from tidings.model.refusals import StoreUnavailable
from tidings.ports.secrets import DataKeys, Deployment, KeyRefused, MasterKeys, WrappedKey
from tidings.ports.world import Chance
from tidings.wire.message_cipher import SALT_BYTES, MessageCipher

log = logging.getLogger("tidings.vault")

DIGEST_KEY: Final = "digest_key"
CURSOR_KEY: Final = "cursor_key"
LOGIN_KEY: Final = "login_key"
MESSAGE_KEY: Final = "message_key"
DEPLOYMENT_SECRETS: Final = (DIGEST_KEY, CURSOR_KEY, LOGIN_KEY, MESSAGE_KEY)

_SECRET_BYTES: Final = 32
_DIGEST_BYTES: Final = 16
_LOADS_MAX: Final = 3
"""Once is enough unless reading a key takes as long as it may be used afterwards."""
_TOO_SLOW: Final = "keys are read more slowly than they may be used"
_TAMPERED: Final = "sealed content was changed"
LINES_AT_ONCE: Final = 1_000
_NONCES_DRAWN: Final = 512
"""One system call for many nonces: 0.05 µs each instead of 0.5 µs."""


class Sealed(msgspec.Struct, frozen=True, gc=False):
    """Content as it is stored."""

    box: bytes
    box_key: int
    digest: bytes = b""
    """Of a send: by which its repeats are recognised."""


class Vault:
    """Seals, opens and erases content; holds the secrets of the deployment. Start it first."""

    cursors: Cursors
    """There once the vault is started, as are the next."""
    login_digests: LoginDigests
    messages: MessageCipher
    """Seals what this process sends to others of the deployment."""
    _keyed: blake2b

    def __init__(
        self,
        keys: DataKeys,
        deployment: Deployment,
        master: MasterKeys,
        chance: Chance,
        leases: KeyLeases = ALONE,
    ) -> None:
        self.wrapping = Wrapping(master, chance)
        self._data_keys = keys
        self._keys = CachedKeys(keys, self.wrapping, chance, leases, self._met_ending)
        self._erasing = Erasing(keys, self._keys, leases.erasing_seconds)
        self._deployment = deployment
        self._master = master
        self._chance = chance
        self._changed_boxes = 0
        self._nonces: list[bytes] = []

    @property
    def tampered(self) -> int:
        """How many boxes and data keys did not open although they are there."""
        return self._changed_boxes + self._keys.unusable

    @property
    def is_rotation_unfinished(self) -> bool:
        """Whether a rotation of the master key was begun and has yet to be finished."""
        return bool(self._master.previous)

    # --- Starting -------------------------------------------------------------------------

    def follow(self, watch: RevocationWatch) -> None:
        """Hear from the feed whose content is erased by other processes."""
        self._keys.follow(watch)

    def _met_ending(self, key: WrappedKey) -> None:
        self._erasing.complete(key)

    async def close(self) -> None:
        """Carry on with no erasure."""
        await self._erasing.close()

    async def start(self) -> None:
        """Load the deployment's secrets, or make them in a new store.

        Raises:
            KeyRefused: The master key does not open this store.
        """
        if await self._deployment.sealed(DIGEST_KEY) is None:
            await self._master.ensure()
        elif self._master.current is None:
            raise KeyRefused(
                "the master key of this store is missing: put master.key back into the data "
                "folder, or set TIDINGS_MASTER_KEY to the key the store was sealed with"
            )
        self._keyed = blake2b(key=await self._secret(DIGEST_KEY), digest_size=_DIGEST_BYTES)
        self.cursors = Cursors(await self._secret(CURSOR_KEY), self._chance)
        self.login_digests = LoginDigests(await self._secret(LOGIN_KEY))
        self.messages = MessageCipher(
            await self._secret(MESSAGE_KEY), self._chance.token(SALT_BYTES)
        )
        await self._check_data_keys()

    async def _secret(self, name: str) -> bytes:
        purpose = deployment_secret_purpose(name)
        kept = await self._deployment.sealed(name)
        if kept is None:
            # Another process may be starting on the same empty store: what it kept counts then.
            kept = await self.wrapping.keep(
                purpose,
                self._chance.token(_SECRET_BYTES),
                lambda key_id, box: self._deployment.keep_first_sealed(name, key_id, box),
            )
        try:
            return self.wrapping.unwrap(purpose, *kept)
        except CannotUnwrap as reason:
            raise self._does_not_open(str(reason)) from None

    async def _check_data_keys(self) -> None:
        if self.is_rotation_unfinished:
            return  # the rotation meets them all, and says so if one does not open
        for key in await self._data_keys.wrapped_by_others(self.wrapping.key_id, 1):
            raise self._does_not_open(f"a data key is wrapped by master key {key.master_key_id}")

    def _does_not_open(self, reason: str) -> KeyRefused:
        return KeyRefused(
            f"the master key does not open this store: {reason} (the one given has the id "
            f"{self.wrapping.key_id}); give the key that the store was sealed with. After a change "
            "of TIDINGS_MASTER_KEY the old one is needed as TIDINGS_MASTER_KEY_PREVIOUS until "
            "`tidings keys rotate` has run"
        )

    # --- Sealing --------------------------------------------------------------------------

    def seal_nowait(
        self, author: UserKey, chat: ChatId, client_message_id: str, content: str, told: str = ""
    ) -> Sealed | None:
        """Seal content; None if the author's key is not at hand: then `seal` does it.

        `told` is what makes a send the same as another, if it is one.
        """
        bound_to = f"{author}\0{chat}\0{client_message_id}"
        return self._encrypt_nowait(author, bound_to, content, told)

    async def seal(
        self, author: UserKey, chat: ChatId, client_message_id: str, content: str, told: str = ""
    ) -> Sealed:
        """Seal content; the author's key is loaded, or made with the first message.

        Raises:
            StoreUnavailable: The key cannot be had now.
        """
        bound_to = f"{author}\0{chat}\0{client_message_id}"
        return await self._encrypt(author, bound_to, content, told)

    async def seal_text(self, author: UserKey, bound_to: str, text: str) -> Sealed:
        """Seal text that stands in no chat; it opens only as what it is bound to.

        Raises:
            StoreUnavailable: The key cannot be had now.
        """
        return await self._encrypt(author, f"{author}\0{bound_to}", text)

    async def _encrypt(self, author: UserKey, bound_to: str, text: str, told: str = "") -> Sealed:
        for _ in range(_LOADS_MAX):
            sealed = self._encrypt_nowait(author, bound_to, text, told)
            if sealed is not None:
                return sealed
            await self._keys.load_current(author)
        raise StoreUnavailable(_TOO_SLOW)

    def may_write(self, author: UserKey, sealed: Sealed) -> bool:
        """Whether what was sealed may be written now; if not, seal it again."""
        return self._keys.seals(author, sealed.box_key)

    def _encrypt_nowait(
        self, author: UserKey, bound_to: str, text: str, told: str
    ) -> Sealed | None:
        held = self._keys.to_seal(author)
        if held is None:
            return None
        assert held.cipher is not None, "such a key does not seal"
        if not self._nonces:
            self._draw_nonces()
        nonce = self._nonces.pop()
        box = held.cipher.encrypt(nonce, text.encode(), bound_to.encode())
        digest = send_digest(held.digest_key, held.generation, told) if told else b""
        return Sealed(nonce + box, held.generation, digest)

    def _draw_nonces(self) -> None:
        block = self._chance.token(NONCE_BYTES * _NONCES_DRAWN)
        self._nonces = [block[at : at + NONCE_BYTES] for at in range(0, len(block), NONCE_BYTES)]

    # --- Opening --------------------------------------------------------------------------

    async def open(self, entries: Iterable[Entry], now: int) -> None:
        """Fill in `content`, or why it is `gone`, of messages and of what edits show.

        Raises:
            StoreUnavailable: A key cannot be loaded now.
        """
        for entry in entries:
            message = entry if entry.kind == "message" else entry.shown
            if message is None:
                continue
            for _ in range(_LOADS_MAX):
                if self._open_nowait(message, now):
                    break
                await self._keys.load(message.sender, message.box_key)
            else:
                raise StoreUnavailable(_TOO_SLOW)

    def _open_nowait(self, entry: Entry, now: int) -> bool:
        """Settle one message; False if the author's key has to be loaded first."""
        gone = _gone_without_a_look(entry, now)
        if gone is None:
            held = self._keys.to_open(entry.sender)
            if held is None or held.generation < entry.box_key:
                return False
            if held.cipher is not None and held.generation == entry.box_key:
                gone = self._decrypt(entry, held.cipher)
            else:
                gone = "erased"
        entry.gone = gone
        if gone is not None:
            entry.content = None
        return True

    def _decrypt(self, entry: Entry, cipher: AESGCM) -> Gone | None:
        assert entry.box is not None
        bound_to = f"{entry.sender}\0{entry.chat_id}\0{entry.client_message_id}"
        entry.content = self._decrypt_box(cipher, entry.box, bound_to)
        if entry.content is None:
            where = {"chat": entry.chat_id, "sequence": entry.sequence}
            log.critical(_TAMPERED, extra={"action": "content_tampered", **where})
            return "erased"
        return None

    async def open_text(self, author: UserKey, bound_to: str, sealed: Sealed) -> str | None:
        """Text that stands in no chat; None if it cannot be opened any more, or was changed.

        Raises:
            StoreUnavailable: A key cannot be loaded now.
        """
        for _ in range(_LOADS_MAX):
            held = self._keys.to_open(author)
            if held is not None and held.generation >= sealed.box_key:
                break
            await self._keys.load(author, sealed.box_key)
        else:
            raise StoreUnavailable(_TOO_SLOW)
        if held.cipher is None or held.generation != sealed.box_key:
            return None
        text = self._decrypt_box(held.cipher, sealed.box, f"{author}\0{bound_to}")
        if text is None:
            where = {"author": author, "bound_to": bound_to.replace("\0", " ")}
            log.critical(_TAMPERED, extra={"action": "content_tampered", **where})
        return text

    def _decrypt_box(self, cipher: AESGCM, box: bytes, bound_to: str) -> str | None:
        try:
            return cipher.decrypt(box[:NONCE_BYTES], box[NONCE_BYTES:], bound_to.encode()).decode()
        except (InvalidTag, ValueError):
            self._changed_boxes += 1
            return None

    # --- Erasing and digests --------------------------------------------------------------

    async def erase(self, author: UserKey, now: int) -> int:
        """Destroy the author's keys: whatever they sealed reads `erased`. Returns how many.

        Where other processes may hold them, it takes a few seconds: they have to let go first.

        Raises:
            StoreUnavailable: Unknown outcome; safe to repeat.
        """
        return await self._erasing.erase(author, now)

    def digest(self, *parts: str) -> bytes:
        """A keyed digest: the same for the same parts, and telling nothing about them."""
        keyed = self._keyed.copy()
        keyed.update("".join([f"{len(part)}:{part}" for part in parts]).encode())
        return keyed.digest()

    def digest_of_lines(self, part: str, lines: Sequence[str]) -> bytes:
        """The digest of a part and one of these lines, which are not all joined in memory."""
        keyed = self._keyed.copy()
        chars = sum(map(len, lines)) + len(lines) - 1
        keyed.update(f"{len(part)}:{part}{chars}:".encode())
        for start in range(0, len(lines), LINES_AT_ONCE):
            before = "\n" if start else ""
            keyed.update((before + "\n".join(lines[start : start + LINES_AT_ONCE])).encode())
        return keyed.digest()


def _gone_without_a_look(entry: Entry, now: int) -> Gone | None:
    if entry.redacted:
        return "redacted"
    if entry.expires_at is not None and (entry.box is None or entry.expires_at <= now):
        return "expired"
    return "erased" if entry.box is None else None

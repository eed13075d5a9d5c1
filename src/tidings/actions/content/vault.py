# SPDX-License-Identifier: Apache-2.0
"""Encryption of stored content with one key per author; destroying the key erases the content.

To seal is to encrypt content, to open is to decrypt it for a reader. Content whose key is destroyed
or whose authentication tag is wrong is shown as `erased`, so that one bad row does not fail a whole
page. So is content whose key cannot be unwrapped, though it is not erased. A wrong tag is also
counted and logged.
"""

import logging
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Final

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tidings.actions.content.data_keys import (
    ALONE,
    LOADS_MAX,
    TOO_SLOW,
    CachedKeys,
    KeyLeases,
    send_digest,
)
from tidings.actions.content.erasing import Erasing
from tidings.actions.content.wrapping import (
    NONCE_BYTES,
    CannotUnwrap,
    Cursors,
    Wrapping,
    deployment_secret_purpose,
)
from tidings.actions.identity.refresh_tokens import LoginDigests
from tidings.actions.identity.revocation_watch import RevocationWatch
from tidings.metrics.counts import report_counts
from tidings.model.attachments import decode_files, files_from_bytes
from tidings.model.entries import Entry, Gone
from tidings.model.ids import ChatId, UserKey
from tidings.model.refusals import StoreUnavailable
from tidings.model.setup_error import SetupError
from tidings.ports.secrets import DataKeys, Deployment, MasterKeys, WrappedKey
from tidings.ports.world import Chance, Clock
from tidings.wire.events import SALT_BYTES, MessageCipher

log = logging.getLogger("tidings.vault")

DIGEST_KEY: Final = "digest_key"
CURSOR_KEY: Final = "cursor_key"
LOGIN_KEY: Final = "login_key"
MESSAGE_KEY: Final = "message_key"
DEPLOYMENT_SECRETS: Final = (DIGEST_KEY, CURSOR_KEY, LOGIN_KEY, MESSAGE_KEY)
RECEIPT_KEYS: Final = "receipt_keys"
"""Secret with the keys that sign receipts; it is made when the first receipt is signed."""

_SECRET_BYTES: Final = 32
_DIGEST_BYTES: Final = 16
_NO_MASTER_KEY: Final = "a master key is missing"
_TAMPERED: Final = "sealed content was changed"
LINES_AT_ONCE: Final = 1_000
_NONCES_DRAWN: Final = 512
"""Number of nonces drawn with one system call: each costs 0.05 µs, and 0.5 µs with its own call."""


class Sealed(msgspec.Struct, frozen=True, gc=False):
    """Encrypted content, as it is stored."""

    box: bytes
    box_key: int
    digest: bytes = b""
    """Digest of a message, which identifies repeats of the same send."""


class Vault:
    """Encrypts, decrypts and erases content, and loads the deployment's secrets.

    Call `start` before anything else.
    """

    cursors: Cursors
    """Cipher for cursors. `start` sets this attribute and the ones below."""
    login_digests: LoginDigests
    messages: MessageCipher
    """Cipher for messages between the processes of the deployment."""
    _keyed: blake2b

    def __init__(
        self,
        keys: DataKeys,
        deployment: Deployment,
        master: MasterKeys,
        chance: Chance,
        clock: Clock,
        leases: KeyLeases = ALONE,
    ) -> None:
        self.wrapping = Wrapping(master, chance)
        self._data_keys = keys
        self._keys = CachedKeys(keys, self.wrapping, chance, leases, self._met_ending)
        self._erasing = Erasing(keys, self._keys, clock, leases.erasing_seconds)
        self._deployment = deployment
        self._master = master
        self._chance = chance
        self._changed_boxes = 0
        report_counts(self, "vault")
        self._nonces: list[bytes] = []
        self.seals: Final = self._keys.seals
        """Tells whether content that an author's key of a generation encrypts may be written."""

    @property
    def tampered(self) -> int:
        """Number of stored contents and data keys that could not be decrypted."""
        return self._changed_boxes + self._keys.unusable

    @property
    def is_rotation_unfinished(self) -> bool:
        """Whether a rotation of the master key has begun and is not finished."""
        return bool(self._master.previous)

    # --- Starting -------------------------------------------------------------------------

    def follow(self, watch: RevocationWatch) -> None:
        """Follow the revocation feed, which names authors whose content other processes erase."""
        self._keys.follow(watch)

    def _met_ending(self, key: WrappedKey) -> None:
        self._erasing.complete(key)

    async def close(self) -> None:
        """Cancel all erasures in progress."""
        await self._erasing.close()

    async def start(self) -> None:
        """Load the deployment's secrets, or create them in a new store.

        Raises:
            SetupError: The master key is missing, or does not decrypt this store's secrets.
        """
        if await self._deployment.sealed(DIGEST_KEY) is None:
            await self._master.ensure()
        elif self._master.current is None:
            raise SetupError(
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
            # Another process may be starting on the same empty store: the first secret stored wins.
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
            return  # the rotation unwraps all keys, and reports one that it cannot unwrap
        for key in await self._data_keys.wrapped_by_others(self.wrapping.key_id, 1):
            raise self._does_not_open(f"a data key is wrapped by master key {key.master_key_id}")

    def _does_not_open(self, reason: str) -> SetupError:
        return SetupError(
            f"the master key does not open this store: {reason} (the given key has the id "
            f"{self.wrapping.key_id}); give the key that the store was sealed with. After a change "
            "of TIDINGS_MASTER_KEY set TIDINGS_MASTER_KEY_PREVIOUS to the old key until "
            "`tidings keys rotate` has run"
        )

    # --- Sealing --------------------------------------------------------------------------

    def seal_nowait(
        self,
        author: UserKey,
        chat: ChatId,
        client_message_id: str,
        content: str,
        digested: str = "",
    ) -> Sealed | None:
        """Encrypt content; return None if the author's data key is not cached: then call `seal`.

        `digested` is the text whose digest identifies repeats of a send. It is empty for content
        that is not sent as a message.
        """
        bound_to = f"{author}\0{chat}\0{client_message_id}"
        return self._encrypt_nowait(author, bound_to, content, digested)

    async def seal(
        self,
        author: UserKey,
        chat: ChatId,
        client_message_id: str,
        content: str,
        digested: str = "",
    ) -> Sealed:
        """Encrypt content; load the author's data key, or create it for the first message.

        Raises:
            StoreUnavailable: The data key cannot be loaded now.
        """
        bound_to = f"{author}\0{chat}\0{client_message_id}"
        return await self._encrypt(author, bound_to, content, digested)

    async def seal_text(self, author: UserKey, bound_to: str, text: str | bytes) -> Sealed:
        """Encrypt a text other than content of a message; decryption needs the same `bound_to`.

        Raises:
            StoreUnavailable: The data key cannot be loaded now.
        """
        return await self._encrypt(author, f"{author}\0{bound_to}", text)

    async def _encrypt(
        self, author: UserKey, bound_to: str, text: str | bytes, digested: str = ""
    ) -> Sealed:
        for _ in range(LOADS_MAX):
            sealed = self._encrypt_nowait(author, bound_to, text, digested)
            if sealed is not None:
                return sealed
            await self._keys.load_current(author)
        raise StoreUnavailable(TOO_SLOW)

    def may_write(self, author: UserKey, sealed: Sealed) -> bool:
        """Return True if encrypted content may be written without encrypting it again."""
        return self.seals(author, sealed.box_key)

    def _encrypt_nowait(
        self, author: UserKey, bound_to: str, text: str | bytes, digested: str
    ) -> Sealed | None:
        cached = self._keys.to_seal(author)
        if cached is None:
            return None
        assert cached.cipher is not None, "a key without a cipher does not seal"
        if not self._nonces:
            self._draw_nonces()
        nonce = self._nonces.pop()
        plain = text if isinstance(text, bytes) else text.encode()
        box = cached.cipher.encrypt(nonce, plain, bound_to.encode())
        digest = send_digest(cached, digested) if digested else b""
        return Sealed(nonce + box, cached.generation, digest)

    def _draw_nonces(self) -> None:
        block = self._chance.token(NONCE_BYTES * _NONCES_DRAWN)
        self._nonces = [block[at : at + NONCE_BYTES] for at in range(0, len(block), NONCE_BYTES)]

    # --- Opening --------------------------------------------------------------------------

    async def open(self, entries: Iterable[Entry], now: int, *, for_good: bool = False) -> None:
        """Decrypt the messages among the entries, and the messages that edits show.

        The text is stored in `content`. If the text is gone, `gone` is set to the reason instead.
        `for_good` says that the caller never looks at these messages again.

        Raises:
            StoreUnavailable: A data key cannot be loaded now, or, with `for_good`, unwrapped.
        """
        for entry in entries:
            message = entry if entry.kind == "message" else entry.shown
            if message is None:
                continue
            while not self._open_nowait(message, now, for_good):
                await self._keys.loaded(message.sender, message.box_key)

    def _open_nowait(self, entry: Entry, now: int, for_good: bool) -> bool:
        """Decrypt one message; return False if the author's data key has to be loaded first."""
        gone = _gone_without_key(entry, now)
        if gone is None:
            cached = self._keys.to_open(entry.sender)
            if cached is None or cached.generation < entry.box_key:
                return False
            if cached.cipher is not None and cached.generation == entry.box_key:
                gone = self._decrypt(entry, cached.cipher)
            elif for_good and cached.lacks_master_key(entry.box_key):
                raise StoreUnavailable(_NO_MASTER_KEY)
            else:
                gone = "erased"
        entry.gone = gone
        if gone is not None:
            entry.content = None
        return True

    def _decrypt(self, entry: Entry, cipher: AESGCM) -> Gone | None:
        assert entry.box is not None
        bound_to = f"{entry.sender}\0{entry.chat_id}\0{entry.client_message_id}"
        plain = self._decrypt_box(cipher, entry.box, bound_to)
        if plain is None:
            where = {"chat": entry.chat_id, "sequence": entry.sequence}
            log.critical(_TAMPERED, extra={"action": "content_tampered", **where})
            return "erased"
        entry.content = plain.decode()
        if entry.files is not None:
            box, where_bound = files_from_bytes(entry.files).box, f"{bound_to}\0files"
            entry.attachments = decode_files(self._decrypt_box(cipher, box, where_bound) or b"[]")
        return None

    async def erased(
        self, keys: Iterable[tuple[UserKey, int]], loads_max: int
    ) -> dict[tuple[UserKey, int], bool]:
        """Return for each data key, given by author and generation, whether it is destroyed.

        At most `loads_max` keys are loaded; keys that would need a further load are omitted. So are
        keys of generation 0, which means that it is unknown, and keys that cannot be unwrapped.

        Raises:
            StoreUnavailable: A data key cannot be loaded now.
        """
        erased = {}
        for author, generation in keys:
            cached = self._keys.to_open(author)
            if generation == 0 or cached is None or cached.generation < generation:
                if generation == 0 or loads_max == 0:
                    continue
                loads_max -= 1
                cached = await self._keys.loaded(author, generation)
            if cached.generation > generation:
                erased[author, generation] = True
            elif cached.unusable is None:
                erased[author, generation] = cached.cipher is None
        return erased

    async def open_text(self, author: UserKey, bound_to: str, sealed: Sealed) -> str | None:
        """Decrypt text that is not part of a chat; return None if it was erased or changed.

        Raises:
            StoreUnavailable: A data key cannot be loaded now.
        """
        plain = await self.open_bytes(author, bound_to, sealed)
        return None if plain is None else plain.decode()

    async def open_bytes(
        self, author: UserKey, bound_to: str, sealed: Sealed, *, for_good: bool = False
    ) -> bytes | None:
        """Decrypt bytes as `open_text` decrypts text; with `for_good`, raise as `open` does."""
        cached = await self._keys.loaded(author, sealed.box_key)
        if for_good and cached.lacks_master_key(sealed.box_key):
            raise StoreUnavailable(_NO_MASTER_KEY)
        if cached.cipher is None or cached.generation != sealed.box_key:
            return None
        plain = self._decrypt_box(cached.cipher, sealed.box, f"{author}\0{bound_to}")
        if plain is None:
            where = {"author": author, "bound_to": bound_to.replace("\0", " ")}
            log.critical(_TAMPERED, extra={"action": "content_tampered", **where})
        return plain

    def _decrypt_box(self, cipher: AESGCM, box: bytes, bound_to: str) -> bytes | None:
        try:
            return cipher.decrypt(box[:NONCE_BYTES], box[NONCE_BYTES:], bound_to.encode())
        except (InvalidTag, ValueError):
            self._changed_boxes += 1
            return None

    # --- Erasing and digests --------------------------------------------------------------

    async def erase(self, author: UserKey) -> int:
        """Destroy the author's data key, so that all content is erased; return 1, or 0 if there was
        none.

        If other processes may have cached the key, this takes a few seconds, because they must drop
        it first.

        Raises:
            StoreUnavailable: The outcome is unknown; the call is safe to repeat.
        """
        return await self._erasing.erase(author)

    def digest(self, *parts: str) -> bytes:
        """Return a keyed digest, which is the same for the same parts and does not reveal them."""
        keyed = self._keyed.copy()
        keyed.update("".join([f"{len(part)}:{part}" for part in parts]).encode())
        return keyed.digest()

    def digest_of_lines(self, part: str, lines: Sequence[str]) -> bytes:
        """Return the keyed digest of a part and many lines, without joining the lines in memory."""
        keyed = self._keyed.copy()
        chars = sum(map(len, lines)) + len(lines) - 1
        keyed.update(f"{len(part)}:{part}{chars}:".encode())
        for start in range(0, len(lines), LINES_AT_ONCE):
            before = "\n" if start else ""
            keyed.update((before + "\n".join(lines[start : start + LINES_AT_ONCE])).encode())
        return keyed.digest()


def _gone_without_key(entry: Entry, now: int) -> Gone | None:
    if entry.redacted:
        return "redacted"
    if entry.expires_at is not None and (entry.box is None or entry.expires_at <= now):
        return "expired"
    return "erased" if entry.box is None else None

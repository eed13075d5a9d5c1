# SPDX-License-Identifier: Apache-2.0
"""The format of a backup: its manifest, and the index of its pages.

A backup consists of files whose names begin with its id:

- `.pages`: the pages of the database that no earlier backup contains;
- `.index`: for each page of the database its digest, and where it is stored;
- `.keys`: the pages with the wrapped data keys of authors, which are in no other file;
- `.erasures`: the ledger of erasures;
- `.files`: for each part of a file of an attachment its digest; the parts are in `attachments`;
- `.backup`: the manifest, which names and digests the others. A backup exists if its manifest does.
"""

import hashlib
import struct
from collections.abc import Iterator
from typing import Final, Protocol

import msgspec

from tidings.stores.sqlite.backup.place import FILE_NAME, BackupPlace

FORMAT: Final = 1
MANIFEST: Final = ".backup"
PAGES: Final = ".pages"
INDEX: Final = ".index"
KEYS: Final = ".keys"
ERASURES: Final = ".erasures"
FILES: Final = ".files"

DIGEST_BYTES: Final = 16
KEY_PAGE: Final = 2**32 - 1
"""File number in the index that means the file of keys, instead of a file of pages."""
_RECORD: Final = struct.Struct("<16sII")
_NUMBER: Final = struct.Struct("<I")
_MANIFEST_BYTES_MAX: Final = 1024 * 1024
_PAGE_BYTES_MIN: Final = 512


class BackupDamaged(Exception):
    """A part of a backup is missing or was changed; the text names the part."""


class BackupPart(msgspec.Struct, frozen=True):
    """A file of one backup that is read as a whole."""

    name: str
    size: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Describes one backup."""

    format: int
    backup_id: str
    at: int
    """Time of the snapshot. The backup contains everything that was stored before."""
    version: str
    """Version of Tidings that made the backup."""
    schema: int
    epoch: str
    page_size: int
    pages: int
    chats: int
    entries: int
    heads: str
    """SHA-256 of the ids of all chats, each with the last sequence of its log."""
    packs: tuple[str, ...]
    """Files of pages, of this backup and of earlier ones. The index names a file by its position in
    this list."""
    index: BackupPart
    keys: BackupPart
    erasures: BackupPart
    new_bytes: int
    """Number of bytes that this backup added to the place."""
    files: BackupPart | None = None
    """The index of files; None in a backup without files."""
    file_parts: int = 0
    file_bytes: int = 0
    """Size of all parts of files, encrypted."""

    @property
    def parts(self) -> tuple[BackupPart, ...]:
        """The files of this backup that are read as a whole."""
        return (self.index, self.keys, self.erasures, *([self.files] if self.files else []))


class ManifestEnd(msgspec.Struct, frozen=True):
    """The last line of a manifest: the SHA-256 of the line before, and a MAC of that digest."""

    sha256: str
    master_key_id: str | None = None
    mac: str | None = None


class Proof(Protocol):
    """Signs manifests with the master key, and checks signatures."""

    def sign(self, sha256: str) -> tuple[str, str]:
        """Return the id of the master key, and its MAC of the digest."""
        ...

    def check(self, closing: ManifestEnd) -> None:
        """Raise an exception unless the manifest was signed with an available master key."""
        ...


class PageIndex:
    """For each page of a database, its digest and where it is stored."""

    def __init__(self, records: bytes | bytearray) -> None:
        self._records = bytearray(records)

    @classmethod
    def empty(cls, pages: int) -> "PageIndex":
        """Return an index in which no page has a place yet."""
        return cls(bytearray(pages * _RECORD.size))

    def __len__(self) -> int:
        return len(self._records) // _RECORD.size

    def __bytes__(self) -> bytes:
        return bytes(self._records)

    def __getitem__(self, page: int) -> tuple[bytes, int, int]:
        """Return the digest of a page, the number of its file, and its slot in that file."""
        digest, pack, slot = _RECORD.unpack_from(self._records, (page - 1) * _RECORD.size)
        return digest, pack, slot

    def put(self, page: int, digest: bytes, pack: int, slot: int) -> None:
        """Store the place of a page."""
        _RECORD.pack_into(self._records, (page - 1) * _RECORD.size, digest, pack, slot)

    def __iter__(self) -> Iterator[tuple[bytes, int, int]]:
        return _RECORD.iter_unpack(self._records)


def digest_of(page: bytes) -> bytes:
    """Return the digest that identifies the content of a page."""
    return hashlib.sha256(page).digest()[:DIGEST_BYTES]


def encode_manifest(manifest: Manifest, proof: Proof) -> bytes:
    """Return the text of a manifest with its signature."""
    line = msgspec.json.encode(manifest) + b"\n"
    sha256 = hashlib.sha256(line).hexdigest()
    key_id, mac = proof.sign(sha256)
    return line + msgspec.json.encode(ManifestEnd(sha256, key_id, mac)) + b"\n"


def read_manifest(place: BackupPlace, backup_id: str, proof: Proof | None) -> Manifest:
    """Read the manifest of a backup; its signature is checked only if `proof` is given.

    Raises:
        BackupDamaged: The manifest is missing, was changed, or has an unknown format.
    """
    name = backup_id + MANIFEST
    try:
        with place.open(name) as file:
            line, end, rest = file.read(_MANIFEST_BYTES_MAX).split(b"\n")
        closing = msgspec.json.decode(end, type=ManifestEnd)
        if rest or hashlib.sha256(line + b"\n").hexdigest() != closing.sha256:
            raise BackupDamaged(f"{name} was changed")
        manifest = msgspec.json.decode(line, type=Manifest)
    except (OSError, ValueError, msgspec.MsgspecError) as error:
        raise BackupDamaged(f"{name} cannot be read: {error}") from None
    if manifest.format != FORMAT:
        raise BackupDamaged(f"{name} has the format {manifest.format}, only {FORMAT} is known")
    _refuse_foreign(manifest, backup_id)
    if proof is not None:
        proof.check(closing)
    return manifest


def _refuse_foreign(manifest: Manifest, backup_id: str) -> None:
    """Refuse a manifest that belongs to another file, or names files outside of the place."""
    names = (*manifest.packs, *(part.name for part in manifest.parts))
    are_known = all(FILE_NAME.fullmatch(name) for name in names)
    if manifest.backup_id != backup_id or not are_known or manifest.page_size < _PAGE_BYTES_MIN:
        raise BackupDamaged(f"{backup_id}{MANIFEST} is not the manifest of this backup")


def backup_ids(place: BackupPlace) -> list[str]:
    """Return the ids of the backups in a place, oldest first."""
    return sorted(name.removesuffix(MANIFEST) for name in place.names() if name.endswith(MANIFEST))


def read_part(place: BackupPlace, part: BackupPart) -> bytes:
    """Return the content of a part.

    Raises:
        BackupDamaged: The part is missing or was changed.
    """
    try:
        with place.open(part.name) as file:
            content: bytes = file.read(part.size + 1)
    except OSError as error:
        raise BackupDamaged(f"{part.name} cannot be read: {error}") from None
    if len(content) != part.size or hashlib.sha256(content).hexdigest() != part.sha256:
        raise BackupDamaged(f"{part.name} was changed")
    return content


def read_index(place: BackupPlace, manifest: Manifest) -> PageIndex:
    """Return the index of a backup.

    Raises:
        BackupDamaged: The index is missing or was changed.
    """
    index = PageIndex(read_part(place, manifest.index))
    if len(index) != manifest.pages:
        raise BackupDamaged(f"{manifest.index.name} has {len(index)} pages")
    return index


def encode_keys(pages: dict[int, bytes]) -> bytes:
    """Return the content of the file of keys."""
    return b"".join(_NUMBER.pack(number) + page for number, page in sorted(pages.items()))


def decode_keys(content: bytes, page_size: int) -> Iterator[tuple[int, bytes]]:
    """Yield the pages in a file of keys with their numbers."""
    step = _NUMBER.size + page_size
    for start in range(0, len(content), step):
        (number,) = _NUMBER.unpack_from(content, start)
        yield number, content[start + _NUMBER.size : start + step]

"""Zip files with an archive inside, at their root or in a directory, read by ranges.

Facts are from PKWARE's APPNOTE.TXT 6.3.10. Python's zipfile reads the central directory, with zip64 and
comments; members are read here, so that many can be in progress at once: a stored one with one range, a
compressed one with a bound on what it unpacks to. If a name occurs twice, the last member counts, as for
zarr-python 2, which appends a chunk that it rewrites.
"""

from __future__ import annotations

import asyncio
import bz2
import lzma
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable
from functools import cached_property
from typing import Any, Final, NamedTuple

from zarrstack.core.errors import UsageError

from ..local.files import BadObjectError
from ..remote.store_storage import tree_of
from .container import archive_root
from .ranges import Ranges, SeekableFile

_TAIL: Final = 256 << 10
"""Bytes at the end that are read first: the end record with a comment of any length, and often the directory.
"""
_HEADER: Final = struct.Struct("<4s5H3I2H")
"""Local file header (4.3.7): signature, version, flags, method, time, date, CRC-32, sizes, and the lengths of
name and extra field.
"""
_EXTRA: Final = 128
"""Bytes expected at most in the extra field of a local header; a longer one costs a second request."""
_ENCRYPTED: Final = 0x1
_SIZES_FOLLOW: Final = 0x8
_UTF8: Final = 0x800
"""Flags (4.4.4)."""
_PIECE: Final = 4 << 20
"""Compressed bytes of a part of a member that are in memory at a time."""
_IN_THREAD: Final = 256 << 10
"""Compressed bytes from which a member is inflated in a thread, so that others are requested meanwhile."""


class Member(NamedTuple):
    """Where the bytes of a member are."""

    start: int
    """Offset of its local header in the file."""
    stored: int
    """Bytes in the file."""
    size: int
    """Bytes after decompression."""
    method: int
    """Compression method (4.4.5)."""
    crc: int
    """CRC-32."""

    @property
    def version(self) -> str:
        """A text that is different if the member is rewritten."""
        return f"{self.crc:08x}"


def load(ranges: Ranges) -> ZipMembers:
    """The members of a zip file; UsageError if it is none, or has members that cannot be read.

    From any thread but the loop's.
    """
    file: Any = SeekableFile(ranges)
    file.keep(ranges.size - _TAIL)
    try:
        with zipfile.ZipFile(file) as archive:
            items = {item.filename: item for item in archive.infolist()}  # the last one of each name
    except NotImplementedError as error:
        raise UsageError("the zip file needs a newer program", found=f"{ranges.shown}: {error}") from error
    except (zipfile.BadZipFile, struct.error, OSError, ValueError, OverflowError) as error:
        from ..not_an_archive import not_a_container

        raise not_a_container(ranges.shown, ranges.read_now(0, 4096)) from error
    _refuse_unreadable([*items.values()], ranges.shown)
    members, directories = {}, []
    for name, item in items.items():
        key = _clean_name(name)
        if key.endswith("/") or not key:
            directories.append(key.rstrip("/"))
        else:
            members[key] = Member(
                item.header_offset, item.compress_size, item.file_size, item.compress_type, item.CRC
            )
    return ZipMembers(members, directories)


def _refuse_unreadable(items: list[zipfile.ZipInfo], shown: str) -> None:
    encrypted = [item.filename for item in items if item.flag_bits & _ENCRYPTED]
    if encrypted:
        raise UsageError(
            "the zip file has encrypted members",
            found=f"{len(encrypted)} of {len(items)} members of {shown}, the first is {encrypted[0][:200]}",
            advice="Unpack it with its password, and give the directory.",
        )
    others = Counter(item.compress_type for item in items if item.compress_type not in _INFLATERS)
    if others:
        named = ", ".join(f"{method}" for method in others)
        raise UsageError(
            "the zip file has members of a compression that cannot be read in parts",
            found=f"method {named} in {others.total()} of {len(items)} members of {shown}",
            expected="stored, deflate, bzip2 or lzma",
            advice="Unpack it with the program that packed it, and give the directory.",
        )


def _clean_name(name: str) -> str:
    """The key of a member with this name; UsageError for one that leaves the archive."""
    while name.startswith("./"):
        name = name[2:].lstrip("/")
    if name.startswith("/") or ".." in name and ".." in name.split("/"):
        raise UsageError(
            "the zip file has a member whose name leads out of it",
            found=repr(name[:200]),
            advice="Unpack it with a program that refuses or repairs such names, and check what it makes.",
        )
    return name


class ZipMembers:
    """The members of one version of a zip file."""

    def __init__(self, members: dict[str, Member], directories: list[str]) -> None:
        """`directories` are those with entries of their own."""
        self._members = members
        self._directories = tuple(directories)
        self._data: dict[str, int] = {}
        """Where the bytes of members begin of which parts are read."""

    def get(self, key: str) -> Member | None:
        """What is known of a member; None if there is none."""
        return self._members.get(key)

    @cached_property
    def keys(self) -> list[str]:
        """The keys of all members, sorted."""
        return sorted(self._members)

    @cached_property
    def tree(self) -> dict[str, dict[str, bool]]:
        """Directory -> its names -> whether each is a directory; "" is the root."""
        return tree_of([*(f"{name}/" for name in self._directories), *self._members])

    def archive_root(self) -> str:
        """The directory that is the archive: the root, or a single directory in it."""
        return archive_root(lambda directory: self.tree.get(directory, {}))

    async def read(self, ranges: Ranges, key: str, member: Member, start: int, stop: int) -> bytes:
        """Bytes of a member of the file, in the storage's loop; BadObjectError if they are damaged.

        One request, and a second one after a long local header, or for the first part of a member.
        """
        whole = (start, stop) == (0, member.size)
        if member.method == zipfile.ZIP_STORED and member.stored != member.size:
            raise _damaged(
                key, f"{member.stored} stored bytes of a member of {member.size} that is not compressed"
            )
        if member.method == zipfile.ZIP_STORED and not whole:
            at = await self._begin(ranges, key, member)
            return await ranges.exactly(at + start, stop - start)
        first = await ranges.read(member.start, self._front(key) + min(member.stored, _PIECE))
        at = self._checked(ranges, key, member, first)
        held = first[at - member.start :]
        if member.method == zipfile.ZIP_STORED:
            data = held[: member.stored]
            if len(data) < member.stored:
                data += await ranges.exactly(at + len(data), member.stored - len(data))
            _check(key, member, data)
            return data
        return await self._inflated(ranges, key, member, at, held, start, stop)

    async def _begin(self, ranges: Ranges, key: str, member: Member) -> int:
        at = self._data.get(key)
        if at is None:
            first = await ranges.read(member.start, self._front(key))
            at = self._data[key] = self._checked(ranges, key, member, first)
        return at

    @staticmethod
    def _front(key: str) -> int:
        return _HEADER.size + len(key.encode("utf-8", "surrogateescape")) + _EXTRA

    def _checked(self, ranges: Ranges, key: str, member: Member, first: bytes) -> int:
        """The offset of a member's bytes, after its local header has been compared with the directory."""
        if len(first) < _HEADER.size:
            raise _damaged(key, f"the file ends at the member's header, at {member.start}")
        name: int
        extra: int
        signature, _, flags, method, _, _, crc, _, _, name, extra = _HEADER.unpack_from(first)
        if signature != b"PK\3\4":
            raise _damaged(key, f"no member begins at {member.start}")
        raw = first[_HEADER.size : _HEADER.size + name]
        text = raw.decode("utf-8", "replace").partition("\0")[0]
        # Of names in older encodings, the directory may have another form (4.6.9).
        if len(raw) == name and (flags & _UTF8 or raw.isascii()) and _clean_name(text) != key:
            raise _damaged(key, f"the member at {member.start} is {text[:200]!r}")
        if method != member.method or (not flags & _SIZES_FOLLOW and crc != member.crc):
            raise _damaged(key, "the member's header and the directory of the zip file differ")
        at = member.start + _HEADER.size + name + extra
        if at + member.stored > ranges.size:
            raise _damaged(key, f"{member.stored} bytes at {at} of a file of {ranges.size}")
        return at

    async def _inflated(
        self, ranges: Ranges, key: str, member: Member, at: int, held: bytes, start: int, stop: int
    ) -> bytes:
        """Bytes of a compressed member, inflated from its start on; no more than `stop` bytes are made."""
        inflater = _INFLATERS[member.method]
        unpack = inflater(member)
        held = held[: member.stored]
        consumed, unpacked, parts = 0, 0, []
        whole = (start, stop) == (0, member.size)
        while unpacked < stop or whole:
            piece = held or await ranges.exactly(at + consumed, min(_PIECE, member.stored - consumed))
            held = b""
            consumed += len(piece)
            last = consumed >= member.stored
            most = stop - unpacked + (1 if whole else 0)
            try:
                if len(piece) > _IN_THREAD:
                    data = await asyncio.to_thread(unpack, piece, most)
                else:
                    data = unpack(piece, most)
            except (zlib.error, OSError, lzma.LZMAError, EOFError, ValueError) as error:
                raise _damaged(key, f"{type(error).__name__}: {error}") from error
            parts.append(data[max(start - unpacked, 0) :])
            unpacked += len(data)
            if unpacked > stop:
                raise _damaged(key, f"it unpacks to more than the {member.size} bytes of its entry")
            if last:
                break
        content = b"".join(parts)
        if unpacked < stop:
            raise _damaged(key, f"it unpacks to {unpacked} of {member.size} bytes")
        if whole:
            _check(key, member, content)
        return content


def _check(key: str, member: Member, data: bytes) -> None:
    if len(data) != member.size or zlib.crc32(data) != member.crc:
        raise _damaged(key, "its checksum (CRC-32) is wrong")


def _damaged(key: str, found: str) -> BadObjectError:
    return BadObjectError(
        "a member of the zip file is damaged",
        key=key,
        found=found,
        advice="Copy the file again; if it was changed meanwhile, start again.",
    )


_Unpack = Callable[[bytes, int], bytes]
"""Unpack the next compressed bytes to at most as many as given."""


def _deflate(_: Member) -> _Unpack:
    unpacking = zlib.decompressobj(-zlib.MAX_WBITS)

    def unpack(piece: bytes, most: int) -> bytes:
        return unpacking.decompress(unpacking.unconsumed_tail + piece, max(most, 1)) if most else b""

    return unpack


def _bzip2(_: Member) -> _Unpack:
    unpacking = bz2.BZ2Decompressor()
    return lambda piece, most: b"" if unpacking.eof else unpacking.decompress(piece, most)


def _lzma(member: Member) -> _Unpack:
    """5.8.8: version and length of the properties, two bytes each; then properties as in the LZMA SDK."""
    unpacking: lzma.LZMADecompressor | None = None
    head = b""

    def unpack(piece: bytes, most: int) -> bytes:
        nonlocal unpacking, head
        if unpacking is None:
            head += piece
            if len(head) < 9:
                return b""
            length, packed, dictionary = struct.unpack_from("<2xHBI", head)
            if length != 5:
                raise ValueError(f"{length} bytes of LZMA properties")
            lc, rest = packed % 9, packed // 9
            unpacking = lzma.LZMADecompressor(
                lzma.FORMAT_RAW,
                filters=[
                    {
                        "id": lzma.FILTER_LZMA1,
                        # No distance exceeds the size of the member, whatever the header states.
                        "dict_size": max(min(dictionary, member.size), 4096),
                        "lc": lc,
                        "lp": rest % 5,
                        "pb": rest // 5,
                    }
                ],
            )
            piece, head = head[9:], b""
        return b"" if unpacking.eof else unpacking.decompress(piece, most)

    return unpack


def _stored(_: Member) -> _Unpack:
    return lambda piece, most: piece[:most]


_INFLATERS: Final[dict[int, Callable[[Member], _Unpack]]] = {
    zipfile.ZIP_STORED: _stored,
    zipfile.ZIP_DEFLATED: _deflate,
    zipfile.ZIP_BZIP2: _bzip2,
    zipfile.ZIP_LZMA: _lzma,
}
"""Compression methods (4.4.5) that are unpacked with a bound."""

"""Tar files with an archive inside, read by ranges. Compressed ones are refused: they have no random access.

Facts are from POSIX.1-2017 (pax, "ustar Interchange Format" and "pax Interchange Format") and GNU tar's
manual ("Basic Tar Format"). Python's tarfile reads the headers, with pax records and GNU's long names. A tar
file has no directory: every header is read, one after the other, before anything else.
"""

from __future__ import annotations

import tarfile
from typing import Any, Final

from zarrstack.core.errors import StorageError, UsageError, ZarrstackError

from .members import Member, Members, clean_name
from .ranges import Ranges, SeekableFile

_BLOCK: Final = 512
_MAX_HEADER: Final = 16 << 20
"""Maximum number of bytes of a long name or of pax records."""
_UNPACK: Final = "Unpack it with tar, and give the directory."


def load(ranges: Ranges) -> Members:
    """The members of a tar file; UsageError or StorageError if it cannot be read as a whole."""
    file: Any = SeekableFile(ranges, most=_MAX_HEADER)
    members: dict[str, Member] = {}
    directories: list[str] = []
    links: dict[str, str] = {}
    before = 0
    try:
        with tarfile.TarFile(fileobj=file, mode="r", ignore_zeros=False) as archive:
            while (item := archive.next()) is not None:
                archive.members = []  # type: ignore[attr-defined] # of millions, only what follows is kept
                if item.offset < before:
                    raise _cut(ranges, f"{item.name} has a negative size")
                before = item.offset + _BLOCK
                _add(item, members, directories, links, ranges)
            end = archive.offset
    except ZarrstackError:
        raise
    except (tarfile.TarError, ValueError, OSError, OverflowError, RecursionError) as error:
        raise _cut(ranges, f"{error}") from error
    # tarfile takes a damaged header for the end.
    if ranges.read_now(end, _BLOCK) != bytes(_BLOCK):
        raise _cut(ranges, f"neither a header nor the end at {end} of {ranges.size} bytes")
    _refuse_links(links, ranges)
    return TarMembers(ranges.state, members, directories)


def _add(
    item: tarfile.TarInfo,
    members: dict[str, Member],
    directories: list[str],
    links: dict[str, str],
    ranges: Ranges,
) -> None:
    name = clean_name(item.name, "the tar file").rstrip("/")
    name = "" if name == "." else name
    if item.isdir():
        directories.append(name)
        return
    # The last member of a name counts, as when it is unpacked.
    links.pop(name, None)
    before = members.pop(name, None)
    if item.issparse():
        raise UsageError(
            "the tar file has a sparse member", found=f"{name} in {ranges.shown}", advice=_UNPACK
        )
    if item.islnk():
        target = clean_name(item.linkname, "the tar file")
        same = before if target == name else members.get(target)
        if same is None:
            raise UsageError(
                "a hard link in the tar file leads to a member that is not before it",
                found=f"{name} -> {target} in {ranges.shown}",
                advice=_UNPACK,
            )
        members[name] = same
    elif item.isreg():
        if item.offset_data + item.size > ranges.size:
            raise _cut(ranges, f"{name} ends at {item.offset_data + item.size} of {ranges.size} bytes")
        members[name] = Member(item.offset_data, item.size, item.size)
    else:
        links[name] = f"a symbolic link to {item.linkname}" if item.issym() else "a device or a pipe"


def _refuse_links(links: dict[str, str], ranges: Ranges) -> None:
    if links:
        name, what = next(iter(links.items()))
        raise UsageError(
            "the tar file has members that are neither files nor directories",
            found=f"{len(links)} in {ranges.shown}; {name} is {what}",
            advice="Unpack it, and give the directory, or pack it again with tar --dereference.",
        )


def _cut(ranges: Ranges, found: str) -> StorageError:
    return StorageError(
        "the tar file is cut short or damaged", found=f"{found} in {ranges.shown}", advice="Copy it again."
    )


class TarMembers(Members):
    """The members of a tar file."""

    called = "the tar file"

    def version(self, member: Member) -> str:
        """The version of the file, since a tar file has no checksums of contents."""
        return f"{self.state} {member.start}"

    async def read(self, ranges: Ranges, key: str, member: Member, start: int, stop: int) -> bytes:
        return await ranges.exactly(member.start + start, stop - start)

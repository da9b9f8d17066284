"""Copies many small files unchanged, with a minimum of system calls per file.

Large or unusual files are passed to `LocalWriter.copy`, which handles all cases and reports errors.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, TypeAlias

from zarrstack.core.codecs.base import Ends
from zarrstack.core.errors import ZarrstackError

from ..storage.listed_versions import Version
from ..storage.local.file_copy import IN_ONE_READ
from ..storage.local.files import CREATING, READING
from ..storage.local.storage import LocalStorage
from ..storage.local.writer import LocalWriter
from ..storage.writer import DestinationError, Look

if TYPE_CHECKING:
    from .counts import Counts

Name: TypeAlias = tuple[str, str, Version | None]
"""(source key, destination key, expected version of the file)."""
_MORE: Final = 1024
"""Maximum expected growth from one file to the next in bytes; a single read then suffices."""


def copy_files(
    names: Iterable[Name], source: LocalStorage, writer: LocalWriter, look: Look, counts: Counts
) -> None:
    """Copy files after `look` has checked each; raises DestinationError.

    The keys are generated and stay within the root. Problems of single files are recorded in `counts`.
    """
    # Attribute lookups matter: with files of 4 KB the interpreter takes as long as the kernel.
    open_, read, write, close, replace = os.open, os.read, os.write, os.close, os.replace
    facts_of = os.fstat
    check, check_whole, ends = look.check, look.check_whole, Ends.of
    # Keys are appended unchanged: Windows accepts both separators.
    root, target_root = source.path("") + "/", writer.storage.path("") + "/"
    temporary, parent = writer.temporary(), ""
    hint = _MORE
    copied = total = 0
    for name in names:
        before, after, version = name
        if hint > IN_ONE_READ:  # the last one was large, so this one probably is
            hint = _one_by_one(name, source, writer, look, counts)
            continue
        try:
            reading = open_(root + before, READING)
        except OSError:
            hint = _one_by_one(name, source, writer, look, counts)
            continue
        try:
            data = read(reading, hint)
            # Checked after the read, which reveals a write in between.
            changed = version is not None and facts_of(reading).st_mtime_ns != version[1]
        except OSError:
            data = b""
        finally:
            close(reading)
        size = len(data)
        if not 0 < size < hint or changed:
            # Longer than expected; or empty, or another version, which `writer` decides.
            hint = _one_by_one(name, source, writer, look, counts)
            continue
        hint = size + _MORE
        try:
            if not check(ends(data)):
                check_whole(data)
        except (ZarrstackError, MemoryError) as error:
            counts.failed(error, before)
            continue
        target = target_root + after
        directory = target[: target.rindex("/")]
        try:
            if directory != parent:
                writer.make_directory(directory)
                parent = directory
            writing = open_(temporary, CREATING, 0o666)
            try:
                written = write(writing, data)
            finally:
                close(writing)
            if written == size:
                replace(temporary, target)
                copied += 1
                total += size
                continue
        except OSError as error:
            raise writer.failed(temporary, after, error) from error
        writer.write(after, data)  # a partial write, from a nearly full disk; this reports it
        copied += 1
        total += size
    counts.add_many(copied, total)


def _one_by_one(name: Name, source: LocalStorage, writer: LocalWriter, look: Look, counts: Counts) -> int:
    """Copy any file; returns the expected maximum size of the next one."""
    held = counts.bytes_in
    carry_files([name], source, writer.copy, look, counts)
    return counts.bytes_in - held + _MORE


def carry_files(
    names: Iterable[Name],
    source: LocalStorage,
    carry: Callable[[str, str, Look, Version | None], int | None],
    look: Look,
    counts: Counts,
) -> None:
    """Like `copy_files`, by a method of the writer: `LocalWriter.copy` or `LocalWriter.link`."""
    root = source.path("") + os.sep
    for before, after, version in names:
        try:
            size = carry(root + before, after, look, version)
        except DestinationError:
            raise
        except (ZarrstackError, OSError, MemoryError) as error:
            counts.failed(error, before)
            continue
        if size is None:
            counts.missing(before)
        else:
            counts.add(size, size)

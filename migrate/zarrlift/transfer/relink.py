"""Files that move as they are, many and small: as few calls per file as it takes.

Where one is large, or something about it is odd, `LocalWriter.copy` takes over, which can do all that
this can, and says what is wrong.
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
"""(source key, destination key, what the file has to be)."""
_MORE: Final = 1024
"""How much larger than the last one a file is expected to be at most; one read is enough then."""


def copy_files(
    names: Iterable[Name], source: LocalStorage, writer: LocalWriter, look: Look, counts: Counts
) -> None:
    """Copy files after `look` has seen each; raises DestinationError.

    The keys are ours and lead out of no root. What is wrong with one file is told to `counts`.
    """
    # Every lookup counts: with files of 4 KB the interpreter takes as long as the kernel.
    open_, read, write, close, replace = os.open, os.read, os.write, os.close, os.replace
    facts_of = os.fstat
    check, check_whole, ends = look.check, look.check_whole, Ends.of
    # Keys are joined as they are: Windows takes both separators.
    root, target_root = source.path("") + "/", writer.storage.path("") + "/"
    temporary, parent = writer.temporary(), ""
    hint = _MORE
    copied = total = 0
    for name in names:
        before, after, version = name
        if hint > IN_ONE_READ:  # the last one was large, and so will this one be
            hint = _one_by_one(name, source, writer, look, counts)
            continue
        try:
            reading = open_(root + before, READING)
        except OSError:
            hint = _one_by_one(name, source, writer, look, counts)
            continue
        try:
            data = read(reading, hint)
            # Asked after the reading: a file that is written in between says so.
            changed = version is not None and facts_of(reading).st_mtime_ns != version[1]
        except OSError:
            data = b""
        finally:
            close(reading)
        size = len(data)
        if not 0 < size < hint or changed:
            # Longer than was thought; or nothing, or another version, which `writer` judges.
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
        writer.write(after, data)  # a nearly full disk took a part; it will say so
        copied += 1
        total += size
    counts.add_many(copied, total)


def _one_by_one(name: Name, source: LocalStorage, writer: LocalWriter, look: Look, counts: Counts) -> int:
    """Copy one file whatever it is; gives what the next one is expected to hold at most."""
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
    """As `copy_files`, by a method of the writer's: `LocalWriter.copy` or `LocalWriter.link`."""
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

"""A job file that is not where it was when it recorded its places: it was moved, or it is a copy.

The places of a job are absolute paths. A job file that was copied together with its archives would otherwise
act on the originals, and its id does not tell the two apart.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias
from urllib.parse import quote, unquote, urlsplit

from ...errors import JobError
from ...storage.open_storage import is_url
from .database import SQLITE, require_file
from .home import Home
from .read_only import read_only
from .rows import as_text

if TYPE_CHECKING:
    from .ledger import Job
    from .stored_file import JobPath

Left: TypeAlias = Literal["gone", "there", "another", "unknown"]
"""What is at the recorded path. `gone`: nothing. `there`: the same job, so this is a copy. `another`:
something else. `unknown`: it cannot be read, or its file system is not mounted.
"""
_KEPT_COPY: Final = "zarrlift-job-"
"""Prefix of the folder with the copy of a job file whose upload failed, with which the job is continued."""
_FILE_URL: Final = re.compile(r"(?P<scheme>file|local)://(?P<path>/[^:]*)")
_CHAINED: Final = re.compile(r"(?P<head>(?:zip|tar)::)(?P<place>.+)", re.DOTALL)
_ICECHUNK: Final = re.compile(
    r"(?P<head>icechunk(?:\+file)?://)(?P<path>/[^?]*)(?P<version>\?.*)?", re.DOTALL
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A file that is not where it recorded its places."""

    home: Home
    path: str
    """Its present path, with links resolved."""
    left: Left
    """What is at the recorded path."""
    others: frozenset[str]
    """Places of another job that is there now."""

    def relative(self, place: str) -> str | None:
        """The place that is to the present path what `place` is to the recorded one; None for a URL."""
        local = local_path(place)
        if local is None or is_url(self.home.path) or is_url(self.path):
            return None
        folder, name = os.path.split(local)
        below = os.path.relpath(os.path.join(os.path.realpath(folder), name), os.path.dirname(self.home.path))
        return with_local_path(place, os.path.normpath(os.path.join(os.path.dirname(self.path), below)))


def move_of(job: Job) -> Move | None:
    """The move of an open job; None if its file is where it was, or if it has not recorded where."""
    home = job.fact("home")
    if home is None:
        return None
    recorded, present = Home.from_text(home), Home.of(job.path)
    if recorded.is_at(present.path):
        return None
    left, others = _left(recorded, job.path, job.id)
    return Move(home=recorded, path=present.path, left=left, others=others)


def local_path(place: str) -> str | None:
    """The local path of a recorded place; None for a place in a store."""
    if (chained := _CHAINED.fullmatch(place)) is not None:
        return local_path(chained["place"])
    if (repository := _ICECHUNK.fullmatch(place)) is not None:
        return repository["path"]
    if _FILE_URL.fullmatch(place):
        return unquote(urlsplit(place).path)
    return place if os.path.isabs(place) and not is_url(place) else None


def with_local_path(place: str, path: str) -> str:
    """The same kind of place at another local path."""
    if (chained := _CHAINED.fullmatch(place)) is not None:
        return chained["head"] + with_local_path(chained["place"], path)
    if (repository := _ICECHUNK.fullmatch(place)) is not None:
        return f"{repository['head']}{path}{repository['version'] or ''}"
    if (url := _FILE_URL.fullmatch(place)) is not None:
        return f"{url['scheme']}://{quote(path)}"
    return path


def _left(home: Home, path: JobPath, id: str) -> tuple[Left, frozenset[str]]:
    """What is at the recorded path, and the places of another job that is there."""
    if is_url(home.path):
        return _left_in_store(home, path, id), frozenset()
    try:
        os.lstat(home.path)
    except (FileNotFoundError, NotADirectoryError):
        return ("gone" if os.path.ismount(home.mount) else "unknown"), frozenset()
    except OSError:
        return "unknown", frozenset()
    try:
        identity = _Identity.read(home.path)
    except (JobError, sqlite3.Error, OSError, ValueError):
        return "unknown", frozenset()
    if identity.id == id:
        return "there", frozenset()
    return "another", identity.places


def _left_in_store(home: Home, path: JobPath, id: str) -> Left:
    if isinstance(path, Path):
        # A copy on disk of an object: the options of its store are not known here.
        return "gone" if path.parent.name.startswith(_KEPT_COPY) else "unknown"
    from .stored_file import StoredFile  # it imports asyncio

    old = StoredFile(home.path, path.options)
    if not old.fetch():
        return "gone"
    return "there" if _Identity.read(os.fspath(old)).id == id else "another"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Identity:
    """What a file is, read without opening it as a job."""

    id: str | None = None
    """None for what is not a job."""
    places: frozenset[str] = frozenset()
    """Its sources and destinations."""

    @classmethod
    def read(cls, path: str) -> _Identity:
        """Read a file; sqlite3.Error, OSError, ValueError or JobError if that fails."""
        if os.path.isdir(path):
            return cls()
        require_file(Path(path))
        with open(path, "rb") as file:
            if file.read(len(SQLITE)) != SQLITE:
                return cls()
        with read_only(Path(path)) as db:
            tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
            if "meta" not in tables:
                return cls()
            facts = {name: as_text(value) for name, value in db.execute("SELECT name, value FROM meta")}
            header = json.loads(facts.get("plan", "{}"))
            recorded = [header.get("source"), header.get("destination"), facts.get("source_place")]
        places = frozenset(place for place in recorded if place)
        return cls(id=facts.get("id"), places=places)

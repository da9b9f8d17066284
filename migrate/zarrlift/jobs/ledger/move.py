"""A job file that is not where it was when it recorded its places: it was moved, or it is a copy.

The places of a job are absolute paths. A job file that was copied together with its archives would otherwise
act on the originals, and its id does not tell the two apart. The places are therefore settled before anything
is read or written there. A place may be where the job recorded it, or where it is relative to the present job
file:

- only relative to the job file: it was moved or copied together with it, and is used;
- only where it was recorded: it is used if the job file was moved; a copy of the job file is refused, because
  another job file describes that place;
- at both: which one is meant cannot be known, and the user has to name it.

What exists at a place that cannot be examined is not known, so it counts as existing.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias
from urllib.parse import quote, unquote, urlsplit

from ...errors import JobError
from ...recipe.options import Moved, values
from ...storage.open_storage import Place, is_url
from ...storage.redact import redact
from ..units import command
from .database import SQLITE, Home, require_file
from .ledger import Job
from .read_only import read_only
from .rows import as_text

Left: TypeAlias = Literal["gone", "there", "another", "unknown"]
"""What is at the recorded path. `gone`: nothing. `there`: the same job, so this is a copy. `another`:
something else. `unknown`: it cannot be read, or its file system is not mounted.
"""
_FILE_URL: Final = re.compile(r"(?P<scheme>file|local)://(?P<path>/[^:]*)")
_CHAINED: Final = re.compile(r"(?P<head>(?:zip|tar)::)(?P<place>.+)", re.DOTALL)
_ICECHUNK: Final = re.compile(r"icechunk://(?P<path>/.*)", re.DOTALL)


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
        if local is None:
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
    left, others = _left(recorded, job.id)
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
    if _ICECHUNK.fullmatch(place):
        return f"icechunk://{path}"
    if (url := _FILE_URL.fullmatch(place)) is not None:
        return f"{url['scheme']}://{quote(path)}"
    return path


def _left(home: Home, id: str) -> tuple[Left, frozenset[str]]:
    """What is at the recorded path, and the places of another job that is there."""
    try:
        os.lstat(home.path)
    except (FileNotFoundError, NotADirectoryError):
        return ("gone" if os.path.ismount(home.mount) else "unknown"), frozenset()
    except OSError:
        return "unknown", frozenset()
    try:
        identity, places = _identity(home.path)
    except (JobError, sqlite3.Error, OSError, ValueError):
        return "unknown", frozenset()
    return ("there", frozenset()) if identity == id else ("another", places)


def _identity(path: str) -> tuple[str | None, frozenset[str]]:
    """The id and the places of the job in a file, read without opening it as one; None for no job.

    sqlite3.Error, OSError, ValueError or JobError if that fails.
    """
    if os.path.isdir(path):
        return None, frozenset()
    require_file(Path(path))
    with open(path, "rb") as file:
        if file.read(len(SQLITE)) != SQLITE:
            return None, frozenset()
    with read_only(Path(path)) as db:
        tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
        if "meta" not in tables:
            return None, frozenset()
        facts = {name: as_text(value) for name, value in db.execute("SELECT name, value FROM meta")}
    header = json.loads(facts.get("plan", "{}"))
    recorded = (header.get("source"), header.get("destination"), facts.get("source_place"))
    return facts.get("id"), frozenset(place for place in recorded if place)


Finding: TypeAlias = Literal["relative", "recorded", "neither", "both", "copy", "taken", "unknown"]
"""`relative` and `recorded`: the place to use. `neither`: nothing exists. The others are refused. `copy`:
another job file describes it. `taken`: a later job has it. `unknown`: it cannot be known whether this is a
copy.
"""
_USED: Final = ("relative", "recorded")
_OPTIONS: Final = {"source": "--source", "destination": "--destination"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledPlaces:
    """The places of a job as they are now."""

    source: Place
    destination: Place
    """In place, the source."""
    source_url: str
    """The source as the plan names it."""
    have_moved: bool = False
    """Whether one of them was moved together with the job file."""

    @property
    def names(self) -> tuple[str, ...]:
        """Texts that name them."""
        places = (self.source, self.destination, self.source_url)
        return tuple(os.fspath(place) for place in places if isinstance(place, str | os.PathLike))

    def are(self, source_url: str, destination_url: str) -> bool:
        """Whether these are the opened places with these URLs."""
        destination = self.source_url if self.destination == self.source else self.destination
        pairs = ((self.source_url, source_url), (destination, destination_url))
        if not self.have_moved:
            return all(one == other for one, other in pairs)
        return all(one == other or is_same_place(str(one), other) for one, other in pairs)


def settled(
    job: Job,
    moved: Moved = Moved(),  # noqa: B008 - frozen
    *,
    writes: bool = True,
    reads_source: bool = True,
) -> SettledPlaces:
    """The places of a job; JobError if its file was moved or copied and they cannot be known.

    Those that the user says have moved are settled. `writes`: whether the command
    changes the result; `reads_source`: whether it reads the source of a copy.
    """
    header = job.header
    recorded = {"source": job.fact("source_place") or header["source"], "destination": header["destination"]}
    moves = values(moved, Moved)
    move = move_of(job)
    if header["in_place"]:
        recorded["destination"], moves["destination"] = recorded["source"], moved.source
    places = {role: place if moves[role] is None else moves[role] for role, place in recorded.items()}
    if move is None:
        return SettledPlaces(**places, source_url=header["source"])
    roles = ["source"] if header["in_place"] else ["source", "destination"]
    open_roles = [role for role in roles if moves[role] is None]
    changes = {role: writes and (role == "destination" or header["in_place"]) for role in roles}
    findings = {role: _finding(move, recorded[role], changes=changes[role]) for role in open_roles}
    findings = _resolved(move, findings, changes)
    if not reads_source and findings.get("source") == "both" and findings.get("destination") in _USED:
        findings["source"] = "relative"
    for role, finding in findings.items():
        if finding == "relative":
            places[role] = move.relative(recorded[role])
    refused = [role for role, finding in findings.items() if finding not in _USED]
    if refused:
        raise _refusal(job, move, recorded, {role: findings[role] for role in refused})
    if header["in_place"]:
        places["destination"] = places["source"]
    source_url = header["source"]
    if findings.get("source") == "relative":
        source_url = move.relative(source_url) or source_url
    return SettledPlaces(**places, source_url=source_url, have_moved="relative" in findings.values())


def _resolved(move: Move, findings: dict[str, Finding], changes: dict[str, bool]) -> dict[str, Finding]:
    """Findings with a decision for places at which nothing exists: a result follows its source."""
    moved = {role for role, finding in findings.items() if finding == "relative"}
    absent = [role for role, finding in findings.items() if finding == "neither"]
    return findings | {
        role: "relative" if moved and changes[role] else _at_recorded(move, changes=changes[role])
        for role in absent
    }


def _finding(move: Move, place: str, *, changes: bool) -> Finding:
    """What is known of a recorded place after a move; `changes`: whether it will be changed."""
    relative = move.relative(place)
    if relative is None or is_same_place(relative, place):
        return "taken" if changes and place in move.others else _at_recorded(move, changes=changes)
    relative_exists, recorded_exists = _exists(relative), _exists(place)
    if recorded_exists and place in move.others:
        return "relative" if relative_exists else "taken" if changes else "recorded"
    if relative_exists:
        return "both" if recorded_exists else "relative"
    return _at_recorded(move, changes=changes) if recorded_exists else "neither"


def _at_recorded(move: Move, *, changes: bool) -> Finding:
    if not changes or move.left in ("gone", "another"):
        return "recorded"
    return "copy" if move.left == "there" else "unknown"


def _exists(place: str) -> bool:
    """Whether anything is at a place, in a container too; True if that cannot be examined."""
    path = local_path(place)
    assert path is not None
    while True:
        try:
            os.lstat(path)
        except NotADirectoryError:
            path = os.path.dirname(path)  # perhaps an archive in a file
            if os.path.isfile(path):
                return True
        except FileNotFoundError:
            return False
        except OSError:
            return True
        else:
            return True


def is_same_place(one: str, other: str) -> bool:
    """Whether two places are one; other names of it are links and mounts."""
    first, second = local_path(one), local_path(other)
    if first is None or second is None:
        return False
    if os.path.realpath(first) == os.path.realpath(second):
        return True
    try:
        return os.path.samefile(first, second)
    except OSError:
        return False


def _refusal(job: Job, move: Move, recorded: dict[str, str], findings: dict[str, Finding]) -> JobError:
    """The error for places that cannot be known."""
    kinds = set(findings.values())
    words = ["resume", str(job.path)]
    redacted: list[str] = []
    for role, verdict in findings.items():
        place = move.relative(recorded[role]) if verdict == "both" else None
        redacted += [redact(place)] if place is not None else []
        redacted.append(redact(recorded[role]))
        words += [_OPTIONS[role], redact(place or recorded[role])]
    again = command(*words)
    if "both" in kinds:
        message = "the job file was moved or copied, and two places may be meant"
        advice = f"Name those that are meant, such as: {again}"
    elif "copy" in kinds:
        message = "this is a copy of a job file, and the other one describes the result"
        advice = f"Use {move.home.path}, or delete it if this file is to take its place."
    elif "taken" in kinds:
        message = "the job file was moved, and another job has written to its destination since"
        advice = "Name where its own result is: zarrlift resume --destination (in place --source)."
    else:
        message = "it cannot be known whether the job file was moved or copied"
        advice = f"If this is the only job file, run: {again}"
    found = ", ".join(redacted) + ("" if "both" in kinds else f", recorded in {move.home.path}")
    return JobError(message, key=str(job.path), found=found, advice=advice)

"""Settles the places of a job whose file was moved or copied, before anything is read or written there.

A place may be where the job recorded it, or where it is relative to the present job file:

- only relative to the job file: it was moved or copied together with it, and is used;
- only where it was recorded: it is used if the job file was moved; a copy of the job file is refused, because
  another job file describes that place;
- at both: which one is meant cannot be known, and the user has to name it.

What exists at a place that cannot be examined is not known, so it counts as existing.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from ..errors import JobError
from ..recipe.options import Moved, values
from ..storage.open_storage import Place
from ..storage.redact import redact
from .command_line import command
from .ledger.ledger import Job
from .ledger.move import Move, local_path, move_of

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

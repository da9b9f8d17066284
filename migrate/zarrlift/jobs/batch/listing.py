"""Turns the places given for a batch into its rows, and checks their destinations before anything moves."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any, Final, NamedTuple

from zarrstack.core.errors import Problem, UsageError, ZarrstackError

from ...core.problems import JoinedProblems
from ...formats.search import search
from ...storage.open_storage import is_url, place_below, refuse_mistyped
from ...storage.redact import redact
from .list_file import is_manifest
from .manifest import Listed, read_manifest
from .rows import BatchRow, RowRequest

_FIELD: Final = re.compile(r"\{(\w*)\}")
_FIELDS: Final = ("relative", "name", "parent", "number")
_SUFFIX: Final = re.compile(r"(\.(zarr|n5|zr|zr[123]|zarr[123]))?(\.(zip|ozx))?$", re.IGNORECASE)
"""What `{relative}` and `{name}` leave out; see `formats.search`."""


class _Candidate(NamedTuple):
    """An archive that a place has, or what is wrong with it."""

    listed: Listed
    row: BatchRow
    """Without its number and its destination."""
    named: bool
    """Whether the place is the archive, and not one above it."""

    @property
    def name(self) -> str:
        """For messages."""
        where = self.listed.where
        return where if where and self.named else f"{where} {redact(self.row.source)}".strip()


def _candidate(listed: Listed, source: str, below: str, format: str | None, *problems: Problem) -> _Candidate:
    row = BatchRow(
        number=0,
        source=source,
        destination="",
        relative=below or source.rstrip("/").rpartition("/")[2],
        request=listed.request,
        format=format,
        state="pending" if format is not None else "refused",
        problems=problems,
    )
    return _Candidate(listed, row, named=not below)


def list_archives(
    places: Sequence[str],
    *,
    destination: str | None,
    request: RowRequest,
    storage_options: Mapping[str, Any] | None = None,
) -> list[BatchRow]:
    """The archives of a batch.

    Raises one UsageError with all rows that are wrong. An archive that does not exist or cannot be read is a
    row in the state "refused".
    """
    problems: list[str] = []
    listed: list[Listed] = []
    for place in places:
        if is_manifest(place):
            listed += read_manifest(place, request, destination, problems)
        else:
            goal = None if request.in_place else destination
            listed.append(Listed(place=place, destination=goal, request=request))
    candidates = [
        candidate for given in listed for candidate in _candidates(given, storage_options, problems)
    ]
    named = {candidate.row.source for candidate in candidates if candidate.named}
    checked: list[_Candidate] = []
    listed_pairs: set[tuple[str, str]] = set()
    for candidate in candidates:
        row = candidate.row
        if not candidate.named and row.source in named:
            continue  # a row that names an archive has priority over one that finds it
        try:
            goal = _destination(candidate, len(checked) + 1)
        except UsageError as error:
            problems.append(f"{candidate.name}: {error}")
            continue
        if not candidate.listed.where and (row.source, goal) in listed_pairs:
            continue  # two places of the command line contain it
        listed_pairs.add((row.source, goal))
        row = replace(row, number=len(checked) + 1, destination=goal)
        checked.append(candidate._replace(row=row))
    problems += _conflicts(checked)
    if problems:
        count = "a problem" if len(problems) == 1 else f"{len(problems)} problems"
        raise UsageError(
            JoinedProblems.of(problems, before=f"the list has {count}, and nothing was changed: ")
        )
    if not checked:
        raise UsageError("there are no archives", found=", ".join(map(redact, places)) or "no place")
    return [candidate.row for candidate in checked]


def _candidates(
    given: Listed, storage_options: Mapping[str, Any] | None, problems: list[str]
) -> Iterator[_Candidate]:
    if redact(given.place) != given.place:
        problems.append(
            f"{given.where or redact(given.place)}: a batch does not store users, passwords and queries of"
            " URLs; give --storage-options"
        )
        return
    options = storage_options if is_url(given.place) else None
    follow_links = given.request.reading.follow_links
    try:
        results = list(search(given.place, storage_options=options, follow_links=follow_links))
    except ZarrstackError as error:
        if not given.where:
            raise
        place = given.place if is_url(given.place) else os.path.abspath(os.path.expanduser(given.place))
        yield _candidate(given, place, "", None, error.problem)
        return
    for result in results:
        if isinstance(result, Problem):
            if result.severity == "refusal":
                base = given.place if is_url(given.place) else os.path.abspath(given.place)
                below = result.node or ""
                yield _candidate(given, place_below(base, below), below, None, replace(result, node=None))
            continue
        notes = [_nested(result.nested)] if result.nested else []
        format = given.request.format or result.format  # noqa: A001 - as in other functions
        yield _candidate(given, result.url, result.relative, format, *notes)
    if not results and given.where:
        problem = Problem(kind="usage", message="there is no archive in this place", found=given.place)
        yield _candidate(given, given.place, "", None, problem)


def _nested(paths: tuple[str, ...]) -> Problem:
    return Problem(
        kind="format",
        severity="note",
        message="archives of another format inside are not converted",
        found=", ".join(paths),
        advice="List them as rows of their own.",
    )


def _destination(candidate: _Candidate, number: int) -> str:
    """The destination of an archive, in place its source; UsageError."""
    if candidate.listed.request.in_place:
        return candidate.row.source
    template = candidate.listed.destination
    if template is None:
        raise UsageError("a destination is needed", expected="--to TEMPLATE, a column, or --in-place")
    if redact(template) != template:
        raise UsageError(
            "a batch does not store users, passwords and queries of URLs",
            advice="Give --storage-options dst:KEY=VALUE.",
        )
    if unknown := [name for name in _FIELD.findall(template) if name not in _FIELDS]:
        raise UsageError(
            f"the template has an unknown field {{{unknown[0]}}}",
            expected=", ".join(f"{{{name}}}" for name in _FIELDS),
        )
    whole = _SUFFIX.sub("", candidate.row.relative) or candidate.row.relative
    if any(part in ("", ".", "..") for part in whole.split("/")):
        raise UsageError("the name of this archive cannot be part of a path", found=candidate.row.relative)
    values = {
        "relative": whole,
        "name": PurePosixPath(whole).name,
        "parent": PurePosixPath(whole).parent.as_posix(),
        "number": str(number),
    }
    text = _FIELD.sub(lambda match: values[match[1]], template)
    if is_url(text):
        return text
    refuse_mistyped(text)
    return os.path.abspath(os.path.expanduser(text))


def _conflicts(candidates: Sequence[_Candidate]) -> Iterator[str]:
    """What is wrong between rows: one destination for two, or places inside each other."""
    sources: dict[str, _Candidate] = {}
    goals: dict[str, _Candidate] = {}
    places = [(each, _place(each.row.source), _place(each.row.destination)) for each in candidates]
    for candidate, source, goal in places:
        sources.setdefault(source, candidate)
        if goal in goals:
            yield (
                f"{candidate.name}: {goal} is the destination of {goals[goal].name} too; "
                "expected a template such as 'v3/{relative}.zarr'"
            )
        else:
            goals[goal] = candidate
    for candidate, source, goal in places:
        own = candidate.listed.request.in_place
        if not own and goal in sources:
            yield f"{candidate.name}: the destination {goal} is the source of {sources[goal].name}"
        for above in _above(goal):
            if above in sources and not own:
                yield f"{candidate.name}: the destination {goal} is inside {above}, which is a source"
            if above in goals:
                yield f"{candidate.name}: the destination {goal} is inside that of {goals[above].name}"
        for above in _above(source):
            if above in goals and not own:
                yield f"{candidate.name}: the source {source} is inside {above}, which is a destination"


def _place(text: str) -> str:
    """A place in a form in which equal places are equal."""
    return text.rstrip("/") if is_url(text) else os.path.realpath(text)


def _above(place: str) -> Iterator[str]:
    """The places that contain a place."""
    start = place.find("://") + 3 if "://" in place else 0
    end = place.rfind("/")
    while end > start:
        yield place[:end]
        end = place.rfind("/", 0, end)

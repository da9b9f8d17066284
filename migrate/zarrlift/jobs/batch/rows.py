"""The archives of a batch, which are the rows of its list, and how places are searched for them."""

from __future__ import annotations

import json
import logging
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path, PurePosixPath
from typing import Any, Final, Literal, TypeAlias

from zarrstack.core.errors import Problem, UsageError
from zarrstack.core.json_text import JSONObject

from ...core.json_fields import json_of_fields
from ...core.problems import JoinedProblems
from ...formats.search import divided, search
from ...recipe.changes import WHOLE_OPTIONS
from ...recipe.options import Request, values
from ...recipe.recipe import Recipe
from ...storage.local.own_names import with_suffix
from ...storage.open_storage import is_url, place_below, refuse_mistyped
from ...storage.redact import redact
from ..ledger.job_places import SUFFIX, job_beside, local_path, with_local_path

log: Final = logging.getLogger("zarrlift")
_FIELD: Final = re.compile(r"\{(\w*)\}")
_FIELDS: Final = ("relative", "name", "parent", "number")
_SUFFIX: Final = re.compile(r"(\.(zarr|n5|zr|zr[123]|zarr[123]))?(\.(zip|ozx))?$", re.IGNORECASE)
"""What `{relative}` and `{name}` leave out; see `formats.search`."""
_DEFAULTS: Final = values(Request(), Request)
RELATIVE: Final = "/./"
"""Start of a relative path inside a URL."""


@dataclass(frozen=True, kw_only=True)
class RowRequest(Request):
    """What is asked for an archive, without its places and without storage options, which may be secret."""

    recipe: Recipe = field(default_factory=Recipe)

    @cached_property
    def recipe_json(self) -> JSONObject:
        """The recipe as a job has it."""
        result: JSONObject = json.loads(json.dumps(self.recipe.to_json()))
        return result

    def to_row(self) -> JSONObject:
        """The members of a row that differ from the defaults."""
        given = {name: value for name, value in values(self, Request).items() if value != _DEFAULTS[name]}
        if "format" in given:
            given["from"] = given.pop("format")
        recipe = self.recipe.to_json()
        sections: dict[str, Any] = {}
        for glob, changes in recipe["sections"]:
            sections[glob] = sections.pop(glob, {}) | changes
        whole = {name: recipe[name] for name in WHOLE_OPTIONS if recipe.get(name) not in (None, [])}
        return {**given, **recipe["base"], **({"arrays": sections} if sections else {}), **whole}


ArchiveState: TypeAlias = Literal["pending", "incomplete", "refused", "failed", "done", "finished", "undone"]
"""`pending`: not started. `incomplete`: interrupted. `refused`: the archive, or some of its nodes, cannot be
migrated. `failed`: something went wrong with what was to be migrated.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRow:
    """One archive of a batch.

    Examples
    --------
    >>> batch = zarrlift.batch(".", to="v3/{relative}.zarr")
    >>> [(row.name, row.state) for row in batch.rows]
    [('cells.n5', 'done'), ('ocean.zarr', 'done')]
    """

    number: int
    """The line in the list."""
    name: str
    """The source as the list names it."""
    source: str
    destination: str
    """In place, the source."""
    request: RowRequest = field(default_factory=RowRequest, repr=False)
    """What is asked for it."""
    job: str = ""
    """Path of its job file, where `migrate` puts it; it exists once the archive was begun."""
    format: str | None = None
    """None for an archive that was not read."""
    state: ArchiveState = "pending"
    running: bool = False
    """Whether a process works on it."""
    problems: tuple[Problem, ...] = ()
    arrays: int = 0
    objects: int = 0
    """Objects of the source that are moved; with `dry_run`, the planned number."""
    bytes_in: int = 0
    """Bytes of the source that are read; with `dry_run`, the planned number."""
    bytes_out: int = 0
    seconds: float = 0.0
    """Duration of all its runs."""
    verified: str | None = None
    """"sample" or "full" if a verification has passed since the last change."""
    large: bool = False
    """Whether it is run alone, with all workers."""

    @property
    def in_place(self) -> bool:
        """Whether it is migrated in place."""
        return self.request.in_place

    def begun(self) -> bool:
        """Whether it has a job."""
        return os.path.exists(self.job)

    def to_json(self) -> JSONObject:
        """JSON for machines."""
        return json_of_fields(self, "request")


def new_row(
    number: int, name: str, source: str, destination: str, request: RowRequest, beside: Path
) -> BatchRow:
    """An archive of which nothing is known but its row in a list in the folder `beside`."""
    if os.path.isabs(destination) and not is_url(destination):
        above, last = os.path.split(destination)
        job = os.path.join(above, with_suffix(last, SUFFIX))  # as `job_beside`, in a third of the time
    else:
        job = str(job_beside(destination, beside))
    return BatchRow(
        number=number, name=name, source=source, destination=destination, request=request, job=job
    )


def stored(place: str, folder: str) -> str:
    """A place as a list in a folder names it on all systems: relative to the folder, if it is inside."""
    path = local_path(place)
    inside = None if path is None else _below(path, folder)
    if inside is None:
        return place
    inside = inside.replace(os.sep, "/")
    return inside if path == place else with_local_path(place, RELATIVE + inside)


def _below(path: str, folder: str) -> str | None:
    """A path relative to a folder that contains it, also by other names of its parents; None if none does."""
    above = folder.rstrip(os.sep) + os.sep
    if not path.startswith(above):
        head, name = os.path.split(path)
        path = os.path.join(_real(head), name)
        above = _real(folder).rstrip(os.sep) + os.sep
    return path.removeprefix(above) if path.startswith(above) else None


_real = lru_cache(maxsize=1024)(os.path.realpath)


# ----- searching


def find_archives(
    places: Sequence[str],
    to: str | None,
    request: RowRequest,
    folder: Path,
    storage_options: Mapping[str, Any] | None = None,
) -> list[BatchRow]:
    """The archives in places, as rows of a list in a folder; those that cannot be read are among them.

    Raises one UsageError with all that are wrong.
    """
    if not places:
        raise UsageError("there is nothing to migrate", expected="a folder or a glob")
    refuse_overwrite_in_place(request)
    if request.in_place and to is not None:
        raise UsageError("a migration in place has no destination", found=redact(to))
    if not request.in_place:
        _require_template(to)
    problems: list[str] = []
    rows: dict[str, BatchRow] = {}
    for place in places:
        for source, below in _found(place, request, storage_options):
            number = len(rows) + 1
            relative = below or _place(source).rpartition("/")[2]
            try:
                goal = source if to is None else _destination(to, relative, number)
            except UsageError as error:
                problems.append(f"{redact(source)}: {error}")
            else:
                rows.setdefault(
                    source, new_row(number, stored(source, str(folder)), source, goal, request, folder)
                )
    found = list(rows.values())
    goals = Counter(_place(row.destination) for row in found)
    if to and (shared := [row for row in found if goals[_place(row.destination)] > 1]):
        goal = _place(shared[0].destination)
        names = [redact(row.name) for row in shared if _place(row.destination) == goal]
        more = f", and {len(names) - 3} more" if len(names) > 3 else ""
        raise UsageError(
            f"the template gives {len(shared)} archives the destination of another one",
            found=f"{redact(shared[0].destination)} for {', '.join(names[:3])}{more}",
            expected="places that differ, such as with {relative} or {number}",
        )
    raise_for([*problems, *conflicts(found, lambda row: redact(row.name))])
    if not found:
        raise UsageError("there are no archives", found=", ".join(map(redact, places)))
    return found


def _found(
    place: str, request: RowRequest, storage_options: Mapping[str, Any] | None
) -> Iterator[tuple[str, str]]:
    """(place of an archive, its path below the place that is searched); UsageError."""
    refuse_secrets(place, "source")
    options = storage_options if is_url(place) else None
    for result in search(place, storage_options=options, follow_links=request.reading.follow_links):
        if isinstance(result, Problem):
            if result.severity == "refusal":
                base, below = divided(place)[0], result.node or ""
                base = base if is_url(base) else os.path.abspath(os.path.expanduser(base))
                yield place_below(base, below), below
            continue
        if result.nested:
            log.warning(
                "%s: archives of another format inside are not converted; found %s. "
                "Give them rows of their own.",
                redact(result.url),
                ", ".join(result.nested),
            )
        yield result.url, result.relative


def _require_template(template: str | None) -> None:
    """Raise UsageError for what is wrong with a template whatever the archive is."""
    if template is None:
        raise UsageError("a destination is needed", expected="--to TEMPLATE or --in-place")
    refuse_secrets(template, "destination")
    if unknown := [name for name in _FIELD.findall(template) if name not in _FIELDS]:
        raise UsageError(
            f"the template has an unknown field {{{unknown[0]}}}",
            expected=", ".join(f"{{{name}}}" for name in _FIELDS),
        )
    if not is_url(template):
        refuse_mistyped(template)


def _destination(template: str, relative: str, number: int) -> str:
    """The destination of an archive; UsageError."""
    whole = _SUFFIX.sub("", relative) or relative
    if any(part in ("", ".", "..") for part in whole.split("/")):
        raise UsageError("the name of this archive cannot be part of a path", found=relative)
    path = PurePosixPath(whole)
    values = {"relative": whole, "name": path.name, "parent": path.parent.as_posix(), "number": str(number)}
    text = _FIELD.sub(lambda match: values[match[1]], template)
    if is_url(text):
        return text
    return os.path.abspath(os.path.expanduser(text))


# ----- what is wrong with rows


def raise_for(problems: list[str], found: str | None = None) -> None:
    """Raise one UsageError with all problems of a list, if there are any."""
    if problems:
        count = "a problem" if len(problems) == 1 else f"{len(problems)} problems"
        before = f"the list has {count}, and nothing was changed: "
        raise UsageError(JoinedProblems.of(problems, before=before), found=found)


def refuse_secrets(place: str, key: str) -> None:
    """Raise UsageError for a URL that must not be written to a list."""
    if "://" in place and redact(place) != place:
        raise UsageError(
            "a batch does not store users, passwords and queries of URLs",
            key=key,
            found=redact(place),
            advice="Give --storage-options.",
        )


def refuse_overwrite_in_place(request: RowRequest) -> None:
    """Raise UsageError for what contradicts itself."""
    if request.in_place and request.overwrite:
        raise UsageError("a migration in place has nothing to overwrite", key="overwrite")


def conflicts(rows: Sequence[BatchRow], name: Callable[[BatchRow], str]) -> Iterator[str]:
    """What is wrong between rows: one destination for two, or places inside each other."""
    sources = {_place(row.source): row for row in rows}
    goals: dict[str, BatchRow] = {}

    def conflict(row: BatchRow, key: str, other: BatchRow, what: str) -> str:
        found = f"{redact(getattr(row, key))}, which is in the {what} of {name(other)}"
        return f"{name(row)}: key {key!r}: rows overlap; found {found}; expected a place apart"

    for row in rows:
        other = goals.setdefault(_place(row.destination), row)
        if other is not row:
            yield conflict(row, "destination", other, "destination")
    for row in rows:
        _, *above_source = _above(_place(row.source))
        goal, *above_goal = _above(_place(row.destination))
        if not row.in_place:
            yield from (
                conflict(row, "destination", sources[at], "source")
                for at in (goal, *above_goal)
                if at in sources
            )
            yield from (
                conflict(row, "destination", goals[at], "destination") for at in above_goal if at in goals
            )
            yield from (
                conflict(row, "source", goals[at], "destination") for at in above_source if at in goals
            )


def _place(text: str) -> str:
    """A place in a form in which equal places are equal, with slashes."""
    if is_url(text):
        return text.rstrip("/")
    folder, name = os.path.split(text)
    return os.path.join(_real(folder), name).replace(os.sep, "/")


def _above(place: str) -> Iterator[str]:
    """A place, and the places that contain it."""
    yield place
    start = place.find("://") + 3 if "://" in place else 0
    end = place.rfind("/")
    while end > start:
        yield place[:end]
        end = place.rfind("/", 0, end)

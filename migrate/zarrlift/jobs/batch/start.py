"""`batch`: writes the list of a batch, or goes on with the one that was written, and runs it.

First it plans every archive, before anything moves: what each costs, and what is refused.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Unpack

from zarrstack.core.errors import UsageError, ZarrstackError

from ...errors import JobError
from ...planning.regrid.blocks import memory_budget
from ...recipe.keywords import PlacesKeywords, RequestKeywords, RunningKeywords, WatchingKeywords
from ...recipe.options import PathText, Places, Request, Running, Watching, values
from ...recipe.recipe import Recipe
from ...recipe.signatures import explicit, given
from ...storage.redact import redact
from ...transfer.unexpected_errors import unexpected_error
from ..executors import RunOptions
from ..ledger.job_places import LIST_SUFFIX, job_beside
from ..progress import ProgressChoice
from ..refusals import refuse_unmet
from .batch import Batch, How
from .list_file import ListFile, default_path, is_list
from .listing import list_archives
from .rows import BatchRow, RowRequest
from .run_batch import archive_request, shared, waits

LARGE: Final = 64 << 20
"""Bytes from which an archive is run alone, with all workers: it keeps them busy for longer than a thread
takes to start.
"""


def assessed(rows: Sequence[BatchRow], options: RunOptions, places: Places) -> list[BatchRow]:
    """The rows with what planning finds; archives that cannot be planned are refused."""
    by_number = {row.number: row for row in rows}
    todo = [row for row in rows if row.state == "pending" and not row.begun()]
    with shared(options, waits=any(map(waits, todo)), runs=False) as common:
        for row in common.each(lambda row, _: _assess(row, places, common.threads), todo):
            by_number[row.number] = row
    return list(by_number.values())


def _assess(row: BatchRow, places: Places, beside: int) -> BatchRow:
    try:
        request = archive_request(row, places)
        ends = request.open()
        request.refuse_places(ends, Path(row.job))
        plan = request.planned(ends)
        refuse_unmet(plan)
    except ZarrstackError as error:
        state = "failed" if isinstance(error, JobError) else "refused"
        return replace(row, state=state, problems=(*row.problems, error.problem))  # type: ignore[arg-type]
    except Exception as error:  # noqa: BLE001 - see `unexpected_error`
        return replace(row, state="failed", problems=(*row.problems, unexpected_error("", error)))
    problems = [problem for problem in plan.problems if problem.severity == "refusal"]
    problems += [problem for refusal in plan.refusals for problem in refusal.problems]
    nbytes = sum(array.bytes_in for array in plan.arrays)
    memory = max((array.memory or 0 for array in plan.arrays), default=0)
    return replace(
        row,
        format=plan.format,
        state="refused" if plan.refusals and not plan.arrays else "pending",
        problems=(*row.problems, *problems),
        arrays=len(plan.arrays) + sum(refusal.kind == "array" for refusal in plan.refusals),
        objects=sum(array.chunks for array in plan.arrays),
        bytes_in=nbytes,
        large=nbytes >= LARGE or memory * beside > memory_budget(plan.recipe.memory),
    )


class _Batching(RequestKeywords, RunningKeywords, PlacesKeywords, WatchingKeywords):
    """The options of `batch`."""


@explicit
def batch(
    *places: PathText,
    to: str | None = None,
    list_file: PathText | None = None,
    only: str | None = None,
    run: bool = True,
    update: bool = False,
    recipe: Recipe | None = None,
    progress: ProgressChoice = None,
    **options: Unpack[_Batching],
) -> Batch:
    """Migrate many archives, each by a job of its own.

    `places` are folders, prefixes of stores or globs, in which archives are searched for, and manifests
    (CSV, JSON lines, TOML). What they contain is written to a list. A second call with the same
    arguments resumes the batch; it changes nothing if everything is done. So does one with the list alone.

    - `to`: the destination of each archive, such as "v3/{relative}.zarr": `{relative}` is its path below the
      place without its suffix, `{name}` the last part and `{parent}` the rest of that, `{number}` its number.
    - `list_file`: the list to write, a path that ends in ".zarrlift.jsonl"; by default next to the results.
    - `only`: a glob for the archives that are run.
    - `run=False`: only plan every archive, and write the list.
    - `update`: add archives that are new in `places`; otherwise they are only named in the outcome.
    - The other arguments are those of `migrate`; a manifest may replace them per row.

    An archive that is refused or fails does not stop the others.

    Raises
    ------
    UsageError
        With all rows that are wrong, before anything is changed.
    JobError
        If the list is of other options.
    Interrupted
        After Ctrl-C; the batch can be resumed.

    Examples
    --------
    >>> batch = zarrlift.batch(".", to="v3/{relative}.zarr", workers=2)
    >>> batch.outcome.counts
    {'done': 2}
    """
    request, running, opening, watching = given(options, Request, Running, Places, Watching)
    how: How = {**values(running, Running), **values(opening, Places), **values(watching, Watching)}  # type: ignore[typeddict-item]
    texts = [os.fspath(place) for place in places]
    wanted = RowRequest(recipe=recipe or Recipe(), **values(request, Request))
    if len(texts) == 1 and is_list(texts[0]):
        if to is not None or update or list_file is not None or wanted != RowRequest():
            raise UsageError(
                "the list has the places and the changes", expected="the list and options to run it"
            )
        opened = Batch(texts[0], only=only)
        added: tuple[str, ...] = ()
    else:
        path = _path(texts, to, list_file)
        given_for = RunOptions.of(running), opening
        added = _listed(path, texts, to, wanted, given_for, update=update, plans=not run)
        opened = Batch(path, only=only)
    if run:
        opened.run(progress=progress, **how)
    else:
        opened.last = replace(opened.status(), state="planned")
    opened.last = replace(opened.outcome, added=added)
    return opened


def _path(places: Sequence[str], to: str | None, given: PathText | None) -> Path:
    """The list of a batch; UsageError."""
    if given is None:
        return default_path(places, to)
    if not os.fspath(given).endswith(LIST_SUFFIX):
        raise UsageError(
            "a list needs the usual suffix", found=os.fspath(given), expected=f"NAME{LIST_SUFFIX}"
        )
    return Path(os.path.abspath(given))


def _listed(
    path: Path,
    places: Sequence[str],
    to: str | None,
    wanted: RowRequest,
    how: tuple[RunOptions, Places],
    *,
    update: bool,
    plans: bool,
) -> tuple[str, ...]:
    """Write the list, or check that it is of these archives and add new ones if asked; else returns them."""
    if wanted.in_place and (wanted.overwrite or to is not None):
        raise UsageError("a migration in place has no destination, and nothing to overwrite", found=to)
    opening = how[1].storage_options
    archives = [
        replace(row, job=str(job_beside(row.destination, path.parent)))
        for row in list_archives(places, destination=to, request=wanted, storage_options=opening)
    ]
    file = ListFile(path)
    if not os.path.lexists(path):
        rows = assessed(archives, *how) if plans or len(archives) > 1 else archives
        if file.create(rows):
            file.note(row for row in rows if not row.begun())
            return ()
    recorded = file.rows()
    new = _new(file, recorded, archives)
    if not new or not update:
        return tuple(redact(row.source) for row in new)
    after = len(recorded)
    rows = assessed([replace(row, number=after + place) for place, row in enumerate(new, 1)], *how)
    file.write([*recorded, *rows])
    file.note(row for row in rows if not row.begun())
    return ()


def _new(file: ListFile, recorded: Sequence[BatchRow], archives: Sequence[BatchRow]) -> list[BatchRow]:
    """What was found and is not listed; JobError for an archive that is listed with other options."""
    listed = {row.source: row for row in recorded}
    new = []
    for row in archives:
        before = listed.get(row.source)
        if before is None:
            new.append(row)
        elif before.request.to_json() != row.request.to_json() or before.destination != row.destination:
            raise JobError(
                "this batch was made with other options",
                key=str(file.path),
                found=f"{redact(row.source)} to {redact(before.destination)}",
                advice="Undo it and delete the list, or write another one: --list.",
            )
    return new

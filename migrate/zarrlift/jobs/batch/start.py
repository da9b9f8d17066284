"""`batch`: creates a batch from a list of archives, or opens the one made from it, and runs it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Unpack

from zarrstack.core.errors import JobError, UsageError

from ...recipe.keywords import PlacesKeywords, RequestKeywords, RunningKeywords, WatchingKeywords
from ...recipe.options import PathText, Places, Request, Running, Watching, values
from ...recipe.recipe import Recipe
from ...recipe.signatures import explicit, given
from ...storage.redact import redact
from ..processes.executors import RunOptions
from ..progress import ProgressChoice
from .assess import assessed
from .batch import Batch, How
from .batch_file import BatchFile
from .listing import Rows, list_archives
from .places import default_path
from .requests import RowRequest
from .run_batch import BatchOptions
from .settle import settle
from .split import split


class _Batching(RequestKeywords, RunningKeywords, PlacesKeywords, WatchingKeywords):
    """The options of `batch`."""


@explicit
def batch(
    *places: PathText,
    to: str | None = None,
    job: PathText | None = None,
    run: bool = True,
    update: bool = False,
    parts: int | None = None,
    recipe: Recipe | None = None,
    progress: ProgressChoice = None,
    **options: Unpack[_Batching],
) -> Batch:
    """Migrate many archives as one job.

    `places` are folders, prefixes of stores or globs, in which archives are searched for, and manifests
    (CSV, JSON lines, TOML). A second call with the same arguments resumes the batch; it changes nothing if
    everything is done.

    - `to`: the destination of each archive, such as "v3/{relative}.zarr": `{relative}` is its path below the
      place without its suffix, `{name}` the last part and `{parent}` the rest of that, `{number}` its number.
    - `job`: the job file of the batch, a path; by default next to the results.
    - `run=False`: only plan every archive, and create the job file.
    - `update`: add archives that are new in `places`; otherwise they are only named in the outcome.
    - `parts`: how many processes run the batch, each by `Batch.run_part`, counted from 0; implies
      `run=False`.
    - The other arguments are those of `migrate`; a manifest may replace them per row.

    An archive that is refused or fails does not stop the others. Without `places`, the batch in `job` is
    opened.

    Raises
    ------
    UsageError
        With all rows that are wrong, before anything is changed.
    JobError
        If the batch runs elsewhere, or there is none to open.
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
    if not places:
        if job is None:
            raise UsageError("there is nothing to migrate", expected="a folder, a glob, a manifest or a job")
        opened = Batch(job)
        if run:
            opened.run(progress=progress, **how)
        return opened
    texts = [os.fspath(place) for place in places]
    asked = RowRequest(recipe=recipe or Recipe(), **values(request, Request))
    if request.inventory is not None:
        raise UsageError("an inventory is of one archive", expected="a column of the manifest")
    if request.in_place and (request.overwrite or to is not None):
        raise UsageError("a migration in place has no destination, and nothing to overwrite", found=to)
    with_options = BatchOptions(run=RunOptions.of(running), places=opening)
    rows = list_archives(texts, destination=to, request=asked, storage_options=opening.storage_options)
    path = Path(os.path.abspath(job)) if job is not None else default_path(texts, to)
    added: tuple[str, ...] = ()
    if not os.path.lexists(path):
        _create(path, rows, with_options, parts=parts, plans=not run or len(rows) > 1)
    elif parts is not None:
        raise JobError("the job file already exists", key=str(path), advice="Gather it, or undo it first.")
    else:
        added = _continue(path, rows, with_options, update=update)
    opened = Batch(path)
    if run and parts is None:
        opened.run(progress=progress, **how)
    else:
        opened.last = replace(opened.status(), state="planned")
    opened.last = replace(opened.outcome, added=added)
    return opened


def _create(path: Path, rows: Rows, options: BatchOptions, *, parts: int | None, plans: bool) -> None:
    requests = {row.number: RowRequest.from_json(asked) for row, asked in rows}
    known = [row for row, _ in rows]
    if plans:
        known = assessed(known, requests, options)
    facts = {}
    if parts is not None:
        known = split(known, parts)
        facts = {"parts": str(parts)}
    asked = {row.number: request for row, request in rows}
    BatchFile.create(
        path, [(row, asked[row.number]) for row in known], facts, fsync=options.run.fsync
    ).close()


def _continue(path: Path, rows: Rows, options: BatchOptions, *, update: bool) -> tuple[str, ...]:
    """Check that an existing batch is that of the list, and add new archives if asked; else returns them."""
    with BatchFile.open(path) as file:
        known = {row.source: row for row in settle(file)}
        requests = file.requests()
        new: Rows = []
        for row, asked in rows:
            before = known.get(row.source)
            if before is None:
                new.append((row, asked))
            elif requests[before.number] != asked or before.destination != row.destination:
                raise JobError(
                    "this batch was made with other options",
                    key=str(path),
                    found=f"{redact(row.source)} to {redact(before.destination)}",
                    advice="Undo it, or give another job file: --job.",
                )
        if not update or not new:
            return tuple(redact(row.source) for row, _ in new)
        if file.fact("parts") is not None:
            raise UsageError(
                "archives cannot be added to a batch in parts", advice="Make a new batch of them."
            )
        after = max(row.number for row in known.values())
        asked_for = {after + place: asked for place, (_, asked) in enumerate(new, 1)}
        numbered = [replace(row, number=after + place) for place, (row, _) in enumerate(new, 1)]
        requests_of = {number: RowRequest.from_json(asked) for number, asked in asked_for.items()}
        file.add((row, asked_for[row.number]) for row in assessed(numbered, requests_of, options))
    return ()

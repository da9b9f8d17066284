"""Takes a census: searches a place for archives, describes and plans each, and adds them up."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, TypeAlias, Unpack

from zarrstack.core.errors import Problem, UsageError, ZarrstackError

from ...archive.nodes import Archive
from ...formats.describe import describe
from ...formats.detect import detect
from ...formats.globs import divided
from ...formats.search import FoundArchive, search
from ...planning.planner import make_plan
from ...planning.plans import Plan
from ...recipe.keywords import ReadingKeywords, SourceOptionsKeywords
from ...recipe.options import PathText, Reading, SourceOptions
from ...recipe.recipe import Recipe
from ...recipe.signatures import explicit, given
from ...storage.open_storage import is_url, open_storage
from ...storage.redact import redact, secrets_of
from ...transfer.unexpected_errors import unexpected_error
from .census import Census
from .counting import Counting

_AT_ONCE: Final = 16
"""Number of archives in a store that are read at a time; latency, not the processor, limits each."""
_Assessed: TypeAlias = tuple[FoundArchive, tuple[Archive, Plan] | Problem]


class _Reading(ReadingKeywords, SourceOptionsKeywords):
    """The options of `census`."""


@explicit
def census(
    place: PathText,
    *,
    recipe: Recipe | None = None,
    listing: bool = True,
    rate: float | None = None,
    progress: Callable[[int], object] | None = None,
    **options: Unpack[_Reading],
) -> Census:
    """Return what the archives in a place contain, and what a migration of all would do and cost.

    - `place`: a folder, a prefix of a store, or a glob; see `zarrlift.formats.search`.
    - `recipe`: the changes that the migration would make.
    - `listing`: list the chunks of every array; without, there are no amounts and no cost.
    - `rate`: bytes read per second, for the time.
    - `storage_options`: those of fsspec, for a URL.
    - `progress`: called with the number of archives after each.

    The other arguments are those of `inspect`. Archives that cannot be read are in `Census.broken`, and do
    not affect the others.

    Raises
    ------
    UsageError
        If the place does not exist or has no archives, or for invalid arguments.

    Examples
    --------
    >>> census = zarrlift.census(".")
    >>> census.archives, dict(census.formats)
    (2, {'n5': 1, 'zarr2': 1})
    """
    if rate is not None and not rate > 0:
        raise UsageError("not a rate", found=repr(rate), expected="bytes per second")
    if not listing and rate is not None:
        raise UsageError("the time requires a listing of the chunks", advice="Omit the rate, or list.")
    reading, opening = given(options, Reading, SourceOptions)
    storage_options = opening.storage_options
    counting = Counting(listed=listing)
    matches = search(place, storage_options=storage_options, follow_links=reading.follow_links)
    for archive, result in _each(
        _archives(matches, counting),
        lambda each: _assess(each, recipe or Recipe(), reading.settled(), storage_options, listing=listing),
        at_once=_AT_ONCE if is_url(os.fspath(place)) else 1,
    ):
        if isinstance(result, Problem):
            counting.add_broken(archive, result)
        else:
            counting.add(archive, *result)
        if progress is not None:
            progress(counting.sums["archives"])
    redacted = redact(os.fspath(place), secrets_of(storage_options))
    if not counting.formats and not counting.unsearched:
        if divided(os.fspath(place))[1] is None:
            detect(open_storage(place, storage_options=storage_options))  # raises, and names what is there
        raise UsageError("no archives found", found=redacted)
    return counting.census(redacted, counting.cost.at(rate) if listing else None)


def _archives(matches: Iterable[FoundArchive | Problem], counting: Counting) -> Iterator[FoundArchive]:
    """The archives of a search; its problems are added to the counts."""
    for match in matches:
        if isinstance(match, Problem):
            counting.unsearched.append(match)
        else:
            yield match


def _assess(
    match: FoundArchive,
    recipe: Recipe,
    reading: Reading,
    storage_options: Mapping[str, Any] | None,
    *,
    listing: bool,
) -> tuple[Archive, Plan] | Problem:
    """An archive and the plan for it, or the problem for which it cannot be read."""
    try:
        storage = open_storage(match.url, storage_options=storage_options)
        archive = describe(storage, options=reading)
        plan, _ = make_plan(archive, storage, recipe, destination="", reading=reading, listing=listing)
    except ZarrstackError as error:
        return error.problem
    except Exception as error:  # noqa: BLE001 - one archive must not end the census of the others
        return unexpected_error("", error)
    return archive, plan


def _each(
    archives: Iterable[FoundArchive],
    assess: Callable[[FoundArchive], tuple[Archive, Plan] | Problem],
    *,
    at_once: int,
) -> Iterator[_Assessed]:
    """The results in the order of the archives, some computed at the same time."""
    if at_once == 1:
        for match in archives:
            yield match, assess(match)
        return
    with ThreadPoolExecutor(at_once, thread_name_prefix="zarrlift-census") as pool:
        pending: deque[tuple[FoundArchive, Future[tuple[Archive, Plan] | Problem]]] = deque()
        for match in archives:
            pending.append((match, pool.submit(assess, match)))
            if len(pending) >= 2 * at_once:
                first, result = pending.popleft()
                yield first, result.result()
        for match, result in pending:
            yield match, result.result()

"""`diff` compares any two archives, `digest` gives the digests of one, or those that a job has stored."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final, TypeAlias, Unpack

from zarrstack.core.errors import MetadataError, StorageError, UsageError

from ..core.digest.value_digest import ArrayDigest
from ..core.json_document import document
from ..recipe.keywords import DescribingKeywords, PlacesKeywords, SourceOptionsKeywords
from ..recipe.options import Describing, Places
from ..recipe.signatures import explicit, given
from ..storage.open_storage import Place, open_storage
from ..verification.archive_diff import ArchiveDiff
from ..verification.digest_report import ArchiveDigest
from .ledger.ledger import SUFFIX, Job
from .observed import ticking
from .progress import ProgressChoice

Digests: TypeAlias = str | os.PathLike[str] | ArchiveDigest
"""Digests, or the file that contains them: what `digest` wrote, or a job file."""
_EXPECTED: Final = "a file that `zarrlift digest --output FILE` writes, or a job file"


class _Digesting(DescribingKeywords, SourceOptionsKeywords):
    """The options of `digest`."""


@explicit
def digest(source: Place, *, progress: ProgressChoice = None, **options: Unpack[_Digesting]) -> ArchiveDigest:
    """Compute a digest of the values of every array of an archive, in any format that can be read.

    Equal values have equal digests, however they are stored: chunks, shards, codecs, byte order and format
    do not matter. Shape, data type and fill value do; a missing chunk equals one full of fill values. Arrays
    that cannot be read are in `problems`. A digest detects errors, not forgery.

    If `source` is a job file, the digests are those that the job has stored, and no value is read.
    `progress` is as for `migrate`. The other arguments are those of `inspect`.

    Raises
    ------
    UsageError
        If there is no archive, or the job has no digests.
    StorageError
        If it cannot be read.

    Examples
    --------
    >>> outcome = zarrlift.migrate("ocean.zarr", "new.zarr")
    >>> before, after = zarrlift.digest("ocean.zarr"), zarrlift.digest("new.zarr")
    >>> before.arrays["sst"] == after.arrays["sst"]
    True
    """
    from ..formats.describe import describe, opened
    from ..verification.value_digests import digest_archive

    if isinstance(source, (str, os.PathLike)) and os.fspath(source).endswith(SUFFIX):
        return stored_digests(Path(source))
    storage, reading, format = opened(source, options)  # noqa: A001 - as in the public functions
    archive = describe(storage, format=format, options=reading)
    with ticking(progress) as display:
        return digest_archive(archive, storage, follow_links=reading.follow_links, progress=display)


def stored_digests(path: Path) -> ArchiveDigest:
    """The digests of a job's result; UsageError if it has none."""
    with Job.open(path, write=False) as job:
        header = job.header
        arrays = {node: ArrayDigest.from_json(document) for node, document in job.digests.documents()}
    if not arrays:
        raise UsageError(
            "this job has no digests",
            key=str(path),
            advice="Migrate with --digest, or compute them from the result: zarrlift digest DST.",
        )
    return ArchiveDigest(url=header["destination"], format="zarr3", arrays=arrays)


def write_digests(digests: ArchiveDigest, path: str | os.PathLike[str]) -> None:
    """Write digests to a file, for `verify`; StorageError."""
    try:
        Path(path).write_bytes(document(digests.to_json()))
    except OSError as error:
        raise StorageError("cannot write the digests", key=str(path), found=error.strerror) from error


def load_digests(digests: Digests) -> ArchiveDigest:
    """The digests in a file; StorageError if it cannot be read, UsageError if there are none in it."""
    if isinstance(digests, ArchiveDigest):
        return digests
    path = Path(digests)
    if path.name.endswith(SUFFIX):
        return stored_digests(path)
    try:
        return ArchiveDigest.from_json(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise StorageError(
            "cannot read the digests", key=str(path), found=error.strerror, expected=_EXPECTED
        ) from error
    except MetadataError as error:
        raise UsageError.of(error.problem.at(key=str(path))) from error
    except ValueError as error:
        raise UsageError(
            "these are not digests of arrays", key=str(path), found=str(error), expected=_EXPECTED
        ) from error


class _Diffing(DescribingKeywords, PlacesKeywords):
    """The options of `diff`."""


@explicit
def diff(
    first: Place,
    second: Place,
    *,
    full: bool = False,
    progress: ProgressChoice = None,
    **options: Unpack[_Diffing],
) -> ArchiveDiff:
    """Compare two archives of any formats: nodes, metadata and values. Nothing is written.

    Shape, data type, fill value, attributes and dimension names count as they would be in Zarr v3: an
    archive equals its migration. Chunks, codecs, byte order and keys do not count; where they differ is in
    `stored`. Values are compared bit by bit, a sample of them without `full`. What cannot be read is in
    `problems`.

    - `first`, `second`: a path, a URL supported by fsspec, a zarr store or a store path.
    - `full`: compare every value.
    - `format`: that of both archives, or of each, such as "zarr2,n5" and "zarr2,"; by default it is detected.
    - `storage_options`, `dest_storage_options`: those of the first and of the second archive.
    - `progress` is as for `migrate`; the other arguments are those of `inspect`.

    Raises
    ------
    UsageError
        If there is no archive at one of the places.
    StorageError
        If a listing fails.

    Examples
    --------
    >>> outcome = zarrlift.migrate("ocean.zarr", "new.zarr")
    >>> found = zarrlift.diff("ocean.zarr", "new.zarr")
    >>> found.state, found.arrays, found.differences
    ('same', 4, ())
    """
    from ..formats.describe import describe
    from ..verification.diff import diff_archives
    from ..verification.diff_sides import Side

    described, places = given(options, Describing, Places)
    one, comma, other = (described.format or "").partition(",")
    formats = (one or None, (other if comma else one) or None)
    reading, sides = described.settled(), []
    for name, place, opening, format in zip(  # noqa: A001 - as in other functions
        "AB", (first, second), (places.storage_options, places.dest_storage_options), formats, strict=True
    ):
        storage = open_storage(place, storage_options=opening, follow_links=described.follow_links)
        archive = describe(storage, format=format, options=reading)
        sides.append(Side(name, archive, storage, reading.follow_links))
    with ticking(progress) as display:
        return diff_archives(*sides, full=full, progress=display)

"""`diff` compares any two archives."""

from __future__ import annotations

from typing import Unpack

from ..recipe.keywords import DescribingKeywords, PlacesKeywords
from ..recipe.options import Describing, Places
from ..recipe.signatures import explicit, given
from ..storage.open_storage import Place, open_storage
from ..verification.archive_diff import ArchiveDiff
from .observed import ticking
from .progress import ProgressChoice


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

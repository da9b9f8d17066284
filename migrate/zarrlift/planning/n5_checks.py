"""Checks the headers of N5 blocks during planning, and whether an N5 array can stay in place.

In place, a `zarr.json` with the codec `n5_default` describes the blocks. It reads whole blocks with their
headers: a full transpose, big-endian `bytes`, and at most one compressor that both Zarr v3 and N5 support
(https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/n5_default). The package zarr-n5 provides
it for zarr-python; 0.3.0 and 0.3.1 read every fixture, including truncated, padded and mixed edge blocks
(`tests/end_to_end/test_fixtures.py`).

If blocks stay in place, all headers are checked, because no move will do so: the codec that reads them in
place supports one block mode and does not verify it (zarr-n5 0.3.1). Otherwise the first block shows whether
the array contains values at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from zarrstack.core.errors import ChunkError, Problem, StorageError, UsageError, ZarrstackError

from ..archive.chunk_inventory import Inventory
from ..archive.chunk_reader import MissingObject, object_bound
from ..archive.nodes import Layout
from ..archive.shard_reader import chunk_reader
from ..core.chain.unchanged_bytes import keep_problems
from ..core.codec_table import is_registered, require_facts
from ..core.grid.chunk_keys import reverse_axes
from ..core.grid.frames import N5Blocks
from ..core.n5.blocks import DEFAULT, BlockHeader, head_bytes
from ..core.n5.dataset import STANDARD, TO_NUMBERS
from ..core.problems import refusal, warning
from ..storage.base import Storage
from ..storage.local.storage import LocalStorage
from .chunk_checks import explain_pointer, shard_at

_MAX_NAMED: Final = 20
_MAX_FETCHED: Final = 64
"""Maximum number of blocks checked in a remote store, spread over all: each is fetched completely."""


CODEC: Final = "n5_default"
_ADVICE: Final = "Migrate to a new destination, which re-encodes it, or exclude the array."


def n5_problems(
    path: str, storage: Storage, source: Layout, inventory: Inventory, *, stays: bool
) -> list[Problem]:
    """Refusals of an N5 array because of its blocks, of which there are some; StorageError.

    `stays`: whether they stay in place.
    """
    if (shards := _shard_problem(path, storage, source, inventory, always=stays)) is not None:
        return [shards]
    if stays:
        return list(_block_problems(path, storage, source, inventory))
    mode = _mode_problem(path, storage, source, inventory)
    return [] if mode is None else [mode]


def _block_problems(path: str, storage: Storage, source: Layout, inventory: Inventory) -> Iterator[Problem]:
    """A refusal for each of the first blocks that contain no values or state a wrong size.

    Reads every header of a local array, those of some blocks in a store. Raises StorageError.
    """
    assert isinstance(source.frame, N5Blocks)
    block_size = reverse_axes(source.chunk_shape, source.frame.axes)
    size = head_bytes(len(block_size))
    local = isinstance(storage, LocalStorage)
    indexes = inventory.indexes
    step = 1 if local else max(1, len(indexes) // _MAX_FETCHED)
    named = 0
    for index in indexes[::step].tolist():
        key = source.key(path, source.objects.coordinates(index))
        head = storage.get_part(key, 0, size) if local else storage.get(key, object_bound(source))
        if head is None:
            continue
        try:
            BlockHeader.parse(head, block_size).require_values()
        except ChunkError as error:
            yield explain_pointer(error.at(node=path, key=key).problem, storage)
            named += 1
            if named == _MAX_NAMED:
                return


def _shard_problem(
    path: str, storage: Storage, source: Layout, inventory: Inventory, *, always: bool
) -> Problem | None:
    """A refusal of an N5 array whose first block is a shard, which no document states.

    In a store, where it takes requests, this is checked only if `always`: if blocks stay where they are,
    nothing decodes them. None for a block that decodes, whatever its last bytes look like, and for an object
    that cannot be read, which is reported when it is moved.
    """
    if not always and storage.requests is not None:
        return None
    first = int(inventory.indexes[0])
    key = source.key(path, source.objects.coordinates(first))
    try:
        error = shard_at(key, storage)
        if error is None:
            return None
        list(chunk_reader(storage, path, source).decoded(first))
    except (StorageError, MissingObject):
        return None
    except ZarrstackError:
        return None if error is None else error.at(node=path, key=key).problem
    return None


def _mode_problem(path: str, storage: Storage, source: Layout, inventory: Inventory) -> Problem | None:
    """A refusal of an array whose first block contains no values, which its document need not show.

    Label multisets of Paintera are always detected: their blocks take at least four bytes per element, so
    that the byte count never equals the element count, for which Java writes mode 0. The check costs a local
    array 0.4 % of its migration if it has four tiny blocks. In a store it is a request, so only `uint8`, the
    stored type of label multisets, is checked there. Also None if the block is unreadable or damaged: the
    move reports this, and can be resumed.
    """
    assert isinstance(source.frame, N5Blocks)
    if not isinstance(storage, LocalStorage) and source.data_type.name != "uint8":
        return None
    block_size = reverse_axes(source.chunk_shape, source.frame.axes)
    key = source.key(path, source.objects.coordinates(int(inventory.indexes[0])))
    header = None
    try:
        head = storage.get_part(key, 0, head_bytes(len(block_size)))
        header = None if head is None else BlockHeader.parse(head, block_size)
        if header is not None:
            header.require_values()
    except StorageError:
        return None
    except ChunkError as error:
        if header is None or header.mode == DEFAULT:
            return None
        problem = error.at(node=path, key=key).problem
        return replace(problem, kind="unsupported", advice=TO_NUMBERS)
    return None


def in_place_problems(layout: Layout) -> Iterator[Problem]:
    """A refusal for each reason why an N5 array cannot stay in place; otherwise a note about readers."""
    refused = False
    for problem in _refusals(layout):
        refused = True
        yield problem
    if not refused:
        yield warning(
            "readers",
            f"the result can only be read where the codec {CODEC} is installed; "
            "for zarr-python, use `pip install zarr-n5`",
            found="blocks with N5's headers",
            advice="A copy to a new destination can be read everywhere.",
        )


def require_codec() -> None:
    """Raise UsageError if zarr-python lacks the codec here, so the result could not be verified."""
    from zarrstack.base import plugins  # reads the metadata of every package

    if not any(point.name == CODEC for point in plugins.registered("zarr.codecs")):
        raise UsageError(
            f"N5 arrays in place need the codec {CODEC}, which is not installed",
            advice="Install it: pip install zarr-n5. Or migrate to a new destination.",
        )


def _refusals(layout: Layout) -> Iterator[Problem]:
    assert isinstance(layout.frame, N5Blocks)
    if layout.data_type.name not in STANDARD:
        yield refusal(
            "unsupported",
            f"N5 and {CODEC} do not support this data type: blocks cannot stay in place",
            found=str(layout.data_type),
            expected=", ".join(sorted(STANDARD)),
            advice=_ADVICE,
        )
    for spec in layout.chain.codecs[layout.chain.middle + 1 :]:
        if not is_registered(spec.name):
            yield refusal(
                "unsupported",
                f"{CODEC} does not support this compression: blocks cannot stay in place",
                found=require_facts(spec.name).n5_type or str(spec),
                expected="raw, gzip, blosc or zstd",
                advice=_ADVICE,
            )
            return
    yield from keep_problems(layout.chain, layout.data_type, _ADVICE)

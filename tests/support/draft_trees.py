"""Small hierarchies of the 2022 draft of v3 for tests: documents as data, in either dialect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.format_readers import zarr_v3_draft
from tests.support.v2_trees import tree

from zarrlift.archive.nodes import Archive
from zarrlift.core.draft_v3.nodes import Dialect, DraftEntryPoint, write_entry

ENTRY = write_entry(DraftEntryPoint(dialect=Dialect.TEXT))
OLD_ENTRY = write_entry(DraftEntryPoint(dialect=Dialect.ZARR_PYTHON))
"""zarr-python's, whose keys have `root` in them."""
GROUP: dict[str, Any] = {"attributes": {}}
ARRAY: dict[str, Any] = {
    "shape": [4, 6],
    "data_type": "int32",
    "chunk_grid": {"type": "regular", "chunk_shape": [2, 3], "separator": "/"},
    "chunk_memory_layout": "C",
    "fill_value": 0,
    "extensions": [],
    "attributes": {},
}
CHUNK = bytes(24)
SHARDING = "https://purl.org/zarr/spec/storage_transformers/sharding/1.0"


def array(*, without: str = "", shards: list[int] | None = None, **changes: Any) -> dict[str, Any]:
    """An array's document that differs from a plain one; `shards` are chunks per shard."""
    document = {**ARRAY, **changes}
    if shards is not None:
        transformer = {
            "extension": SHARDING,
            "type": "indexed",
            "configuration": {"chunks_per_shard": shards},
        }
        document["storage_transformers"] = [transformer]
    return {name: value for name, value in document.items() if name != without}


def read(root: Path, entries: dict[str, Any], *, entry: Any = ENTRY, **options: Any) -> Archive:
    """The archive that these files make, its entry point besides."""
    return zarr_v3_draft.read(tree(root, {"zarr.json": entry, **entries}), **options)

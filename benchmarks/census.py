"""Processor time and memory of a census of many small archives, of all formats.

    python benchmarks/census.py [--archives 10000] [--folder DIR]

Each archive has two groups and three arrays, with 12 chunks in all; one in a hundred has a broken document.
The figures are in docs/howto/batch.md.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import struct
import tempfile
import time
from pathlib import Path
from typing import Any

SHAPE, CHUNK = [8, 8], [4, 4]
V2 = {
    "zarr_format": 2,
    "shape": SHAPE,
    "chunks": CHUNK,
    "dtype": "<u2",
    "compressor": {"id": "zlib", "level": 1},
}
V2 |= {"fill_value": 0, "order": "C", "filters": None}
V1 = {"zarr_format": 1, "shape": SHAPE, "chunks": CHUNK, "dtype": "<u2", "compression": "zlib"}
V1 |= {"compression_opts": 1, "fill_value": 0, "order": "C"}
N5 = {"dimensions": SHAPE, "blockSize": CHUNK, "dataType": "uint16", "compression": {"type": "raw"}}
V3 = {"zarr_format": 3, "node_type": "array", "shape": SHAPE, "data_type": "uint16", "fill_value": 0}
V3 |= {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": CHUNK}}, "attributes": {}}
V3 |= {
    "chunk_key_encoding": {"name": "default"},
    "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
}
DRAFT = {"zarr_format": "https://purl.org/zarr/spec/protocol/core/3.0", "extensions": []}
DRAFT |= {"metadata_encoding": "https://purl.org/zarr/spec/protocol/core/3.0", "metadata_key_suffix": ".json"}
DRAFT_ARRAY = {"shape": SHAPE, "chunk_grid": {"type": "regular", "chunk_shape": CHUNK, "separator": "/"}}
DRAFT_ARRAY |= {
    "data_type": "<u2",
    "chunk_memory_layout": "C",
    "fill_value": 0,
    "attributes": {},
    "extensions": [],
}
BLOCK = struct.pack(">HHII", 0, 2, *CHUNK) + bytes(32)
PLACES = [(i, j) for i in range(2) for j in range(2)]


def documents(kind: int) -> dict[str, Any]:
    """The files of an archive: JSON for objects, bytes as they are."""
    files: dict[str, Any] = {}
    arrays = ("raw", "labels/cells", "labels/nuclei")
    if kind == 0:
        files |= {".zgroup": {"zarr_format": 2}, "labels/.zgroup": {"zarr_format": 2}, ".zattrs": {"a": 1}}
        for name in arrays:
            files |= {f"{name}/.zarray": V2, **{f"{name}/{i}.{j}": b"x" * 30 for i, j in PLACES}}
    elif kind == 1:
        for name in arrays:
            files |= {f"{name}/meta": V1, f"{name}/attrs": {}}
            files |= {f"{name}/{i}.{j}": b"x" * 30 for i, j in PLACES}
    elif kind == 2:
        files["attributes.json"] = {"n5": "2.0.0"}
        for name in arrays:
            files |= {f"{name}/attributes.json": N5, **{f"{name}/{i}/{j}": BLOCK for i, j in PLACES}}
    elif kind == 3:
        group = {"zarr_format": 3, "node_type": "group", "attributes": {}}
        files |= {"zarr.json": group, "labels/zarr.json": group}
        for name in arrays:
            files |= {f"{name}/zarr.json": V3, **{f"{name}/c/{i}/{j}": bytes(32) for i, j in PLACES}}
    else:
        files |= {"zarr.json": DRAFT, "meta/root.group.json": {"attributes": {}, "extensions": []}}
        for name in arrays:
            files[f"meta/root/{name}.array.json"] = DRAFT_ARRAY
            files |= {f"data/root/{name}/c{i}/{j}": bytes(32) for i, j in PLACES}
    return files


def write(folder: Path, count: int) -> None:
    """Write the archives, 100 in each folder."""
    kinds = [documents(kind) for kind in range(5)]
    for number in range(count):
        root = folder / f"{number // 100:04}" / f"{number:06}.{'n5' if number % 5 == 2 else 'zarr'}"
        for name, content in kinds[number % 5].items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            data = content if isinstance(content, bytes) else json.dumps(content).encode()
            broken = number % 100 == 7 and name.startswith("raw/") and not isinstance(content, bytes)
            path.write_bytes(data[:20] if broken else data)


def main() -> None:
    """Write the archives, and print what a census of them takes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--archives", type=int, default=10_000)
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    folder = arguments.folder or Path(tempfile.mkdtemp())
    if not folder.exists() or not any(folder.iterdir()):
        write(folder, arguments.archives)

    import zarrlift

    began = time.process_time()
    census = zarrlift.census(folder)
    seconds = time.process_time() - began
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    print(f"{census.archives} archives, {census.arrays} arrays, {len(census.broken)} broken")
    print(f"{seconds:.1f} s of processor time, {memory:.0f} MB")
    if arguments.folder is None:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()

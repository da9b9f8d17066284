"""The fixtures of hdmf-zarr, and what damages them.

fixture("0.13", "session")                       # the folder; files("0.13", "session") names what is in it
expected("0.13", "session")["session.nwb.zarr"]  # what the hdmf-zarr that wrote it reads
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from tests.support.fixtures_index import entries
from tests.support.unpacking import FIXTURES, unpacked

OLD = ("0.11", "0.12", "0.13")
CASES = tuple(
    (version, path.stem) for version in OLD for path in sorted((FIXTURES / "hdmf" / version).glob("*.zip"))
)
"""(version, name) of every fixture on Zarr v2."""


def fixture(version: str, name: str) -> Path:
    """The folder of a fixture, to be read."""
    return unpacked(f"hdmf/{version}/{name}")


def expected(version: str, name: str) -> dict[str, Any]:
    """What the writer reads of each file of a fixture."""
    files: dict[str, Any] = entries(FIXTURES / "hdmf" / version)[name]["files"]
    return files


def files(version: str, name: str) -> tuple[str, ...]:
    """The names of the files in a fixture."""
    return tuple(expected(version, name))


def documents(root: Path, name: str = "zarr.json") -> dict[str, Any]:
    """Every document of a name below a root, by path of its node."""
    found = {
        path.parent.relative_to(root).as_posix(): json.loads(path.read_bytes()) for path in root.rglob(name)
    }
    return {("" if path == "." else path): document for path, document in sorted(found.items())}


def edit(path: Path, change: Callable[[Any], Any]) -> None:
    """Change a JSON document; `change` edits it, or gives another one."""
    document = json.loads(path.read_bytes())
    result = change(document)
    path.write_text(json.dumps(document if result is None else result))


def write_pickled(root: Path, path: str, payload: bytes, **document: Any) -> None:
    """An array of one object chunk with this payload, uncompressed, as hdmf-zarr lays references down."""
    place = root / path
    place.mkdir(parents=True, exist_ok=True)
    zarray = {
        "zarr_format": 2, "shape": [1], "chunks": [1], "dtype": "|O", "order": "C", "fill_value": 0,
        "compressor": None, "filters": [{"id": "pickle", "protocol": 5}],
    }  # fmt: skip
    (place / ".zarray").write_text(json.dumps(zarray | document))
    (place / ".zattrs").write_text(json.dumps({"zarr_dtype": "object"}))
    (place / "0").write_bytes(payload)


def small(root: Path) -> Path:
    """A file of hdmf-zarr with a group, a dataset and nothing else."""
    (root / "deep").mkdir(parents=True)
    for group in (root, root / "deep"):
        (group / ".zgroup").write_text('{"zarr_format": 2}')
    target = root / "deep" / "target"
    target.mkdir()
    zarray = {
        "zarr_format": 2, "shape": [4], "chunks": [4], "dtype": "<i8", "order": "C", "fill_value": 0,
        "compressor": None, "filters": None,
    }  # fmt: skip
    (target / ".zarray").write_text(json.dumps(zarray))
    (target / ".zattrs").write_text(json.dumps({"zarr_dtype": "int64"}))
    (target / "0").write_bytes(np.arange(4, dtype="<i8").tobytes())
    (root / ".zattrs").write_text(json.dumps({"namespace": "none"}))
    return root

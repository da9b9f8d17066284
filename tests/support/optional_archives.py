"""What zarr-python 2.18 wrote with optional packages, and the databases that tests make of a directory."""

from __future__ import annotations

import dbm.dumb
import json
import sqlite3
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from tests.support.unpacking import unpacked

KINDS = ("sqlite", "lmdb", "dumb")


def optional() -> Path:
    """The folder of the fixtures."""
    return unpacked("zarr_v2/zarr-2.18-optional/optional")


def tiff() -> Path:
    """The folder of the fixtures whose chunks are TIFF files."""
    return unpacked("zarr_v2/zarr-2.18-tiff/tiff")


@cache
def seen_by_zarr2(folder: Callable[[], Path] = optional) -> dict[str, dict[str, dict[str, Any]]]:
    """Archive in the folder -> path of each array -> what zarr-python 2.18 reads."""
    return json.loads((folder() / "values.json").read_text())


def seen(path: Path) -> dict[str, dict[str, Any]]:
    """Path of each array of a result -> what zarr-python 3 reads, in the form of the record."""
    root = zarr.open_group(str(path), mode="r", zarr_format=3)
    arrays = ((name, node) for name, node in root.members(max_depth=None) if isinstance(node, zarr.Array))
    return {name: _seen(array) for name, array in arrays}


def _seen(array: zarr.Array) -> dict[str, Any]:
    values = np.asarray(array[...])
    if values.dtype.kind in "OT":
        return {"shape": list(values.shape), "values": values.reshape(-1).tolist()}
    little = np.ascontiguousarray(values).astype(values.dtype.newbyteorder("<"))
    return {"shape": list(values.shape), "values": little.tobytes().hex()}


def values_of(record: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """A record without what zarr 3 spells differently: data types with a byte order, and fill values."""
    return {path: {"shape": array["shape"], "values": array["values"]} for path, array in record.items()}


def database_of(kind: str, folder: Path, place: Path) -> Path:
    """A database with the files of a folder as zarr-python 2 stores them; returns what a user names."""
    objects = {
        file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()
    }
    place.parent.mkdir(parents=True, exist_ok=True)
    if kind == "sqlite":
        with sqlite3.connect(place) as database:
            database.execute("CREATE TABLE zarr(k TEXT PRIMARY KEY, v BLOB)")
            database.executemany("INSERT INTO zarr VALUES (?, ?)", objects.items())
        database.close()
    elif kind == "lmdb":
        import lmdb

        with lmdb.open(str(place), map_size=64 << 20) as environment, environment.begin(write=True) as txn:
            for key, data in objects.items():
                txn.put(key.encode(), data)
        (place / "lock.mdb").unlink()
    else:
        with dbm.dumb.open(str(place), "n") as database:
            for key, data in objects.items():
                database[key] = data
        return place.with_name(f"{place.name}.dir")
    return place

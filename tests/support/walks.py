"""Counts how often a reader who follows a run has to go to another file: `python -m tests.support.walks`.

A walk is the sequence of calls of functions in our packages, in all threads. What is counted are calls whose
file differs from that of the call before it in its thread, in the second run in a process, since the first
one imports. With `--list`, the files are printed in order.
"""

from __future__ import annotations

import argparse
import gzip
import json
import struct
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import zarr

import zarrlift
import zarrstack
from zarrlift.recipe.recipe import ArrayRecipe, Recipe
from zarrlift.transfer.counts import MoveResult
from zarrlift.transfer.tasks import Task
from zarrlift.transfer.worker import Worker

PACKAGES = tuple(str(Path(package.__file__).parent) for package in (zarrlift, zarrstack) if package.__file__)


class Walk:
    """The files of the calls in each thread, while it is `walked`."""

    def __init__(self) -> None:
        self.files: dict[int, list[str]] = {}

    def note(self, frame: FrameType, event: str, _: Any) -> None:
        """A profile function."""
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(PACKAGES):
            files = self.files.setdefault(threading.get_ident(), [])
            if not files or files[-1] != file:
                files.append(file)

    @property
    def changes(self) -> int:
        """How often the file changed."""
        return sum(map(len, self.files.values()))


@contextmanager
def walked(walk: Walk) -> Iterator[None]:
    """Count calls in this thread, and in those that it starts."""
    threading.setprofile(walk.note)
    sys.setprofile(walk.note)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def write_v2(path: Path) -> None:
    """An array of four chunks."""
    array = zarr.create_array(path, shape=(8, 8), chunks=(4, 4), dtype="<i2", zarr_format=2)
    array[...] = np.arange(64).reshape(8, 8)


def write_n5(path: Path) -> None:
    """An array of four blocks, of which three are cut as Java's N5 cuts them."""
    place = path / "a"
    document = {
        "dimensions": [6, 6],
        "blockSize": [4, 4],
        "dataType": "uint16",
        "compression": {"type": "gzip", "level": 6},
    }
    for i, j in product(range(2), range(2)):
        shape = (4 - 2 * i, 4 - 2 * j)
        file = place / str(i) / str(j)
        file.parent.mkdir(parents=True, exist_ok=True)
        header = struct.pack(">HH2I", 0, 2, *shape)
        file.write_bytes(header + gzip.compress(np.ones(shape, ">u2").tobytes()))
    (path / "attributes.json").write_text('{"n5": "2.5.1"}')
    (place / "attributes.json").write_text(json.dumps(document))


def of_tasks(source: Path, recipe: Recipe | None = None) -> Walk:
    """The walk of the tasks of a migration, in whatever thread they run."""
    walk, run = Walk(), Worker.run

    def followed(self: Worker, task: Task) -> MoveResult:
        with walked(walk):
            return run(self, task)

    for number in range(2):
        walk.files.clear()
        Worker.run = followed  # type: ignore[method-assign]
        try:
            zarrlift.migrate(source, source.with_suffix(f".{number}"), recipe=recipe)
        finally:
            Worker.run = run  # type: ignore[method-assign]
    return walk


def of_verify(source: Path) -> Walk:
    """The walk of a comparison of an array with its result."""
    walk, result = Walk(), source.with_suffix(".result")
    zarrlift.migrate(source, result)
    zarrlift.verify(source, result)
    with walked(walk):
        zarrlift.verify(source, result)
    return walk


def main() -> None:
    """Print three walks: of a copy, of N5 blocks into a shard, of `verify`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="print the files of each walk")
    listed = parser.parse_args().list
    with tempfile.TemporaryDirectory() as folder:
        v2, n5 = Path(folder, "v2"), Path(folder, "n5")
        write_v2(v2)
        write_n5(n5)
        in_shards = Recipe(base=ArrayRecipe(shards="2x"))
        walks = {
            "the task of a v2 copy of four chunks": of_tasks(v2),
            "the task of an N5 array with three cut blocks into a shard": of_tasks(n5, in_shards),
            "verify of one array": of_verify(v2.with_suffix(".0")),
        }
    for name, walk in walks.items():
        print(f"{walk.changes:5} {name}")
        for files in walk.files.values() if listed else ():
            print(*(f"      {Path(*Path(file).parts[-3:])}" for file in files), sep="\n")


if __name__ == "__main__":
    main()

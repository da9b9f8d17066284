"""Archives that jobs are tried on; zarr-python writes each once in a process, and every test has a copy."""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import numpy as np
import zarr
from numcodecs import Blosc, Delta, Zlib
from tests.support.fixtures_index import archive

import zarrlift
from zarrlift.cli import demo

# Archives that many tests need: zarr-python writes each once in a process, and every test has a copy.


def written_once(write: Callable[[Path], None]) -> Callable[[Path], Path]:
    """Make a function that writes an archive at a path into one that puts the same files there, faster."""

    @functools.cache
    def files() -> dict[str, bytes]:
        with TemporaryDirectory() as folder:
            write(Path(folder))
            return tree(Path(folder))

    @functools.wraps(write)
    def copy(path: Path) -> Path:
        shutil.rmtree(path, ignore_errors=True)
        content = files()
        for folder in {os.path.dirname(name) for name in content}:
            os.makedirs(path / folder, exist_ok=True)
        for name, data in content.items():
            with open(f"{path}/{name}", "wb") as file:
                file.write(data)
        return path

    return copy


def tree(path: Path) -> dict[str, bytes]:
    """Every regular file below a path, by relative name."""
    return dict(_files(os.fspath(path), "")) if path.exists() else {}


def _files(folder: str, above: str) -> Iterator[tuple[str, bytes]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            name = above + entry.name
            if entry.is_dir(follow_symlinks=False):
                yield from _files(entry.path, f"{name}/")
            elif entry.is_file(follow_symlinks=False):
                with open(entry.path, "rb") as file:
                    yield name, file.read()


# Small archives with a bit of everything that a job has to carry, and what to look at afterwards.


OTHERS = {
    "zarr_v1": ("zarr_v1/zarr-1.1/arrays", "shapes"),
    "zarr_v3_draft": ("zarr_v3_draft/may-2022/tree", ""),
    "n5": ("n5/java-3.5.1/root", ""),
}
"""Of each format but Zarr v2: a fixture and a group in it that serves as an archive of its own."""


def other_archive(format: str, path: Path) -> Path:
    """A copy of the small archive of a format."""
    name, group = OTHERS[format]
    shutil.copytree(archive(name).path / group, path)
    return path


@written_once
def write_archive(path: Path) -> None:
    """blosc (relink), zlib (recode), Delta (rewrite); missing chunks; consolidated metadata."""
    rng = np.random.default_rng(7)
    root = zarr.open_group(str(path), mode="w", zarr_format=2, attributes={"title": "a job's archive"})
    relinked = root.create_array(
        "g/relink", shape=(40, 43), chunks=(8, 9), dtype="<u2", compressors=Blosc("lz4")
    )
    relinked[...] = rng.integers(0, 50, (40, 43))
    recoded = root.create_array("g/recode", shape=(150,), chunks=(7,), dtype=">i4", compressors=Zlib(1))
    recoded[:100] = rng.integers(0, 1000, 100)
    rewritten = root.create_array(
        "h/rewrite", shape=(30, 20), chunks=(7, 7), dtype="<i4", filters=[Delta("<i4")], compressors=None
    )
    rewritten[...] = rng.integers(0, 1000, (30, 20))
    root.create_array("empty", shape=(4,), chunks=(2,), dtype="<f8")
    zarr.consolidate_metadata(str(path), zarr_format=2)


def _image() -> list[np.ndarray]:
    """An image in two resolutions."""
    image = np.arange(20 * 100 * 130).reshape(20, 100, 130) % 1009
    return [image, image[::2, ::2, ::2]]


def _of_an_image(write: Callable[[Path], None]) -> Callable[[Path], None]:
    return mock.patch.object(demo, "_cells", _image)(write)


ocean = written_once(demo.write_ocean)
cells, spots = (written_once(_of_an_image(write)) for write in (demo.write_cells, demo.write_spots))
"""What `zarrlift demo` writes, with a smaller image."""


def write_demo(path: Path) -> Path:
    """All three."""
    for write, name in ((ocean, "ocean.zarr"), (cells, "cells.n5"), (spots, "spots.zarr")):
        write(path / name)
    return path


def results(path: Path) -> dict[str, bytes]:
    """The same without jobs and lists."""
    return {name: content for name, content in tree(path).items() if ".zarrlift." not in name}


def values(path: Path, version: int) -> dict[str, object]:
    """Every array's values, as zarr-python reads them; the same files are read once."""
    if any(file.is_symlink() for file in path.rglob("*")):  # which may lead to other files
        return _values(path, version)
    digest = hashlib.sha256(repr((version, sorted(tree(path).items()))).encode()).digest()
    if digest not in _READ:
        _READ[digest] = _values(path, version)
    return dict(_READ[digest])


_READ: dict[bytes, dict[str, object]] = {}


def _values(path: Path, version: int) -> dict[str, object]:
    root = zarr.open_group(str(path), mode="r", zarr_format=version, use_consolidated=False)
    with warnings.catch_warnings():
        # In place, zarr-python wonders about the documents of the other format.
        warnings.filterwarnings("ignore", message="Object at")
        nodes = list(root.members(max_depth=None))
    arrays = ((name, node) for name, node in nodes if isinstance(node, zarr.Array))
    return {name: np.asarray(array[...]).tolist() for name, array in arrays}


def migrated(source: Path | str, destination: Any, **options: Any) -> Any:
    """The destination, to which the source was migrated."""
    outcome = zarrlift.migrate(source, destination, **options)
    assert outcome.ok, outcome.problems
    return destination


def rewritten(file: Path, content: bytes) -> None:
    """Give a file another content, with a later time however coarse the clock of the file system is."""
    file.write_bytes(content)
    later(file)


def later(file: Path) -> None:
    """Give a file a time as if it were written now."""
    now = time.time_ns() + 10**9
    os.utime(file, ns=(now, now))

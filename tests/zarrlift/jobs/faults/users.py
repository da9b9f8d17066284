"""What people do to an archive and to the result of a job, between commands."""

from __future__ import annotations

import json
import os
import random
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np
import zarr
from tests.zarrlift.jobs.faults.living_archive import Archive
from tests.zarrlift.jobs.faults.site import Site, changed, stamps


def act(site: Site, word: str, rng: random.Random) -> str | None:
    """Do it, and say what was done; None if there is nothing to do it to."""
    if word in _SOURCE:
        if site.finishing or site.is_stray:
            return None  # there is no source any more
        archive = site.archive
        name = rng.choice(sorted(archive.arrays)) if archive.arrays else ""
        what = _SOURCE[word](site, archive, name, rng) if name or word == "add" else None
        return what and f"{archive.root}: {what}"
    return _RESULT[word](site, rng) if site.result.exists() and not site.is_stray else None


# The source


def _rewrite(site: Site, archive: Archive, name: str, rng: random.Random) -> str:
    archive.rewrite(name, rng)
    return f"chunks of {name} are rewritten"


def _delete_chunk(site: Site, archive: Archive, name: str, rng: random.Random) -> str:
    archive.delete_chunk(name, rng)
    return f"a chunk of {name} is deleted"


def _damage(site: Site, archive: Archive, name: str, rng: random.Random) -> str:
    archive.damage(name, rng)
    return f"a chunk of {name} is damaged"


def _heal(site: Site, archive: Archive, name: str, rng: random.Random) -> str:
    archive.heal(rng)
    return "damaged chunks are written again"


def _grow(site: Site, archive: Archive, name: str, rng: random.Random) -> str:
    rows, columns = archive.arrays[name].shape
    shape = (rows + rng.randint(1, 12), columns + rng.choice((0, 0, 4)))
    archive.resize(name, shape, rng, longer=True)
    return f"{name} grows from {(rows, columns)} to {shape}"


def _stretch(site: Site, archive: Archive, name: str, rng: random.Random) -> str:
    rows, columns = archive.arrays[name].shape
    shape = (rows + rng.randint(1, 16), columns + rng.choice((0, 4)))
    archive.resize(name, shape, rng, longer=True, filled=0.1)
    return f"{name} grows from {(rows, columns)} to {shape}, with few new chunks"


def _shrink(site: Site, archive: Archive, name: str, rng: random.Random) -> str:
    rows, columns = archive.arrays[name].shape
    shape = (max(rows - rng.randint(1, 12), 3), max(columns - rng.choice((0, 0, 4)), 3))
    archive.resize(name, shape, rng, longer=False)
    return f"{name} shrinks from {(rows, columns)} to {shape}"


def _set_attribute(site: Site, archive: Archive, name: str, rng: random.Random) -> str:
    archive.set_attribute(name)
    return f"an attribute of {name} is set"


def _add(site: Site, archive: Archive, name: str, rng: random.Random) -> str | None:
    new = rng.choice(("n0", "g/n1"))
    if new in archive.arrays:
        return None
    archive.add(new, rng.choice(((10, 12), (7, 20))), (4, 5), rng)
    return f"{new} is added"


def _remove(site: Site, archive: Archive, name: str, rng: random.Random) -> str | None:
    if len(archive.arrays) < 2:
        return None
    archive.remove(name)
    return f"{name} is deleted"


def _reform(site: Site, archive: Archive, name: str, rng: random.Random) -> str | None:
    if site.in_place:
        return None  # its document would be wrong until the update, which nobody expects otherwise
    archive.reform(name, rng)
    return f"{name} is made again in another form"


# The result


def _touch_attribute(site: Site, rng: random.Random) -> str | None:
    documents = sorted(path for path in site.result.rglob("zarr.json") if "theirs" not in str(path))
    if not documents:
        return None
    path = rng.choice(documents)
    content = json.loads(path.read_bytes())
    content.setdefault("attributes", {})["user"] = rng.randrange(1000)
    _replace(path, json.dumps(content).encode())
    site.others[path] = path.read_bytes()
    site.given_up.discard(path)
    return f"{path}: a user sets an attribute"


def _add_file(site: Site, rng: random.Random) -> str | None:
    hidden = ("theirs", "/.")  # not into the job's own folders
    folders = sorted(
        path
        for path in site.result.rglob("*")
        if path.is_dir() and not any(mark in str(path) for mark in hidden)
    )
    folder = rng.choice([site.result, *folders])
    path = folder / f"theirs-{rng.randrange(1000)}.txt"
    if path in site.others:
        return None
    path.write_bytes(b"notes")
    site.others[path] = b"notes"
    return f"{path}: a user adds a file"


def _add_array(site: Site, rng: random.Random) -> str | None:
    name = f"theirs-{rng.randrange(1000)}"
    if (site.result / name).exists() or site.in_place:
        return None
    zarr.create_array(site.result / name, shape=(4,), chunks=(2,), dtype="u1")[:] = 9
    for path in (site.result / name).rglob("*"):
        if path.is_file():
            site.others[path] = path.read_bytes()
    return f"{site.result / name}: a user adds an array"


def _write(site: Site, rng: random.Random) -> str | None:
    """A user writes an object of the result, where no command was interrupted."""
    names = sorted(site.visible)
    if not names or site.in_place or site.updating or site.state() != "done":
        return None
    name = rng.choice(names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        array = zarr.open_array(site.result / name, mode="r+", zarr_format=3)
        sizes = array.shards or array.chunks
        position = tuple(
            rng.randrange(-(-length // size)) for length, size in zip(array.shape, sizes, strict=True)
        )
        pairs = zip(position, sizes, array.shape, strict=True)
        region = tuple(slice(at * size, min((at + 1) * size, length)) for at, size, length in pairs)
        shape = tuple(one.stop - one.start for one in region)
        values = np.random.default_rng(rng.randrange(1 << 32)).integers(1, 60_000, shape).astype(array.dtype)
        before = stamps(site.result)
        array[region] = values
    written = changed(before, stamps(site.result))
    site.expect(name).overlays[position] = values
    for file in written:
        site.others[Path(file)] = Path(file).read_bytes()
        site.given_up.discard(Path(file))
    return f"{', '.join(written)}: a user writes values"


def _replace(path: Path, content: bytes) -> None:
    temporary = path.with_name(path.name + ".partial")
    temporary.write_bytes(content)
    os.replace(temporary, path)


_SOURCE: Final[dict[str, Callable[[Site, Archive, str, random.Random], str | None]]] = {
    "rewrite": _rewrite,
    "delete-chunk": _delete_chunk,
    "damage": _damage,
    "heal": _heal,
    "grow": _grow,
    "stretch": _stretch,
    "shrink": _shrink,
    "attribute": _set_attribute,
    "add": _add,
    "remove": _remove,
    "reform": _reform,
}
_RESULT: Final[dict[str, Callable[[Site, random.Random], str | None]]] = {
    "touch-attribute": _touch_attribute,
    "add-file": _add_file,
    "add-array": _add_array,
    "write": _write,
}
ACTS: Final = frozenset({*_SOURCE, *_RESULT})

"""What people do between commands: to an archive, to the result of a job, and to job files and folders."""

from __future__ import annotations

import json
import os
import random
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np
import zarr
from tests.zarrlift.jobs.faults.living_archive import Archive
from tests.zarrlift.jobs.faults.play import Play
from tests.zarrlift.jobs.faults.site import Site, changed, stamps


def act(site: Site, word: str, rng: random.Random) -> str | None:
    """Do it, and say what was done; None if there is nothing to do it to."""
    if word in _SOURCE:
        if site.finishing or site.is_stray:
            return None  # there is no source any more
        if site.in_place and site.linked:
            return None  # what a link of the source leads to is the result's, too
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


def _lose(site: Site, rng: random.Random) -> str | None:
    """A user removes an object, a directory of them, or an array with its document."""
    names = sorted(site.visible)
    if not names or site.in_place or site.state() != "done" or site.updating:
        return None
    name = rng.choice(names)
    root = site.result / name
    objects = sorted(path for path in root.rglob("*") if path.is_file() and "c" in path.parts)
    if not objects:
        return None
    one = rng.choice(objects)
    place = rng.choice((one, one, one.parent, root))
    place.unlink() if place is one else shutil.rmtree(place)
    site.others = {path: content for path, content in site.others.items() if path.exists()}
    site.lost.add(name)
    return f"{place}: a user removes it"


def _link(site: Site, rng: random.Random) -> str | None:
    """A user puts a link in place of a directory of the result: to what is of others, or to the source."""
    folders = sorted(path for path in site.result.rglob("*") if path.is_dir() and "theirs" not in str(path))
    if not folders or site.linked or site.is_copy:
        return None
    place, elsewhere = rng.choice(folders), site.folder / "elsewhere"
    if not elsewhere.exists():
        elsewhere.mkdir()
        (elsewhere / "zarr.json").write_bytes(b"of others")
    away = site.folder / "away"
    place.rename(away)
    place.symlink_to(rng.choice((elsewhere, site.archive.root)), target_is_directory=True)
    site.linked = place, away
    return f"{place}: a user puts a link to {place.readlink()} in its place"


def _unlink(site: Site, rng: random.Random) -> str | None:
    """A user puts back what `link` has replaced."""
    if site.linked is None:
        return None
    (place, away), site.linked = site.linked, None
    place.unlink()
    away.rename(place)
    return f"{place}: a user puts it back"


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
    "lose": _lose,
    "link": _link,
    "unlink": _unlink,
}
ACTS: Final = frozenset({*_SOURCE, *_RESULT})


# Job files, results and folders that are copied, moved, and put back as they were.


class Files:
    """What people do with the files of the sites of a life."""

    def __init__(self, play: Play, sites: list[Site]) -> None:
        self._play = play
        self._sites = sites
        self._saved: dict[int, dict[Path, bytes]] = {}

    def __call__(self, word: str, site: Site) -> None:
        """Do one of `FILES`, if that is possible."""
        _ACTS[word](self, site)

    def _is_shared(self, site: Site) -> bool:
        return any(other is not site and other.archive is site.archive for other in self._sites)

    # Copies

    def _copy_folder(self, site: Site) -> None:
        if site.is_stray or {site.archive.root.parent, site.job.parent} != {site.folder}:
            return
        new, old = self._play.new_folder(), site.folder
        self._play.shell("cp", "-a", f"{old}/.", str(new))
        self._add(site, new, new, site.archive.copied(new / site.archive.root.name))

    def _copy_result(self, site: Site) -> None:
        if site.is_stray or site.in_place or site.folder != site.job.parent or not site.result.exists():
            return
        new = self._play.new_folder()
        self._play.shell("cp", "-a", *_with_prefix(site.result), f"{new}/")
        self._add(site, new, new, site.archive)

    def _copy_job(self, site: Site) -> None:
        if site.is_stray or not site.job.exists() or site.displaced:
            return
        new = self._play.new_folder()
        self._play.shell("cp", "-a", *_with_prefix(site.job), f"{new}/")
        self._add(site, site.folder, new, site.archive)
        self._sites[-1].is_stray = True

    def replaced_by(self, stray: Site) -> Site:
        """The site whose result was named for a copy of its job file, which takes that file's place.

        The copy may be older, as one that is put back.
        """
        others = [other for other in self._sites if other.result == stray.result and not other.is_stray]
        if not others:
            return stray  # the only job of its result, which was moved alone
        site = others[0]
        self._saved.pop(self._sites.index(site), None)
        for path in map(Path, _with_prefix(site.job)):
            path.unlink()
        self._play.told.done.append(f"# {site.job} is deleted")
        site.job, site.displaced, site.rolled_back = stray.job, False, True
        self._sites[:] = [site if other is stray else other for other in self._sites]
        return site

    def put_back(self, site: Site) -> None:
        """Move a job file back to its result."""
        self._play.shell("mv", *_with_prefix(site.job), f"{site.result.parent}/")
        site.job = site.result.parent / site.job.name

    def _add(self, site: Site, folder: Path, job_folder: Path, archive: Archive) -> None:
        other = site.moved_to(folder / site.result.name, job_folder / site.job.name, archive)
        other.is_copy = other.displaced = True
        self._sites.append(other)

    # Moves

    def _move_folder(self, site: Site) -> None:
        if self._is_shared(site) or {site.archive.root.parent, site.job.parent} != {site.folder}:
            return
        new, old = self._play.new_folder(), site.folder
        self._play.shell("mv", *map(str, sorted(old.iterdir())), f"{new}/")
        site.archive.root = new / site.archive.root.name
        self._move(site, new / site.result.name, new / site.job.name)

    def _move_result(self, site: Site) -> None:
        if site.in_place or self._is_shared(site) or not site.result.exists():
            return
        if site.job.parent == site.folder:
            new = self._play.new_folder()
            self._play.shell("mv", *_with_prefix(site.result), f"{new}/")
            self._move(site, new / site.result.name, new / site.job.name)

    def _move_job(self, site: Site) -> None:
        if not self._is_shared(site) and site.job.exists():
            new = self._play.new_folder()
            self._play.shell("mv", *_with_prefix(site.job), f"{new}/")
            self._move(site, site.result, new / site.job.name)

    def _move(self, site: Site, result: Path, job: Path) -> None:
        before, site.result, site.job = site.result, result, job
        site.rename_result(before)
        site.displaced = True

    # Older copies of a job file

    def _save(self, site: Site) -> None:
        paths = map(Path, _with_prefix(site.job))
        self._saved[self._sites.index(site)] = {path: path.read_bytes() for path in paths}
        self._play.told.done.append(f"# {site.job} is saved")

    def _roll_back(self, site: Site) -> None:
        saved = self._saved.get(self._sites.index(site), {})
        if site.job not in saved or site.is_stray:
            return
        for path in map(Path, _with_prefix(site.job)):
            path.unlink()
        for path, content in saved.items():
            path.write_bytes(content)
        site.rolled_back = True
        self._play.told.done.append(f"# {site.job} is put back as it was saved")


def _with_prefix(path: Path) -> list[str]:
    """A file or folder, and what is beside it under longer names."""
    return sorted(str(other) for other in path.parent.glob(f"{path.name}*"))


_ACTS: Final[dict[str, Callable[[Files, Site], None]]] = {
    "copy-folder": Files._copy_folder,
    "copy-result": Files._copy_result,
    "copy-job": Files._copy_job,
    "move-folder": Files._move_folder,
    "move-result": Files._move_result,
    "move-job": Files._move_job,
    "save": Files._save,
    "roll-back": Files._roll_back,
}
FILES: Final = frozenset(_ACTS)

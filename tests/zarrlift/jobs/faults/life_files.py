"""Job files, results and folders that are copied, moved, and put back as they were."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.zarrlift.jobs.faults.living_archive import Archive
from tests.zarrlift.jobs.faults.play import Play
from tests.zarrlift.jobs.faults.site import Site


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
        (site,) = {
            id(other): other for other in self._sites if other.result == stray.result and not other.is_stray
        }.values()
        self._saved.pop(self._sites.index(site), None)
        for path in map(Path, _with_prefix(site.job)):
            path.unlink()
        self._play.told.done.append(f"# {site.job} is deleted")
        site.job, site.displaced, site.rolled_back = stray.job, False, True
        self._sites[:] = [site if other is stray else other for other in self._sites]
        return site

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

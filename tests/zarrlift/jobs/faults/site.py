"""A place with an archive, the result of a job and its job file; what is there, and what should be."""

from __future__ import annotations

import copy
import os
import shutil
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

from tests.zarrlift.jobs.faults.judging import Expected, judged, visible_arrays
from tests.zarrlift.jobs.faults.living_archive import Archive

Stamps: TypeAlias = dict[str, tuple[int, int, int]]
"""Inode, size and modification time of every file."""
LEGACY = frozenset({".zarray", ".zattrs", ".zgroup", ".zmetadata", "attributes.json"})
"""Documents that `finish` deletes."""
_SAID_OF_ALL = (
    "is gone",
    "are gone",
    "moved, deleted or replaced",
    "belongs to a different job",
    "cannot open the job file",
)


@dataclass(slots=True, kw_only=True)
class Site:
    """A source, a result and a job, with what users know of them."""

    archive: Archive
    result: Path
    job: Path
    in_place: bool
    expected: dict[str, Expected] = field(default_factory=dict)
    others: dict[Path, bytes] = field(default_factory=dict)
    """What users have put into the result."""
    given_up: set[Path] = field(default_factory=set)
    """Of these, what an update with --force may have replaced."""
    rewritten: set[Path] = field(default_factory=set)
    """Objects that were links to files of the source, when these were rewritten in place."""
    lost: set[str] = field(default_factory=set)
    """Arrays of which users have removed objects since a command has last succeeded."""
    linked: tuple[Path, Path] | None = None
    """A directory of the result that a link replaces, and where it was moved."""
    visible: set[str] = field(default_factory=set)
    """Arrays that were visible after the last command."""
    updating: bool = False
    """An update was begun and has not succeeded since."""
    forced: bool = False
    """With --force, with which later commands continue it."""
    finishing: bool = False
    """`finish` was begun."""
    is_swept: bool = False
    """The last undo came to its end; one that was killed may leave its claim for the next."""
    displaced: bool = False
    """Source, result or job is not where the job recorded it."""
    is_copy: bool = False
    is_stray: bool = False
    """Only the job file was copied."""
    is_named: bool = False
    """A command that was killed has named the result of a stray job, which may go on there."""
    rolled_back: bool = False
    """An older copy of the job file was put back."""

    # What is there

    @property
    def folder(self) -> Path:
        """Where the result is."""
        return self.result.parent

    @property
    def transposed(self) -> bool:
        """Whether the result has the axes of N5, in reverse."""
        return self.in_place and self.archive.format == "n5"

    def notes(self) -> dict[str, str]:
        """The notes of the job file; empty without one."""
        return dict(rows_of(self.job, "SELECT name, value FROM meta"))

    def state(self) -> str | None:
        """The state of the job; None without a job."""
        notes = self.notes()
        return "undoing" if notes.get("undoing") else notes.get("state")

    def is_at_home(self) -> bool:
        """Whether the job file has recorded that it is where it is."""
        return self.notes().get("home") == os.path.realpath(self.job)

    @property
    def beside(self) -> Path:
        """What stands beside the job file: the result of a job that was not told of another one."""
        return self.job.with_name(self.job.name.removesuffix(".zarrlift.db"))

    def owns(self, path: str) -> bool:
        """Whether commands at this site may change a file."""
        if path.startswith(str(self.job)) or _is_of(self.beside, path):
            return True
        return (self.is_named or not self.is_stray) and self.owns_adopted(path)

    def owns_adopted(self, path: str) -> bool:
        """The same for a command that names the places of the job."""
        return path.startswith(str(self.job)) or _is_of(self.result, path)

    # What should be there

    def expect(self, name: str) -> Expected:
        """What may be seen of an array."""
        return self.expected.setdefault(name, Expected())

    def expect_present_versions(self, *, mixed: bool) -> None:
        """A command that writes has run: the present versions of the arrays may be seen from now on.

        `mixed`: objects of arrays that were visible may have been replaced one by one.
        """
        for name, version in self.archive.now.items():
            expected = self.expect(name)
            expected.add(version)
            expected.mixed = expected.mixed or (mixed and name in self.visible)

    def expect_linked_files(self) -> None:
        """Files shared with the source were rewritten in place: the result shows them at once."""
        self.expect_present_versions(mixed=True)
        for name, array in self.archive.arrays.items():
            expected = self.expect(name)
            for version in list(expected.versions):
                if version.values.shape != array.shape:
                    expected.add(array.version(version.values.shape, version.mark))

    def wrong_arrays_beside(self) -> list[str]:
        """What is wrong with the result that a job has begun beside it, where only its file is."""
        names = visible_arrays(self.beside) if self.beside.exists() else ()
        judgements = (
            (name, judged(self.beside / name, self.expect(name), transposed=self.transposed))
            for name in names
        )
        return [f"{self.beside}/{name} {problem}" for name, problem in judgements if problem]

    def wrong_arrays(self) -> list[str]:
        """What is wrong with what a reader sees."""
        if not self.result.exists():
            self.visible = set()
            return []
        wrong = []
        names = [name for name in visible_arrays(self.result) if not self._is_of_others(name)]
        for name in names:
            if self.in_place and name not in self.archive.arrays:
                continue  # its chunks are gone with those of the source
            expected = self._of_source(name) if self.in_place else self.expect(name)
            if name in self.lost:
                continue
            if problem := judged(self.result / name, expected, transposed=self.transposed):
                wrong.append(f"{self.result}/{name} {problem}")
        self.visible = set(names)
        for name in self.expected.keys() - self.visible:
            self.expected[name].mixed = False
        return wrong

    def lost_and_not_named(self, said: str) -> list[str]:
        """Arrays that are visible without their objects, and of which a command says nothing.

        Where documents are gone too, or the job cannot be opened, it says so of the result as a whole.
        """
        if any(words in said for words in _SAID_OF_ALL):
            return []
        names = sorted(name for name in self.lost & self.visible if name not in said)
        return [f"{self.result}/{name} is visible without its objects, and is not named" for name in names]

    def _is_of_others(self, name: str) -> bool:
        return name.startswith("theirs")

    def _of_source(self, name: str) -> Expected:
        """In place the chunks are those of the source, whatever it contains now; a document may be older."""
        expected = self.expect(name)
        array = self.archive.arrays[name]
        documents = {(version.values.shape, version.mark) for version in expected.versions}
        return Expected([array.version(shape, mark) for shape, mark in sorted(documents)])

    def missing_others(self) -> list[str]:
        """What users have put into the result, and is gone or changed."""
        wrong = []
        for path, content in list(self.others.items()):
            found = path.read_bytes() if path.is_file() else None
            if found == content:
                continue
            if path in self.given_up:
                continue
            wrong.append(f"{path}, which a user has {'written' if found is None else 'changed'}, is lost")
        return wrong

    def missing_of_source(self) -> list[str]:
        """Files of the source that are missing or changed; `finish` may have removed documents."""
        wrong = []
        for key, content in self.archive.files.items():
            path = self.archive.root / key
            found = path.read_bytes() if path.is_file() else None
            if found is None and self.finishing and path.name in LEGACY:
                continue
            if found != content:
                wrong.append(f"{path} of the source is {'missing' if found is None else 'changed'}")
        return [f"{wrong[0]}, with {len(wrong)} files"] if wrong else []

    def left_after_undo(self) -> list[str]:
        """What is not others' and was left by an undo that has ended; an older job file knows less."""
        if self.rolled_back:
            return []
        allowed = set(self.others)
        if self.in_place:
            allowed |= {self.archive.root / key for key in self.archive.files}
        touched = [path.parent for path in self.others if path.name == "zarr.json"]
        left = [
            path
            for path in [*files_below(self.result), *self._beside()]
            if path not in allowed
            and not (self.is_copy and path.name.endswith(".claim"))  # copied, of another process
            and not any(self._in_array(path, folder) for folder in touched)
            and not self._was_link(path)
        ]
        names = [str(path) for path in sorted(left)]
        return [f"left by undo: {len(names)} files: {names[:4]}"] if names else []

    def begin_again(self) -> None:
        """Nothing is left of the job; arrays that users have made their own stay as they are."""
        self.updating = self.forced = self.finishing = False
        for path in self.expected.keys() - self.visible:
            self.expected[path] = Expected()

    def _in_array(self, path: Path, folder: Path) -> bool:
        """Whether a file belongs to an array whose document a user has changed, so that it stays."""
        name = folder.relative_to(self.result).as_posix()
        return name in self.visible and path.is_relative_to(folder)

    def _was_link(self, path: Path) -> bool:
        """Whether the source rewrote a file, and undo cannot know: a user may have written it as well.

        The source has deleted its own name, or is not beside the result, so that the job does not find it.
        """
        is_apart = self.archive.root.parent != self.folder
        return path in self.rewritten and (is_apart or path.stat().st_nlink == 1)

    def _beside(self) -> Iterable[Path]:
        for path in [*self.folder.glob(f"{self.result.name}.*"), *self.beside_job()]:
            if path != self.job:
                yield path

    def beside_job(self) -> Iterable[Path]:
        """The job file, and what is beside it under longer names."""
        return self.job.parent.glob(f"{self.job.name}*")

    # Copies

    def moved_to(self, result: Path, job: Path, archive: Archive) -> Site:
        """The same where its files were copied or moved."""
        other = replace(
            self,
            archive=archive,
            result=result,
            job=job,
            expected=copy.deepcopy(self.expected),
            others=dict(self.others),
            given_up=set(self.given_up),
            rewritten=set(self.rewritten),
            lost=set(self.lost),
            visible=set(self.visible),
        )
        other.rename_result(self.result)
        return other

    def rename_result(self, before: Path) -> None:
        """The result was at another place."""
        self.others = {
            self.result / path.relative_to(before): content for path, content in self.others.items()
        }
        self.given_up = {self.result / path.relative_to(before) for path in self.given_up}
        self.rewritten = {
            self.result / path.relative_to(before) for path in self.rewritten if path.is_relative_to(before)
        }

    def give_up(self) -> None:
        """An update with --force was begun: others' documents and objects may be replaced."""
        self.given_up |= {path for path in self.others if not _is_foreign(path)}


def rows_of(job: Path, query: str) -> list[Any]:
    """Rows of a job file; none without one."""
    if not job.exists():
        return []
    # A copy, because a reader would roll back what a killed command has left in the journal.
    with TemporaryDirectory() as folder:
        for path in (job, job.with_name(f"{job.name}-journal")):
            if path.exists():
                shutil.copy(path, folder)
        try:
            with closing(sqlite3.connect(Path(folder) / job.name)) as database:
                return list(database.execute(query))
        except sqlite3.Error:
            return []


def _is_of(result: Path, path: str) -> bool:
    return path == str(result) or path.startswith((f"{result}/", f"{result}."))


def _is_foreign(path: Path) -> bool:
    return any(part.startswith("theirs") for part in path.parts)


def files_below(root: Path) -> list[Path]:
    """Every file in a folder."""
    return [Path(place) / name for place, _, names in os.walk(root) for name in names]


def stamps(root: Path) -> Stamps:
    """What shows that a file was changed, of every file in a folder."""
    found = {}
    for path in files_below(root):
        facts = path.lstat()
        found[str(path)] = (facts.st_ino, facts.st_size, facts.st_mtime_ns)
    return found


def changed(before: Stamps, after: Stamps) -> list[str]:
    """The files that differ."""
    return sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))

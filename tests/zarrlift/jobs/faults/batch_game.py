"""One game of a batch: what users and commands do to many archives and their results, and what was wrong."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.zarrlift.jobs.faults.commands import Ended
from tests.zarrlift.jobs.faults.life import (
    ASKING,
    RESULT,
    SOURCE,
    Step,
    Variant,
    incomplete,
    pick,
    step,
    untruly_equal,
)
from tests.zarrlift.jobs.faults.living_archive import Archive
from tests.zarrlift.jobs.faults.play import Play, Told
from tests.zarrlift.jobs.faults.site import Site
from tests.zarrlift.jobs.faults.stage import KILLED, Stage
from tests.zarrlift.jobs.faults.users import ACTS, act

BATCHES: Final = {
    "batch": Variant(),
    "batch of shards": Variant(options=("--shards", "2x")),
    "batch rechunked": Variant(options=("--chunks", "5,8")),
    "batch in place": Variant(options=("--in-place",), in_place=True),
    "batch of hard links": Variant(options=("--link", "hard", "--codecs", "keep"), truncates=True),
}
_COMMANDS: Final = {
    "resume": 5,
    "run": 3,
    "list": 2,
    "update": 7,
    "update --delete": 1,
    "update --force": 2,
    "verify --full": 1,
    "status": 1,
    "undo": 2,
    "finish --yes": 1,
}
_CHANGES: Final = {
    "run": 630,
    "resume": 300,
    "update": 250,
    "undo": 220,
    "finish": 100,
}
"""About the number of changes that a command makes: kills are drawn from as many."""
_MIGRATING: Final = frozenset({"run", "resume", "update"})
_TAKEN_BACK: Final = frozenset({"undone", None})
_TRIES: Final = 6


@dataclass(slots=True)
class Copy:
    """A folder with archives, results and the list of the batch."""

    folder: Path
    list: Path
    sites: list[Site]
    is_copy: bool = False


class BatchGame:
    """Runs the steps of a game on a stage."""

    def __init__(self, stage: Stage, variant: str, steps: list[Step]) -> None:
        self.variant = BATCHES[variant]
        self.steps = steps
        self.play = Play(stage, "; ".join((variant, *map(str, steps))), tight=False)
        folder = stage.home / "w0"
        name = "old" if self.variant.in_place else "v3"
        self.copies = [Copy(folder, folder / f"{name}.zarrlift.jsonl", [])]
        for name in ("x0.zarr", "sub/x1.zarr" if self.variant.in_place else "sub/x1.n5"):
            self._add_archive(self.copies[0], name)

    def _add_archive(self, at: Copy, name: str) -> None:
        kind = "n5" if name.endswith(".n5") else "zarr2"
        archive = Archive(at.folder / "old" / name, kind, random.Random(name))
        archive.truncates = self.variant.truncates
        relative = name.rpartition(".")[0]
        result = archive.root if self.variant.in_place else at.folder / "v3" / f"{relative}.zarr"
        job = result.with_name(f"{result.name}.zarrlift.db")
        at.sites.append(Site(archive=archive, result=result, job=job, in_place=self.variant.in_place))

    def run(self) -> Told:
        """Play to the end, or to the first thing that is wrong."""
        for one in self.steps:
            at = self.copies[one.site % len(self.copies)]
            rng = random.Random(one.seed)
            if one.words[0] in ACTS:
                site = rng.choice(at.sites)
                files = self.play.by_people(lambda: act(site, one.words[0], rng))  # noqa: B023 - called at once
                self.play.note_shared(list(at.sites), files)
            elif one.words[0] == "copy":
                self._copy(at)
            elif one.words[0] == "new":
                if len(at.sites) < 3:
                    self._add_archive(at, "x2.zarr")
                    self.play.told.done.append(f"# {at.folder}/old/x2.zarr is added")
            else:
                self.command(at, one.words, rng, one.order)
            if self.play.told.wrong:
                return self.play.told
        for at in self.copies:
            if not self.play.told.wrong and random.Random(len(self.steps)).random() < 0.6:
                self._settle(at)
        for at in self.copies:
            if not self.play.told.wrong:
                self._take_back(at)
        return self.play.told

    def _copy(self, at: Copy) -> None:
        new = self.play.new_folder()
        self.play.shell("cp", "-a", f"{at.folder}/.", str(new))
        sites = []
        for site in at.sites:
            paths = (site.archive.root, site.result, site.job)
            root, result, job = (new / path.relative_to(at.folder) for path in paths)
            sites.append(site.moved_to(result, job, site.archive.copied(root)))
            sites[-1].is_copy = True
        self.copies.append(Copy(new, new / at.list.name, sites, is_copy=True))

    # Commands

    def _line(self, at: Copy, words: tuple[str, ...], rng: random.Random) -> tuple[str, ...]:
        """The command line of a step."""
        name, *flags = words
        old = str(at.folder / "old")
        where = self.variant.options
        if not self.variant.in_place:
            where = ("--to", f"{at.folder}/v3/{{relative}}.zarr", *where)
        if name == "list":
            return ("batch", "list", old, *where, "-o", str(at.list))
        if name == "run":
            places = (str(at.list),) if at.list.exists() and rng.random() < 0.5 else (old, *where)
            return ("batch", "run", *places, "--workers", "1")
        more = {"resume": ("--workers", "1"), "update": ("--workers", "1"), **ASKING}.get(name, ())
        return (name, str(at.list), *flags, *more)

    def command(
        self, at: Copy, words: tuple[str, ...], rng: random.Random, order: str | None = None
    ) -> Ended:
        """Run a command, killed or not, and judge what there is now."""
        name = words[0]
        results = at.folder / ("old" if self.variant.in_place else "v3")
        own = (f"{results}/", f"{results}.")
        line = self._line(at, words, rng)
        ended, files, wrong = self.play.command(*line, order=order, owns=lambda path: path.startswith(own))
        for site in at.sites:
            site.updating |= name == "update" and bool(files) and ended.code != 0
            site.forced |= name == "update" and "--force" in words
            if site.forced and name in _MIGRATING:
                site.give_up()
            site.finishing |= name == "finish" and bool(files)
            if name in _MIGRATING:
                site.expect_present_versions(mixed=site.updating)
            wrong += self._wrong(site, words, ended)
        if wrong:
            self.play.told.wrong += [*wrong, f"said: {ended.out}{ended.err}"]
        return ended

    def _wrong(self, site: Site, words: tuple[str, ...], ended: Ended) -> list[str]:
        """What is wrong at an archive after a command."""
        state = site.state()
        is_present = ended.code == 0 and words[0] == "update" and state == "done"
        if is_present:
            for path, version in site.archive.now.items():
                site.expect(path).only(version)
        wrong = site.wrong_arrays() + site.missing_others() + site.missing_of_source()
        if ended.code == 0 and words[0] in _MIGRATING and state == "done":
            wrong += incomplete(site, is_present=is_present, deleted=is_present and "--delete" in words)
            if is_present:
                site.updating = site.forced = False
        if ended.code == 0 and words[0] == "verify" and state == "done":
            wrong += untruly_equal(site)
        if words[0] == "undo" and (state == "undone" or (ended.code == 0 and state in _TAKEN_BACK)):
            wrong += [] if ended.code == KILLED else site.left_after_undo()
            site.begin_again()
        return wrong

    # The end

    def _settle(self, at: Copy) -> None:
        """What is interrupted goes on, and the results equal their sources."""
        states = {site.state() for site in at.sites}
        if not states & {"done", "incomplete"} or states & {"undone", "undoing", "finished"}:
            return
        if any(site.finishing for site in at.sites):
            return
        for site in at.sites:
            self.play.by_people(lambda: act(site, "heal", random.Random(0)))  # noqa: B023 - called at once
        words = [("resume",), ("update", "--force", "--delete")]
        ended = None
        for turn in range(_TRIES * len(words)):
            one = words[turn % len(words)]
            ended = self.command(at, one, random.Random(turn))
            if self.play.told.wrong or (ended.code == 0 and one[0] == "update"):
                return
        said = "" if ended is None else " ".join((ended.out + ended.err).split())
        if "Undo this job" in said:
            return  # a source that changed beneath recorded work (docs/howto/resuming.md)
        if "the destination exists" in said:
            return  # what an undo has kept, since a user has changed it: `left_after_undo` has looked at it
        self._dead_end(at, "cannot be brought up to date", ended)

    def _take_back(self, at: Copy) -> None:
        """Undo, until nothing is left to undo."""
        ended = None
        for turn in range(_TRIES):
            states = {site.state() for site in at.sites}
            is_refused = at.is_copy and ended is not None and ended.code != 0
            if not at.list.exists() or (turn and states <= _TAKEN_BACK and not is_refused):
                self.play.told.wrong += self._left(at)
                return
            ended = self.command(at, ("undo",), random.Random(turn))
            if self.play.told.wrong:
                return
        self._dead_end(at, "cannot be undone", ended)

    def _left(self, at: Copy) -> list[str]:
        """What is left beside the list and the jobs after everything was undone."""
        own = {at.list, *(site.job for site in at.sites)}
        files = [str(path) for path in at.folder.rglob("*.zarrlift*") if path not in own and path.is_file()]
        return [f"left by undo: {files}"] if files and at.list.exists() and not at.is_copy else []

    def _dead_end(self, at: Copy, what: str, ended: Ended | None) -> None:
        if at.is_copy:
            self.play.told.counts["copies that refuse"] += 1
        else:
            states = {site.result.name: site.state() for site in at.sites}
            said = ended.out + ended.err if ended else ""
            self.play.told.wrong += [f"{at.list} {what}: {states}", f"said: {said}"]


def drawn_batch(rng: random.Random, only: str) -> tuple[str, list[Step]]:
    """A batch, whose name contains `only`, and the steps of a game."""
    variant = rng.choice([name for name in BATCHES if only in name])
    words: list[tuple[str, ...]] = [("run",)]
    for _ in range(rng.randint(3, 7)):
        for _ in range(rng.choice((0, 1, 2, 3))):
            kinds = rng.choices((SOURCE, RESULT, {"copy": 2, "new": 1}), (8, 2, 2))[0]
            words.append((pick(kinds, rng),))
        words.append(tuple(pick(_COMMANDS, rng).split()))
    return variant, [step(one, rng, _CHANGES.get(one[0], 0)) for one in words]

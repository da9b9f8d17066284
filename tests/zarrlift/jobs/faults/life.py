"""One life of a job: the steps as text, what users and commands do, one after another, and what was wrong."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

from tests.zarrlift.jobs.faults.commands import Ended
from tests.zarrlift.jobs.faults.judging import Expected, judged
from tests.zarrlift.jobs.faults.living_archive import Archive
from tests.zarrlift.jobs.faults.play import Play, Told
from tests.zarrlift.jobs.faults.site import Site
from tests.zarrlift.jobs.faults.stage import KILLED, Stage
from tests.zarrlift.jobs.faults.users import ACTS, FILES, Files, act


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """How a job is made."""

    options: tuple[str, ...] = ()
    format: str = "zarr2"
    in_place: bool = False
    tight: bool = False
    """So little memory that chunks change their shape in two passes."""
    truncates: bool = False
    """Users rewrite files of the source in place, rather than replacing them."""


_HARD: Final = ("--link", "hard", "--codecs", "keep")
LIVES: Final = {
    "copy": Variant(),
    "copy of files that are rewritten": Variant(truncates=True),
    "recoded": Variant(options=("--codecs", "zstd:3")),
    "shards": Variant(options=("--shards", "2x")),
    "auto shards": Variant(options=("--shards", "auto")),
    "rechunked": Variant(options=("--chunks", "5,8")),
    "rechunked in shards": Variant(options=("--chunks", "4,4", "--shards", "2x")),
    "two passes": Variant(options=("--chunks", "-1,2", "--shards", "none"), tight=True),
    "in place": Variant(options=("--in-place",), in_place=True),
    "hard links": Variant(options=_HARD),
    "hard links to files that are rewritten": Variant(options=_HARD, truncates=True),
    "passed through": Variant(format="zarr3"),
    "passed through by hard links": Variant(options=_HARD, format="zarr3"),
    "passed through beside shards": Variant(options=("--shards", "2x"), format="zarr3"),
    "N5": Variant(format="n5"),
    "N5 in shards": Variant(options=("--shards", "2x"), format="n5"),
    "N5 in place": Variant(options=("--in-place",), format="n5", in_place=True),
}


@dataclass(frozen=True, slots=True)
class Step:
    """What users or a command do.

    As text it is `SITE WORDS ~SEED @ORDER`, such as `0 update --force ~7 @change 40`.
    """

    site: int
    words: tuple[str, ...]
    seed: int
    """Of everything that is drawn while it is done."""
    order: str | None = None
    """The moment at which the command is killed, or which of its calls fail (`stage.orders`)."""

    def __str__(self) -> str:
        order = f" @{self.order}" if self.order else ""
        return f"{self.site} {' '.join(self.words)} ~{self.seed}{order}"

    @classmethod
    def parse(cls, text: str) -> Step:
        """The inverse of `str`."""
        head, _, order = text.partition(" @")
        words, _, seed = head.partition(" ~")
        site, *rest = words.split()
        return cls(int(site), tuple(rest), int(seed), order or None)


def parsed(text: str) -> tuple[str, list[Step]]:
    """The variant and the steps of a life."""
    variant, *steps = (part.strip() for part in text.split(";"))
    return variant, [Step.parse(step) for step in steps if step]


ASKING: Final = {"undo": ("--yes",), "finish": ("--yes",)}
"""Commands that ask first, and what answers."""
SOURCE: Final = {
    "rewrite": 6,
    "grow": 4,
    "stretch": 3,
    "shrink": 4,
    "attribute": 2,
    "add": 2,
    "remove": 1,
    "delete-chunk": 2,
    "damage": 4,
    "heal": 3,
    "reform": 1,
}
RESULT: Final = {"touch-attribute": 3, "add-file": 2, "add-array": 1, "write": 3, "lose": 2, "link": 1}
_FILES: Final = {
    "copy-folder": 4,
    "copy-result": 1,
    "copy-job": 2,
    "move-folder": 2,
    "move-result": 1,
    "move-job": 1,
    "save": 4,
    "roll-back": 4,
}
_COMMANDS: Final = {
    "update": 8,
    "update --delete": 2,
    "update --force": 3,
    "update --delete --force": 1,
    "resume": 5,
    "adopt": 2,
    "migrate": 3,
    "verify": 2,
    "verify --full": 1,
    "undo": 2,
    "finish": 1,
    "status": 1,
}
CHANGES: Final = {
    "migrate": 290,
    "update": 150,
    "resume": 120,
    "adopt": 100,
    "undo": 85,
    "finish": 55,
}
"""About the number of changes that a command makes: kills are drawn from as many."""
SHARES: Final = tuple(int(share * (1 << 32)) for share in (0.0005, 0.002, 0.01, 0.05))
"""How many calls fail, of 2^32."""


def drawn(rng: random.Random, only: str) -> tuple[str, list[Step]]:
    """A variant, whose name contains `only`, and the steps of a life."""
    variant = rng.choice([name for name in LIVES if only in name])
    words = [("migrate",), *_mixed(rng, _COMMANDS, rng.randint(3, 10))]
    if LIVES[variant].in_place and rng.random() < 0.5:
        words += [("resume",), ("verify",), ("finish",), ("undo",)]
    return variant, [step(one, rng) for one in words]


def _mixed(rng: random.Random, commands: dict[str, int], count: int) -> list[tuple[str, ...]]:
    """Commands, and what people do between them."""
    words = []
    moves_files = rng.random() < 0.5
    for _ in range(count):
        for _ in range(rng.choice((0, 1, 1, 2, 3))):
            kinds = rng.choices((SOURCE, RESULT, _FILES), (8, 2, 3 if moves_files else 0))[0]
            words.append((pick(kinds, rng),))
        words.append(tuple(pick(commands, rng).split()))
    return words


def pick(weights: dict[str, int], rng: random.Random) -> str:
    """One of the keys, drawn by their weights."""
    return rng.choices(list(weights), list(weights.values()))[0]


def step(words: tuple[str, ...], rng: random.Random) -> Step:
    """A step, in most cases with a kill among about `most` changes, or with calls that fail."""
    most = CHANGES.get(words[0])
    order = None
    if most and rng.random() < 0.1:
        order = f"fail seed={rng.randrange(1 << 32)} stats={rng.randrange(2)} share={rng.choice(SHARES)}"
    elif most and rng.random() < 0.7:
        unit, factor = rng.choice((("change", 1), ("change", 1), ("call", 3)))
        order = f"{unit} {rng.randint(1, most * factor)}"
    return Step(rng.choice((0, 0, 0, 1, 2)), words, rng.randrange(100_000), order)


# One life of a job: what users and commands do to it, one step after another, and what was wrong.

_WRITING: Final = frozenset({"migrate", "resume", "update", "adopt"})
"""Commands whose exit code 0 says that the result is complete."""
_NOT_THROUGH_LINKS: Final = frozenset({"adopt", "undo", "finish", "migrate"})
"""Commands before which a directory is put back that a link replaces."""
_TRIES: Final = 8


class Life:
    """Runs the steps of a life on a stage."""

    def __init__(self, stage: Stage, variant: str, steps: list[Step]) -> None:
        self.variant = LIVES[variant]
        self.steps = steps
        self.play = Play(stage, "; ".join((variant, *map(str, steps))), tight=self.variant.tight)
        archive = Archive(stage.home / "w0" / "s.zarr", self.variant.format, random.Random(0))
        archive.truncates = self.variant.truncates
        result = archive.root if self.variant.in_place else stage.home / "w0" / "r.zarr"
        job = result.with_name(result.name + ".zarrlift.db")
        self.sites = [Site(archive=archive, result=result, job=job, in_place=self.variant.in_place)]
        self._files = Files(self.play, self.sites)

    def run(self) -> Told:
        """Live to the end, or to the first thing that is wrong."""
        for step in self.steps:
            site = self.sites[step.site % len(self.sites)]
            rng = random.Random(step.seed)
            if step.words[0] in FILES:
                self._act(site, "unlink", rng)  # where the link leads is noted for one place
                self._files(step.words[0], site)
            elif step.words[0] in ACTS:
                self._act(site, step.words[0], rng)
            else:
                self.command(site, step.words, rng, step.order)
            if self.play.told.wrong:
                return self.play.told
        for site in self.sites:
            if not self.play.told.wrong and random.Random(len(self.steps)).random() < 0.6:
                self._settle(site)
        for site in self.sites:
            if not self.play.told.wrong:
                self._take_back(site)
        return self.play.told

    def _act(self, site: Site, word: str, rng: random.Random) -> None:
        """What users do to a source or a result."""
        self.play.note_shared(self.sites, self.play.by_people(lambda: act(site, word, rng)))

    # Commands

    def _line(self, site: Site, words: tuple[str, ...], rng: random.Random) -> tuple[str, ...]:
        """The command line of a step."""
        name, *flags = words
        source, result, job = (str(path) for path in (site.archive.root, site.result, site.job))
        is_beside = site.job == site.result.with_name(site.result.name + ".zarrlift.db")
        target = job if site.is_stray or not is_beside or rng.random() < 0.5 else result
        places = (source,) if site.in_place else (source, result)
        if name == "migrate":
            return ("migrate", *places, *self.variant.options, *(() if is_beside else ("--job", job)))
        if name == "adopt":
            moved = ("--source", source, *(() if site.in_place else ("--destination", result)))
            return ("resume", target, *moved)
        more = {"resume": ("--workers", "1"), "update": ("--workers", "1"), **ASKING}.get(name, ())
        if site.is_copy and not site.is_stray and not site.in_place:
            # Without it, the original is read where only the copy of the source has changed.
            if name == "verify":
                return ("verify", source, result, *flags)
            if name in ("resume", "update"):
                more = (*more, "--source", source)
        return (name, target, *flags, *more)

    def command(
        self, site: Site, words: tuple[str, ...], rng: random.Random, order: str | None = None
    ) -> Ended | None:
        """Run a command, killed or not, and judge what there is now."""
        name = words[0]
        if (site.is_stray and name == "migrate") or (name == "finish" and not site.in_place):
            return None  # a copy would have no job any more
        if site.linked and name in _NOT_THROUGH_LINKS:
            self._act(site, "unlink", rng)
        notes = site.notes()
        updates = name == "update" or "update" in notes
        line = self._line(site, words, rng)
        owns = site.owns_adopted if name == "adopt" else site.owns
        ended, files, wrong = self.play.command(*line, order=order, owns=owns)
        if name == "update" and files and ended.code != 0:
            site.updating = True
        # An update that was killed goes on with `--force`, also in a job file that was put back.
        site.forced |= name == "update" and "--force" in words or '"force": true' in notes.get("update", "")
        if site.forced and name in _WRITING:
            site.give_up()
        if name == "finish" and files:
            site.finishing = True
        if name == "adopt":
            site.displaced &= ended.code != 0
            site.is_named |= ended.code == KILLED
        if name == "adopt" and site.is_stray and site.is_at_home():
            site = self._files.replaced_by(site)
        if name in _WRITING:
            site.expect_present_versions(mixed=site.updating)
        wrong += self._wrong(site, words, ended, updates=updates)
        if wrong:
            self.play.told.wrong += [*wrong, f"said: {ended.out}{ended.err}"]
        return ended

    def _wrong(self, site: Site, words: tuple[str, ...], ended: Ended, *, updates: bool) -> list[str]:
        """What is wrong at a site after a command; `updates`: it is an update, or continues one."""
        # A job that has recorded nothing yet begins beside its file.
        site.is_stray |= site.beside != site.result and site.beside.exists()
        if site.is_stray:
            return site.wrong_arrays_beside()  # its earlier result is unchanged
        if site.linked:
            return []  # `Play.command` has found that nothing was written through the link
        done = ended.code == 0
        is_present = done and updates and words[0] in _WRITING
        if is_present:
            for path, version in site.archive.now.items():
                site.expect(path).only(version)
        if done and words[0] in _WRITING:
            site.lost.clear()  # what was removed is there again, or the command must not succeed
        wrong = site.wrong_arrays() + site.missing_others() + site.missing_of_source()
        if ended.code != KILLED and words[0] in _WRITING:
            wrong += site.lost_and_not_named(ended.out + ended.err)
        if done and words[0] in _WRITING:
            wrong += incomplete(site, is_present=is_present, deleted=is_present and "--delete" in words)
            if is_present:
                site.updating = site.forced = False
        if done and words[0] == "verify" and "--full" in words:
            wrong += untruly_equal(site)
        if words[0] == "undo" and site.state() == "undone":
            site.is_swept = ended.code != KILLED
            wrong += site.left_after_undo() if site.is_swept else []
            site.begin_again()
        return wrong

    # The end

    def _settle(self, site: Site) -> None:
        """What is interrupted goes on, and the result equals the source."""
        if site.is_stray or site.state() not in ("incomplete", "done") or site.finishing:
            return
        self._act(site, "unlink", random.Random(0))
        self._act(site, "heal", random.Random(0))
        adopts = (("adopt",),) if site.displaced else ()
        words = [("update", "--force", "--delete"), *adopts, ("resume",)]
        ended = None
        for turn in range(_TRIES * len(words)):
            step = words[turn % len(words)]
            ended = self.command(site, step, random.Random(turn))
            if self.play.told.wrong or (ended is not None and ended.code == 0 and step[0] == "update"):
                return
        if ended is not None and "undo the job" in ended.out + ended.err:
            return  # a source that changed beneath recorded work (docs/howto/jobs.md)
        self._dead_end(site, "cannot be brought up to date", ended)

    def _take_back(self, site: Site) -> None:
        """Undo, until nothing is left to undo."""
        ended = None
        for turn in range(_TRIES):
            state = site.state()
            if site.is_stray or state is None or (state == "undone" and site.is_swept):
                return
            words = ("adopt",) if site.displaced and turn % 3 == 1 else ("undo",)
            ended = self.command(site, words, random.Random(turn))
            if self.play.told.wrong:
                return
            if ended is not None and "put it back" in ended.err and site.job.parent != site.result.parent:
                self._files.put_back(site)
        self._dead_end(site, "cannot be undone", ended)

    def _dead_end(self, site: Site, what: str, ended: Ended | None) -> None:
        if site.is_copy or site.rolled_back:
            name = "copies" if site.is_copy else "rolled back jobs"
            self.play.told.counts[f"{name} that refuse"] += 1
            return
        said = ended.out + ended.err if ended else ""
        if site.displaced and site.others and "this is not the job's output" in said:
            # What is left of a moved result is what users have changed: a job cannot know it again.
            self.play.told.counts["moved results that refuse"] += 1
            return
        # The message says what to do: delete the job file.
        if "the output of this job was not found" not in said or site.result.exists():
            self.play.told.wrong += [f"{site.result} {what}, state {site.state()}", f"said: {said}"]


def incomplete(site: Site, *, is_present: bool, deleted: bool) -> list[str]:
    """Arrays that are missing, or still there, after a command that says that all is done."""
    wanted = set(site.archive.arrays) if is_present else {"a", "g/b"} - site.archive.removed
    wrong = []
    if missing := wanted - site.visible:
        wrong.append(f"says that it is done, and these arrays are missing: {sorted(missing)}")
    if deleted and not site.in_place and (more := site.visible - set(site.archive.arrays)):
        wrong.append(f"says that it is done, and these arrays are still there: {sorted(more)}")
    return wrong


def untruly_equal(site: Site) -> list[str]:
    """What differs although `verify --full` says that nothing does."""
    wrong = []
    for name, version in site.archive.now.items():
        if name not in site.visible:
            wrong.append(f"verify --full finds no difference, and {name} is missing")
        elif problem := judged(site.result / name, Expected([version]), transposed=site.transposed):
            wrong.append(f"verify --full finds no difference, and {name} {problem}")
    return wrong

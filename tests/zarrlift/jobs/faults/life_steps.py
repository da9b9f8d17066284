"""The steps of a life as text, and lives that are drawn at random."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """How a job is made."""

    options: tuple[str, ...] = ()
    format: str = "zarr2"
    in_place: bool = False
    tight: bool = False
    """So little memory that chunks change their shape in two passes."""
    parts: int = 0
    """The job is planned in so many parts."""
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
    "N5": Variant(format="n5"),
    "N5 in shards": Variant(options=("--shards", "2x"), format="n5"),
    "N5 in place": Variant(options=("--in-place",), format="n5", in_place=True),
}

PARTS: Final = {
    "parts": Variant(parts=3),
    "parts of shards": Variant(options=("--shards", "2x"), parts=2),
    "parts rechunked": Variant(options=("--chunks", "5,8"), parts=3),
    "parts in two passes": Variant(options=("--chunks", "-1,2", "--shards", "none"), parts=2, tight=True),
    "parts of hard links": Variant(options=_HARD, parts=2),
    "parts of N5": Variant(format="n5", parts=3),
}
VARIANTS: Final = {**LIVES, **PARTS}


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
    """The moment at which the command is killed."""

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
RESULT: Final = {"touch-attribute": 3, "add-file": 2, "add-array": 1, "write": 3}
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
_OF_PARTS: Final = {
    **_COMMANDS,
    "part": 20,
    "gather": 12,
    "migrate": 1,
}
CHANGES: Final = {
    "migrate": 290,
    "part": 200,
    "gather": 90,
    "update": 150,
    "resume": 120,
    "adopt": 100,
    "undo": 85,
    "finish": 55,
}
"""About the number of changes that a command makes: kills are drawn from as many."""


def drawn(rng: random.Random, only: str) -> tuple[str, list[Step]]:
    """A variant, whose name contains `only`, and the steps of a life."""
    variant = rng.choice([name for name in LIVES if only in name])
    words = [("migrate",), *_mixed(rng, _COMMANDS, rng.randint(3, 10))]
    if LIVES[variant].in_place and rng.random() < 0.5:
        words += [("resume",), ("verify",), ("finish",), ("undo",)]
    return variant, [step(one, rng) for one in words]


def drawn_parts(rng: random.Random, only: str) -> tuple[str, list[Step]]:
    """A variant in parts, whose name contains `only`, and the steps of a life."""
    variant = rng.choice([name for name in PARTS if only in name])
    words = [("migrate",), ("part",), ("part",), ("part",), *_mixed(rng, _OF_PARTS, rng.randint(4, 10))]
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


def step(words: tuple[str, ...], rng: random.Random, most: int | None = None) -> Step:
    """A step, in most cases with a kill, among about `most` changes."""
    most = CHANGES.get(words[0]) if most is None else most
    order = None
    if most and rng.random() < 0.7:
        unit, factor = rng.choice((("change", 1), ("change", 1), ("call", 3)))
        order = f"{unit} {rng.randint(1, most * factor)}"
    return Step(rng.choice((0, 0, 0, 1, 2)), words, rng.randrange(100_000), order)

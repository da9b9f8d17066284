"""Parts of `peers` with a shape of their own: metadata in place, limits of memory, plans of huge grids."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from chart import Bar, Group
from harness import Command, look, measure, remover
from main_job import ZARR, ZARRLIFT
from same import same

RECHUNK = ("--chunks", "64,64,64", "--shards", "4,4,4", "--codecs", "zstd:3")
MEMORY = {"256MB": 256, "1GB": 1000, "4GB": 4000}
"""What `--memory` is given, and the megabytes that it means."""
PLANS = {"a copy": (), "--shards auto": ("--shards", "auto"), "--chunks 128^3": ("--chunks", "128,128,128")}
PLAN_SECONDS, PLAN_MEGABYTES = 10, 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What was measured, as lines of the table and, where there are peers, as bars of the chart."""

    lines: Sequence[str]
    group: Group | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of the table."""

    name: str
    sources: tuple[str, ...]
    measure: Callable[[Path, int], Told]
    """Given the folder of the sources, and the rounds, as `harness.measure` takes them."""


def verdict(holds: bool) -> str:
    """As every table says it."""
    return "holds" if holds else "BROKEN"


def metadata(base: Path, rounds: int) -> Told:
    """2,000 arrays in place, beside zarr's own migration."""
    many, out = base / "many.zarr", base / "out"
    clear = remover(out, base / "out.zarrlift.db")

    def fresh() -> None:
        clear()
        shutil.copytree(many, out)

    figures = measure(
        (
            Command(name="zarrlift", argv=(ZARRLIFT, "migrate", str(out), "--in-place"), prepare=fresh),
            Command(name="zarr migrate v3", argv=(ZARR, "migrate", "v3", str(out)), prepare=fresh),
        ),
        rounds,
    )
    clear()
    own, peer = figures["zarrlift"], figures["zarr migrate v3"]
    most = peer.median / 8
    holds = verdict(own.median <= most)
    return Told(
        lines=(
            "metadata: many.zarr --in-place",
            f"  {'zarrlift':26} {own}   at most {most:.2f} s (an 8th of zarr's): {holds}",
            f"  {'zarr migrate v3':26} {peer}",
            "",
        ),
        group=Group(
            name="metadata",
            bars=(
                Bar(name="zarrlift", seconds=own.median, kind="own"),
                Bar(name="zarr migrate v3", seconds=peer.median, kind="peer"),
            ),
        ),
    )


def memory(base: Path, rounds: int) -> Told:
    """Rechunking within `--memory`: what it took at the peak, and whether the bytes are the same."""
    source, out = base / "deep.zarr", base / "out"
    clear = remover(out, base / "out.zarrlift.db")
    commands = [
        Command(
            name=limit,
            argv=(ZARRLIFT, "migrate", str(source), str(out), *RECHUNK, "--memory", limit),
            prepare=clear,
        )
        for limit in MEMORY
    ]
    figures, trees = {}, []
    for command in commands:
        figures[command.name] = look(command, count=not rounds)
        if not trees:
            same(source, out)
        trees.append(tree(out))
    measure(commands, rounds, figures)
    clear()
    lines = [f"memory: deep.zarr {' '.join(RECHUNK)} --memory LIMIT"]
    for limit, found in figures.items():
        most = MEMORY[limit]
        name = f"zarrlift --memory {limit}"
        lines.append(f"  {name:26} {found}   at most {most} MB: {verdict(found.memory <= most)}")
    equal = all(each == trees[0] for each in trees)
    return Told(lines=(*lines, f"  the same {len(trees[0])} files, byte for byte: {verdict(equal)}", ""))


def tree(folder: Path) -> dict[str, bytes]:
    """A digest of every file below a folder, by its path."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            with open(path, "rb") as file:
                found[path.relative_to(folder).as_posix()] = hashlib.file_digest(file, "blake2b").digest()
    return found


def plans(base: Path, rounds: int) -> Told:
    """What planning a grid of 10^9 chunks costs."""
    sources = {"absent.zarr": "metadata alone", "sparse.zarr": "10,000 chunks there"}
    figures = measure(
        [
            Command(
                name=f"{what}, {option}",
                argv=(ZARRLIFT, "migrate", str(base / source), str(base / "out"), *words, "--dry-run"),
            )
            for source, what in sources.items()
            for option, words in PLANS.items()
        ],
        rounds,
    )
    lines = [
        f"plan: 10^9 chunks of 64^3, at most {PLAN_SECONDS} s and {PLAN_MEGABYTES} MB",
        *(
            f"  {name:36} {found}   "
            f"{verdict(found.median <= PLAN_SECONDS and found.memory <= PLAN_MEGABYTES)}"
            for name, found in figures.items()
        ),
        "",
    ]
    return Told(lines=lines)


SECTIONS = (
    Section(name="metadata", sources=("many.zarr",), measure=metadata),
    Section(name="memory", sources=("deep.zarr",), measure=memory),
    Section(name="plan", sources=("absent.zarr", "sparse.zarr"), measure=plans),
)

"""The main job beside the machine's own limits: `cp -r`, `cp -rl`, and zarr's own migration.

    python benchmarks/main_job.py [--directory /dev/shm] [--rounds 5] [--write]

The directory is best on a memory file system. Start-up is part of every figure and shown
by itself as `zarrlift --version`. With `--write` the figures go into docs/explanation/speed.md.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path

from harness import Command, Figures, measure, remover, without_verdicts

SOURCES = Path(__file__).with_name("main_job_sources.py")
PAGE = Path(__file__).parent.parent / "docs" / "explanation" / "speed.md"
ZARRLIFT = str(Path(sys.executable).with_name("zarrlift"))
ZARR = str(Path(sys.executable).with_name("zarr"))
MAX_MEGABYTES = 150


def machine() -> str:
    """What was measured on."""
    packages = ", ".join(f"{name} {version(name)}" for name in ("zarrlift", "zarr", "numcodecs", "numpy"))
    return f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, {packages}"


def commands(base: Path) -> tuple[Command, ...]:
    """Every contender, in the order in which a round runs them."""
    large, tiny, many = base / "large.zarr", base / "tiny.zarr", base / "many.zarr"
    out = base / "out.zarr"
    clear = remover(out, base / "out.zarr.zarrlift.db")

    def fresh_copy() -> None:
        clear()
        shutil.copytree(many, out)

    def run(name: str, *argv: object, prepare: Callable[[], None] = clear) -> Command:
        return Command(name=name, argv=tuple(map(str, argv)), prepare=prepare)

    return (
        run("start", ZARRLIFT, "--version"),
        run("large cp", "cp", "-r", large, out),
        run("large lift", ZARRLIFT, "migrate", large, out),
        run("large cpl", "cp", "-rl", large, out),
        run("large link", ZARRLIFT, "migrate", large, out, "--link", "hard"),
        run("tiny cp", "cp", "-r", tiny, out),
        run("tiny lift", ZARRLIFT, "migrate", tiny, out),
        run("many lift", ZARRLIFT, "migrate", out, "--in-place", prepare=fresh_copy),
        run("many zarr", ZARR, "migrate", "v3", out, prepare=fresh_copy),
    )


def table(figures: dict[str, Figures]) -> Iterator[str]:
    """The rows, each with what it may take where something was promised."""

    def row(what: str, name: str, limit: float | None = None) -> str:
        found = figures[name]
        promise = ""
        if limit is not None:
            promise = f"   at most {limit:.2f} s: {'holds' if found.median <= limit else 'BROKEN'}"
        return f"{what:32} {found}{promise}"

    yield row("zarrlift --version", "start")
    yield row("512 MiB, 64^3 blosc: cp -r", "large cp")
    yield row("  zarrlift migrate", "large lift", figures["large cp"].median * 1.5 + 0.5)
    yield row("  cp -rl", "large cpl")
    yield row("  zarrlift migrate --link hard", "large link", figures["large cpl"].median + 0.5)
    yield row("20,384 chunks of 4 KB: cp -r", "tiny cp")
    yield row("  zarrlift migrate", "tiny lift", figures["tiny cp"].median * 2 + 0.5)
    yield row("2,000 arrays in place: zarrlift", "many lift", 1.5)
    yield row("  zarr migrate v3", "many zarr")
    peak = max(found.peak for name, found in figures.items() if name.endswith(("lift", "link")))
    holds = "holds" if peak < MAX_MEGABYTES else "BROKEN"
    yield f"peak memory of zarrlift: {peak:.0f} MB   at most {MAX_MEGABYTES} MB: {holds}"


def main() -> None:
    """Write the sources, run everything, print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--directory", default="/dev/shm")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    base = Path(tempfile.mkdtemp(dir=asked.directory))
    try:
        subprocess.run((sys.executable, str(SOURCES), str(base)), check=True)
        figures = measure(commands(base), asked.rounds)
    finally:
        shutil.rmtree(base)
    text = "\n".join((f"{machine()}, {asked.rounds} rounds", "", *table(figures)))
    print(text)
    if asked.write:
        page, block = PAGE.read_text(), f"```text\n{without_verdicts(text)}\n```"
        PAGE.write_text(re.sub(r"(?s)```text\n.*?```", lambda _: block, page, count=1))


if __name__ == "__main__":
    main()

"""The main job beside the machine's own limits: `cp -r`, `cp -rl`, and zarr's own migration.

    python benchmarks/main_job.py [DIRECTORY] [ROUNDS]

DIRECTORY is best on a memory file system (default: /dev/shm). Start-up is part of every
figure and shown by itself as `zarrlift --version`.
"""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from harness import Command, Figures, measure, remover

SOURCES = Path(__file__).with_name("main_job_sources.py")
ZARRLIFT = str(Path(sys.executable).with_name("zarrlift"))
ZARR = str(Path(sys.executable).with_name("zarr"))


def line(what: str, figures: Figures, limit: float | None = None) -> str:
    """A row of the table."""
    allowed = (
        "" if limit is None else f"   limit {limit:.2f} s: {'holds' if figures.median <= limit else 'BROKEN'}"
    )
    return f"{what:42} {figures}{allowed}"


def main() -> None:
    """Write the sources, run everything, print the table."""
    base = Path(tempfile.mkdtemp(dir=sys.argv[1] if len(sys.argv) > 1 else "/dev/shm"))
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    print(
        f"{platform.machine()}, Python {platform.python_version()}, zarr {version('zarr')}, "
        f"numcodecs {version('numcodecs')}, {rounds} rounds\n"
    )
    try:
        large, tiny, many = base / "large.zarr", base / "tiny.zarr", base / "many.zarr"
        subprocess.run((sys.executable, str(SOURCES), str(base)), check=True)
        out, job = base / "out.zarr", base / "out.zarr.zarrlift.db"
        clear = remover(out, job)

        def fresh_copy() -> None:
            clear()
            shutil.copytree(many, out)

        def lift(name: str, source: Path, *options: str) -> Command:
            return Command(
                name=name, argv=(ZARRLIFT, "migrate", str(source), str(out), *options), prepare=clear
            )

        def copy(name: str, source: Path, flag: str) -> Command:
            return Command(name=name, argv=("cp", flag, str(source), str(out)), prepare=clear)

        figures = measure(
            (
                Command(name="start", argv=(ZARRLIFT, "--version")),
                copy("large cp", large, "-r"),
                lift("large lift", large),
                copy("large cpl", large, "-rl"),
                lift("large link", large, "--link", "hard"),
                copy("tiny cp", tiny, "-r"),
                lift("tiny lift", tiny),
                Command(
                    name="many lift", argv=(ZARRLIFT, "migrate", str(out), "--in-place"), prepare=fresh_copy
                ),
                Command(name="many zarr", argv=(ZARR, "migrate", "v3", str(out)), prepare=fresh_copy),
            ),
            rounds,
        )
        print(line("zarrlift --version", figures["start"]))
        print(line("512 MiB, 64^3 blosc: cp -r", figures["large cp"]))
        print(line("  zarrlift migrate", figures["large lift"], figures["large cp"].median * 1.5 + 0.5))
        print(line("  cp -rl", figures["large cpl"]))
        print(
            line("  zarrlift migrate --link hard", figures["large link"], figures["large cpl"].median + 0.5)
        )
        print(line("20,384 chunks of 4 KB: cp -r", figures["tiny cp"]))
        print(line("  zarrlift migrate", figures["tiny lift"], figures["tiny cp"].median * 2 + 0.5))
        print(line("2,000 arrays in place: zarrlift", figures["many lift"], 1.5))
        print(line("  zarr migrate v3", figures["many zarr"]))
        peak = max(figures[name].peak for name in figures if name.split()[-1] in ("lift", "link"))
        print(f"peak memory of zarrlift {peak:.0f} MB   limit 150 MB: {'holds' if peak < 150 else 'BROKEN'}")
    finally:
        shutil.rmtree(base)


if __name__ == "__main__":
    main()

"""The main job beside the machine's own limits: `cp -r`, `cp -rl`, and zarr's own migration.

    python benchmarks/main_job.py [DIRECTORY] [ROUNDS]

DIRECTORY is best on a memory file system (default: /dev/shm). Start-up is part of every
figure and shown by itself as `zarrlift --version`.
"""

from __future__ import annotations

import platform
import shutil
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import numpy as np
import zarr
from harness import Command, Figures, measure, remover
from numcodecs import Blosc

ZARRLIFT = str(Path(sys.executable).with_name("zarrlift"))
ZARR = str(Path(sys.executable).with_name("zarr"))


def microscopy(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """uint16 that compresses as camera images do: a smooth scene and a few bits of noise."""
    axes = np.ogrid[tuple(slice(0, n) for n in shape)]
    scene = sum(np.sin(axis / 17.0) for axis in axes)
    return (scene * 500 + 2000).astype("<u2") + rng.integers(0, 32, shape, dtype="<u2")


def write_large(path: Path) -> None:
    """512 MiB of uint16 in 64^3 blosc chunks."""
    rng = np.random.default_rng(1)
    shape = (512, 512, 1024)
    array = zarr.create_array(
        str(path),
        shape=shape,
        chunks=(64, 64, 64),
        dtype="<u2",
        zarr_format=2,
        compressors=Blosc("lz4", 5, 1),
    )
    for start in range(0, shape[0], 64):
        array[start : start + 64] = microscopy((64, *shape[1:]), rng)


def write_tiny(path: Path) -> None:
    """20,000 chunks of some 4 KB."""
    rng = np.random.default_rng(2)
    array = zarr.create_array(
        str(path),
        shape=(20_000, 2048),
        chunks=(1, 2048),
        dtype="<u2",
        zarr_format=2,
        compressors=Blosc("lz4", 5, 1),
    )
    group = rng.integers(0, 65536, (1, 2048), dtype="<u2")
    array[:1] = group
    chunk = (path / "0.0").read_bytes()
    for index in range(1, 20_000):
        (path / f"{index}.0").write_bytes(chunk)


def write_many(path: Path) -> None:
    """2,000 arrays in 200 groups."""
    root = zarr.create_group(str(path), zarr_format=2)
    for number in range(200):
        group = root.create_group(f"group{number:03}", attributes={"number": number})
        for name in range(10):
            array = group.create_array(f"array{name}", shape=(10, 10), chunks=(5, 5), dtype="<f4")
            array.attrs["units"] = "m"
    some = root["group000/array0"]
    assert isinstance(some, zarr.Array)
    some[...] = 1


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
        write_large(large)
        write_tiny(tiny)
        write_many(many)
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
        print(line("20,000 chunks of 4 KB: cp -r", figures["tiny cp"]))
        print(line("  zarrlift migrate", figures["tiny lift"], figures["tiny cp"].median * 2 + 0.5))
        print(line("2,000 arrays in place: zarrlift", figures["many lift"], 1.5))
        print(line("  zarr migrate v3", figures["many zarr"]))
        peak = max(figures[name].peak for name in figures if name.split()[-1] in ("lift", "link"))
        print(f"peak memory of zarrlift {peak:.0f} MB   limit 150 MB: {'holds' if peak < 150 else 'BROKEN'}")
    finally:
        shutil.rmtree(base)


if __name__ == "__main__":
    main()

"""N5 to Zarr v3 beside tensorstore, z5py, `cp -r` and the bare codec work on edge blocks.

    python benchmarks/n5.py [--directory /dev/shm] [--rounds 5] [--z5py ENVIRONMENT] [--write]

ENVIRONMENT is a virtual environment with z5py (z5py 3.0.2 needs numpy below 2), or its Python; without it
that row is left out. Every result is compared with the source afterwards, value by value, by tensorstore.
With `--write` the table goes into docs/explanation/speed.md.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from harness import Command, Figures, executable_of, measure, remover, without_verdicts
from main_job import PAGE, ZARRLIFT, machine

HERE = Path(__file__).parent
PEERS = str(HERE / "n5_peers.py")
MARK = "<!-- figures: benchmarks/n5.py --write -->"


def commands(base: Path, z5py: str | None) -> tuple[Command, ...]:
    """Every contender, in the order in which a round runs them; each writes a place of its own."""
    source = base / "old.n5"

    def run(name: str, *argv: object) -> Command:
        out = base / f"{name}.zarr"
        words = tuple(str(out) if word is ... else str(word) for word in argv)
        return Command(name=name, argv=words, prepare=remover(out, base / f"{name}.zarr.zarrlift.db"))

    found = [
        run("start", ZARRLIFT, "--version"),
        run("cp", "cp", "-r", source, ...),
        run("lift", ZARRLIFT, "migrate", source, ...),
        run("tensorstore", sys.executable, PEERS, "tensorstore", source, ...),
        Command(name="edges", argv=(sys.executable, PEERS, "edges", str(source), str(base / "edges"))),
    ]
    if z5py is not None:
        found.append(run("z5py", z5py, PEERS, "z5py", source, ...))
    return tuple(found)


def counted(base: Path) -> tuple[int, int]:
    """Blocks that zarrlift decoded, and those that are cut in the source."""
    from zarrlift import migrate

    source, out = base / "old.n5", base / "counted"
    outcome = migrate(source, out, verify="none")
    shutil.rmtree(out)
    whole = (0).to_bytes(2, "big") + (3).to_bytes(2, "big") + (64).to_bytes(4, "big") * 3
    cut = 0
    for file in (source / "volume").rglob("*"):
        if file.is_file() and file.name != "attributes.json":
            with open(file, "rb") as block:
                cut += block.read(16) != whole
    return outcome.filled, cut


def check(base: Path, names: list[str]) -> None:
    """Compare every result with the source; fails where a value differs."""
    import numpy as np
    import tensorstore as ts

    def opened(driver: str, place: Path) -> np.ndarray:
        kvstore = {"driver": "file", "path": f"{place}/volume/"}
        return np.asarray(ts.open({"driver": driver, "kvstore": kvstore}).result().read().result())

    source = opened("n5", base / "old.n5").T
    for name, driver in (("lift", "zarr3"), ("tensorstore", "zarr3"), ("z5py", "zarr3")):
        if name in names and not np.array_equal(opened(driver, base / f"{name}.zarr"), source):
            raise SystemExit(f"{name} wrote other values")


def table(figures: dict[str, Figures], edges: float, blocks: tuple[int, int]) -> Iterator[str]:
    """The rows, each with what it may take where something was promised."""

    def verdict(holds: bool) -> str:
        return "holds" if holds else "BROKEN"

    lift, copied = figures["lift"].median, figures["cp"].median
    limit = (copied + edges) * 1.5 + 0.5
    yield f"{'zarrlift --version':34} {figures['start']}"
    yield f"{'536 MB, 1,210 blocks of 64^3: cp -r':34} {figures['cp']}"
    yield f"{'  codecs of edge blocks, 2 threads':34} {edges:6.2f} s"
    yield f"{'  zarrlift migrate':34} {figures['lift']}   at most {limit:.2f} s: {verdict(lift <= limit)}"
    for name, least in (("tensorstore", 10), ("z5py", 5)):
        if name in figures:
            times = figures[name].median / lift
            yield (
                f"{f'  {name}':34} {figures[name]}   {times:.1f} times as long, "
                f"at least {least}: {verdict(times >= least)}"
            )
    yield f"blocks decoded: {blocks[0]}, cut: {blocks[1]}   the same: {verdict(blocks[0] == blocks[1])}"


def versions(z5py: str | None) -> str:
    """Of the peers."""
    found = [f"tensorstore {version('tensorstore')}"]
    try:
        found.append(f"deflate {version('deflate')}")
    except PackageNotFoundError:
        found.append("no deflate")
    if z5py is not None:
        ask = "from importlib.metadata import version; print(version('z5py'))"
        told = subprocess.run((z5py, "-c", ask), check=True, capture_output=True, text=True)
        found.append(f"z5py {told.stdout.strip()}")
    return ", ".join(found)


def main() -> None:
    """Write the source, run everything, compare the results, print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--directory", default="/dev/shm")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--z5py", metavar="ENVIRONMENT")
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    z5py = executable_of(asked.z5py) if asked.z5py else None
    base = Path(tempfile.mkdtemp(dir=asked.directory))
    try:
        subprocess.run((sys.executable, str(HERE / "n5_sources.py"), str(base)), check=True)
        figures = measure(commands(base, z5py), asked.rounds)
        seconds = json.loads(f"[{','.join((base / 'edges').read_text().split())}]")
        check(base, list(figures))
        blocks = counted(base)
    finally:
        shutil.rmtree(base)
    rows = table(figures, statistics.median(seconds[1:]), blocks)
    text = "\n".join((f"{machine()},", f"{versions(z5py)}, {asked.rounds} rounds", "", *rows))
    print(text)
    if asked.write:
        page, block = PAGE.read_text(), f"```text\n{without_verdicts(text)}\n```"
        pattern = rf"(?s)({re.escape(MARK)}\n\n)```text\n.*?```"
        PAGE.write_text(re.sub(pattern, lambda found: found[1] + block, page, count=1))


if __name__ == "__main__":
    main()

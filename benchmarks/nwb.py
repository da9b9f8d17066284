"""An NWB file of 500 MB: zarrlift beside `cp -r` and hdmf-zarr's own conversion, in one run.

    python benchmarks/nwb.py OLD NEW [--directory /dev/shm] [--megabytes 830] [--rounds 3] [--codec default]

OLD and NEW are virtual environments with hdmf-zarr 0.13 and 0.14, from the pins in
fixtures/writers/hdmf-0.13.txt and hdmf-0.14.txt. `--megabytes` are those of the values; what is stored of
them is printed. `--codec` is hdmf-zarr's default (blosc with lz4) or gzip, which neuroconv writes. Start-up
is part of every figure. What both wrote is read by hdmf-zarr 0.14 at the end and compared: objects, fields
and rows.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from harness import Command, measure, remover

SOURCE = Path(__file__).with_name("nwb_source.py")
READ = Path(__file__).parent.parent / "tests" / "environments" / "hdmf-zarr" / "read.py"
ZARRLIFT = str(Path(sys.executable).with_name("zarrlift"))
AT_LEAST = 5
"""Times as fast as hdmf-zarr's conversion."""


def main() -> None:
    """Write the source, run everything, compare, print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--directory", default="/dev/shm")
    parser.add_argument("--megabytes", type=int, default=830)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--codec", choices=("default", "gzip"), default="default")
    asked = parser.parse_args()
    os.environ["NUMCODECS_ALLOW_UNSAFE_PICKLE_DECODE"] = "1"  # else hdmf-zarr reads no references
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # both are compiled once, as users have them
    base = Path(tempfile.mkdtemp(dir=asked.directory))
    python = str(asked.new / "bin" / "python")
    source, ours, theirs, copy = (base / f"{name}.nwb.zarr" for name in ("source", "ours", "theirs", "copy"))
    try:
        subprocess.run(
            [asked.old / "bin" / "python", SOURCE, source, str(asked.megabytes), asked.codec], check=True
        )
        stored = sum(path.stat().st_size for path in source.rglob("*") if path.is_file())
        clear = remover(ours, theirs, copy, base / "ours.nwb.zarr.zarrlift.db")
        figures = measure(
            (
                Command(name="cp -r", argv=("cp", "-r", str(source), str(copy)), prepare=clear),
                Command(
                    name="zarrlift migrate", argv=(ZARRLIFT, "migrate", str(source), str(ours)), prepare=clear
                ),
                Command(
                    name="convert_to_v3",
                    argv=(python, str(READ), "--convert", str(source), str(theirs)),
                    prepare=clear,
                ),
            ),
            asked.rounds,
        )
        subprocess.run([ZARRLIFT, "migrate", source, ours], check=True, stdout=subprocess.DEVNULL)
        done = subprocess.run([python, READ, ours, theirs], check=True, capture_output=True)
        read = json.loads(done.stdout)
        equal = read[str(ours)]["objects"] == read[str(theirs)]["objects"]
    finally:
        shutil.rmtree(base)
    packages = ", ".join(f"{name} {version(name)}" for name in ("zarrlift", "zarr", "numcodecs", "numpy"))
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, {packages}")
    values = f"{asked.megabytes} MB of int16, codec {asked.codec}, {stored / 1e6:.0f} MB stored"
    print(f"{values}, {asked.rounds} rounds\n")
    for name, found in figures.items():
        print(f"{name:20} {found}")
    times = figures["convert_to_v3"].median / figures["zarrlift migrate"].median
    print(f"\n{times:.1f} times as fast; at least {AT_LEAST}: {'holds' if times >= AT_LEAST else 'BROKEN'}")
    print(f"hdmf-zarr 0.14 reads the same objects from both: {'yes' if equal else 'NO'}")


if __name__ == "__main__":
    main()

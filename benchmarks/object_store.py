"""Within an object store that takes its time, beside tensorstore and zarr-python.

    python benchmarks/object_store.py [--milliseconds 20 100] [--rounds 3] [--side 320] [--write]

The store (`object_server`) runs on this machine and answers every request after so many milliseconds; it
needs aiohttp, zarrlift obstore (its extra `s3`) and in a second row s3fs, as zarr-python does. Every result
is compared with the source, value by value.
With `--write` the table goes into docs/explanation/speed.md.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any

from harness import Command, Figures, measure
from main_job import PAGE, ZARRLIFT, machine

HERE = Path(__file__).parent
PEERS = str(HERE / "object_store_peers.py")
MARK = "<!-- figures: benchmarks/object_store.py --write -->"
SHARDS = 5
"""Chunks along each axis of a shard."""
NAMES = {
    "lift": "zarrlift migrate",
    "lift-s3fs": "zarrlift, over s3fs",
    "tensorstore": "tensorstore",
    "zarr-64": "zarr-python, 64 at once",
    "zarr": "zarr-python",
}


ONLY_S3FS = tuple(
    word for place in ("src", "dst") for word in ("--storage-options", f"{place}:default_fill_cache=false")
)
"""An option that obstore knows nothing of, so that s3fs is taken."""


def bucket() -> Any:
    """What everybody reads and writes."""
    from obstore.store import S3Store

    return S3Store("bucket", endpoint=os.environ["AWS_ENDPOINT_URL"], client_options={"allow_http": True})


@contextlib.contextmanager
def server(milliseconds: float) -> Iterator[str]:
    """The store's address, also for every command that is run meanwhile."""
    command = (sys.executable, str(HERE / "object_server.py"), str(milliseconds))
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        address = f"http://127.0.0.1:{int(process.stdout.readline())}"
        os.environ |= {
            "AWS_ENDPOINT_URL": address,
            "AWS_ACCESS_KEY_ID": "benchmark",
            "AWS_SECRET_ACCESS_KEY": "benchmark",
            "AWS_DEFAULT_REGION": "us-east-1",
        }
        yield address
    finally:
        process.terminate()
        process.wait()


def told(address: str) -> dict[str, int]:
    """Requests since the last time this was asked, and the most of them at once."""
    with urllib.request.urlopen(f"{address}/-") as answer:
        found: dict[str, int] = json.load(answer)
    return found


def set_distance(address: str, milliseconds: float) -> None:
    """From now on."""
    urllib.request.urlopen(f"{address}/-", data=str(milliseconds).encode()).close()


def fill(side: int) -> None:
    """A Zarr v2 array of 32^3 chunks, blosc-lz4, in the store, and the same in shards of v3."""
    import numpy as np
    import zarr

    rng = np.random.default_rng(5)
    values = rng.poisson(200, (side, side, side)).astype("u2")
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder, "source")
        from numcodecs import Blosc

        old = zarr.create_array(
            here, name="a", shape=values.shape, chunks=(32,) * 3, dtype="u2", zarr_format=2,
            compressors=Blosc("lz4", 5, Blosc.SHUFFLE),
        )  # fmt: skip
        old[:] = values
        for file in here.rglob("*"):
            if file.is_file():
                bucket().put(f"source/{file.relative_to(here).as_posix()}", file.read_bytes())
        words = ("migrate", "s3://bucket/source", "s3://bucket/shards-v3", "--shards", f"{SHARDS}x", "--job")
        subprocess.run((ZARRLIFT, *words, str(Path(folder, "x.db"))), check=True, capture_output=True)


def check(names: Sequence[str]) -> None:
    """Compare every result with the source; fails where a value differs."""
    import numpy as np
    import zarr
    from zarr.storage import ObjectStore

    store = ObjectStore(bucket(), read_only=True)
    expected = zarr.open_array(store, path="source/a", mode="r")[:]
    for name in names:
        if not np.array_equal(zarr.open_array(store, path=f"{name}/a", mode="r")[:], expected):
            raise SystemExit(f"{name} holds other values")


def contenders(source: str, shards: int, base: Path) -> list[Command]:
    """Each writes a place of its own in the store."""

    def lift(name: str, *options: str) -> Command:
        def fresh() -> None:
            (base / "job.db").unlink(missing_ok=True)
            for part in bucket().list(name):
                bucket().delete([item["path"] for item in part])

        words = ["migrate", f"s3://bucket/{source}", f"s3://bucket/{name}", "--job", str(base / "job.db")]
        if shards or source.endswith("-v3"):
            words += ["--shards", f"{shards}x" if shards else "none"]
        return Command(name=name, argv=(ZARRLIFT, *words, *options), prepare=fresh)

    peers = [
        Command(
            name=name, argv=(sys.executable, PEERS, name, f"bucket/{source}", f"bucket/{name}", str(shards))
        )
        for name in ("tensorstore", "zarr-64", "zarr")
    ]
    return [lift("lift"), lift("lift-s3fs", *ONLY_S3FS), *peers]


def rows(
    title: str, address: str, milliseconds: float, commands: list[Command], rounds: int
) -> Iterator[str]:
    """One workload; results are looked at without the distance."""
    counted = {}
    figures: dict[str, Figures] = {command.name: Figures() for command in commands}
    for _ in range(rounds):
        for command in commands:
            command.prepare()
            command = replace(command, prepare=lambda: None)  # noqa: PLW2901 - it is done
            set_distance(address, milliseconds)
            told(address)
            measure([command], 1, {command.name: figures[command.name]})
            counted[command.name] = told(address)
            set_distance(address, 0)
    check([command.name for command in commands])
    yield title
    least = figures["lift"].median
    for name, found in figures.items():
        count = counted[name]
        work = statistics.median(found.work)
        requests = f"{work:5.1f} s of work, {count['requests']:5} requests, {count['most']:3} at once"
        times = "" if name == "lift" else f"   {found.median / least:.1f} times as long"
        seconds = f"{found.median:6.2f} s ({min(found.seconds):.2f} to {max(found.seconds):.2f})"
        yield f"  {NAMES[name]:24} {seconds}, {requests}{times}"


def table(milliseconds: float, side: int, rounds: int) -> Iterator[str]:
    """The three workloads at one distance."""
    count = (side // 32) ** 3
    with server(0) as address, tempfile.TemporaryDirectory() as folder:
        fill(side)
        base = Path(folder)
        yield f"{milliseconds:g} ms for each request, {count} chunks of 32^3"
        yield from rows("chunks to chunks", address, milliseconds, contenders("source", 0, base), rounds)
        yield from rows(
            f"chunks to shards of {SHARDS}^3",
            address,
            milliseconds,
            contenders("source", SHARDS, base),
            rounds,
        )
        yield from rows(
            f"shards of {SHARDS}^3 to chunks", address, milliseconds, contenders("shards-v3", 0, base), rounds
        )


def main() -> None:
    """Measure at every distance, print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--milliseconds", type=float, nargs="+", default=[20, 100])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--side", type=int, default=320, help="elements along each axis; 320 is 1,000 chunks")
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    peers = ", ".join(f"{name} {version(name)}" for name in ("tensorstore", "obstore", "s3fs", "aiobotocore"))
    lines = [f"{machine()},", f"{peers}, {asked.rounds} rounds"]
    print(*lines, sep="\n")
    for milliseconds in asked.milliseconds:
        for line in chain(("",), table(milliseconds, asked.side, asked.rounds)):
            print(line, flush=True)
            lines.append(line)
    text = "\n".join(lines)
    if asked.write:
        page = PAGE.read_text()
        pattern = rf"(?s)({re.escape(MARK)}\n\n)```text\n.*?```"
        if re.search(pattern, page) is None:
            raise SystemExit(f"{PAGE} has no place for the figures: {MARK}")
        PAGE.write_text(re.sub(pattern, lambda found: f"{found[1]}```text\n{text}\n```", page, count=1))


if __name__ == "__main__":
    main()

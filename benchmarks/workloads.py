"""What `peers` measures: the jobs, who else can do them, what was promised, and the machine's limits."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contenders import WORK
from harness import Command, executable_of, remover
from main_job import ZARRLIFT

HERE = Path(__file__).parent
LIMITS = ("copy", "as many files", "one file", "codecs alone")
"""Contenders that are no library: what the machine needs at least."""

Found = Mapping[str, float]
"""A figure by contender."""
Promise = Callable[[Found], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """Another library or program; those with an `environment` have a folder that an option names."""

    name: str
    environment: bool = False
    inside: str = ""
    """Path of the array below the result."""
    reader: str = "tensorstore"
    """What reads its result, to compare."""
    note: str = ""
    """What it does less than the others."""


PEERS = {
    peer.name: peer
    for peer in (
        Peer(name="tensorstore"),
        Peer(name="zarr-python"),
        Peer(name="zarr-python with zarrs"),
        Peer(name="dask"),
        Peer(
            name="zarrs_reencode", environment=True, note="keeps no job; single arrays of Zarr v2 and v3 only"
        ),
        Peer(name="z5py", environment=True, inside="z5py.zarr/volume"),
        Peer(name="rechunker", environment=True, reader="zarr-python", note="writes Zarr v2, so no shards"),
    )
}
Environments = Mapping[str, str]
"""The Python, or the program itself, of each peer that has an environment of its own and was given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One job, and who else can do it."""

    name: str
    source: str
    options: Sequence[str]
    peers: Sequence[str]
    limit: str
    """What cannot be beaten, one of LIMITS."""
    promise: Promise | None = None
    """Seconds at most, given the medians of this workload by contender."""
    words: str = ""
    memory: Promise | None = None
    """Megabytes at most, given those of all processes by contender."""
    memory_words: str = ""

    def present(self, environments: Environments) -> list[str]:
        """The peers that can run here."""
        return [name for name in self.peers if not PEERS[name].environment or name in environments]


def least(found: Found, *names: str) -> float:
    """The smallest figure of those contenders that ran."""
    return min(found[name] for name in names if name in found)


def quickest(found: Found) -> float:
    """Of all peers that ran."""
    return least(found, *PEERS)


_ALL = ("tensorstore", "zarr-python", "zarr-python with zarrs", "dask", "zarrs_reencode")
WORKLOADS = (
    Workload(
        name="copy", source="large.zarr", options=(), peers=_ALL, limit="copy",
        promise=lambda found: found["copy"] * 1.5 + 0.5, words="1.5 x cp -r + 0.5 s",
    ),
    Workload(
        name="shards", source="large.zarr", options=("--shards", "4,4,4"), peers=_ALL, limit="as many files",
        promise=lambda found: min(found["as many files"] * 1.3 + 0.5, found["tensorstore"] / 2),
        words="1.3 x the same bytes into as many files + 0.5 s, half of tensorstore",
        memory=lambda _: 150,
    ),
    Workload(
        name="n5 gzip", source="container/blocks.n5", options=(), peers=("tensorstore", "z5py"), limit="copy",
        promise=lambda found: min(
            found["tensorstore"] / 10, found["z5py"] / 5 if "z5py" in found else float("inf")
        ),
        words="a tenth of tensorstore, a fifth of z5py",
    ),
    Workload(
        name="n5 zstd", source="container/blocks.n5",
        options=("--codecs", "zstd:3", "--set", "endian=little"),
        peers=("tensorstore", "z5py"), limit="codecs alone",
        promise=lambda found: min(found["codecs alone"] * 1.2 + 0.5, quickest(found)),
        words="1.2 x codecs + 0.5 s, every peer",
    ),
    Workload(
        name="float", source="float.zarr",
        options=("--codecs", "blosc:zstd:5:shuffle", "--set", "endian=little", "--set", "order=C"),
        # zarrs reads no big-endian arrays.
        peers=("tensorstore", "zarr-python", "dask"), limit="codecs alone",
        promise=lambda found: found["codecs alone"] * 1.1 + 0.5, words="1.1 x codecs + 0.5 s",
        memory=lambda found: found["tensorstore"] / 2, memory_words=" (half of tensorstore's)",
    ),
    Workload(
        name="tiny", source="tiny.zarr", options=(), peers=_ALL, limit="copy",
        promise=lambda found: min(found["copy"] * 2 + 0.5, quickest(found)),
        words="2 x cp -r + 0.5 s, every peer",
    ),
    Workload(
        name="tiny shards", source="tiny.zarr", options=("--shards", "7,7,7"), peers=_ALL, limit="one file",
        promise=lambda found: min(found["one file"] + 0.6, found["tensorstore"], found["zarr-python"] / 20),
        words="one file + 0.6 s, tensorstore, a 20th of zarr-python",
    ),
    Workload(
        name="rechunk", source="planes.zarr",
        options=("--chunks", "64,64,64", "--shards", "4,4,4", "--codecs", "zstd:3"),
        peers=(*_ALL, "rechunker"), limit="codecs alone",
        promise=quickest, words="every peer",
    ),
)  # fmt: skip


def commands(base: Path, work: Workload, environments: Environments) -> Iterator[Command]:
    """Every contender of a workload; all write `base`/out. The first is zarrlift."""
    source, out = base / work.source, base / "out"
    clear = remover(out, base / "out.zarrlift.db", base / "out.between")

    def run(name: str, *argv: object) -> Command:
        return Command(name=name, argv=tuple(map(str, argv)), prepare=clear)

    def contender(name: str, python: str) -> Command:
        return run(name, python, HERE / "contenders.py", name, source, out, work.name)

    yield run("zarrlift", ZARRLIFT, "migrate", source, out, *work.options)
    for peer in work.present(environments):
        if peer == "zarrs_reencode":
            yield run(peer, environments[peer], *reencode_options(WORK[work.name]), source, out)
        else:
            yield contender(peer, environments.get(peer, sys.executable))
    match work.limit:
        case "copy":
            yield run("copy", "cp", "-r", source, out)
        case "one file":
            yield run("one file", "sh", "-c", f"find {source} -type f -print0 | xargs -0 cat > {out}")
        case "as many files":
            yield run("as many files", "cp", "-r", base / f"{work.name}.result", out)
        case "codecs alone":
            yield contender("codecs alone", sys.executable)


def reencode_options(work: Mapping[str, Any]) -> list[str]:
    """How zarrs_reencode is asked for a result."""
    first, *others = work["codecs"]
    options = {
        "--chunk-shape": ",".join(map(str, work["chunks"])),
        "--array-to-bytes-codec": json.dumps(first),
        "--bytes-to-bytes-codecs": json.dumps(others),
    }
    if "shards" in work:
        options["--shard-shape"] = ",".join(map(str, work["shards"]))
    return [word for pair in options.items() for word in pair]


def environments(**given: str | None) -> dict[str, str]:
    """Of the peers whose environment was given: a folder, or the Python or program in it."""
    return {name: executable_of(folder, name) for name, folder in given.items() if folder}

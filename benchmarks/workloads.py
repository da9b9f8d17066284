"""The one table of what is measured: each job with everyone who can do the same, and the machine's limit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any

import contenders
from contenders import APART, Setting
from harness import Command


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One job, and who else can do it."""

    name: str
    group: str
    """The table in which it stands (`run.GROUPS`)."""
    what: str
    """The job, as the heading of its rows."""
    sources: Sequence[str]
    """Names of `sources.SOURCES`."""
    commands: Callable[[Setting], AbstractContextManager[list[Command]]]
    """The first is the one that others are compared with."""
    peers: Sequence[str] = ()

    def missing(self, setting: Setting) -> list[str]:
        """Peers that are left out, since their environment does not exist."""
        return [name for name in self.peers if name in APART and name not in setting.programs]


def array(
    name: str, source: str, options: str = "", *, result: Mapping[str, Any], peers: Sequence[str], limit: str
) -> Workload:
    """A migration beside libraries that write the same `result` (programs.py)."""
    return Workload(
        name=name, group="files", what=f"{source} {options}".rstrip(), sources=[source], peers=peers,
        commands=partial(contenders.migrations, source, options, result, peers, limit),
    )  # fmt: skip


def update(name: str, *options: str) -> Workload:
    """1 % of the chunks have changed."""
    return Workload(
        name=name, group="updates", what=" ".join(("update", *options)), sources=["updated.zarr"],
        commands=partial(contenders.updates, options),
    )  # fmt: skip


def in_store(name: str, source: str, milliseconds: float, **shards: Sequence[int]) -> Workload:
    """A copy within a store that takes so long for each request."""
    return Workload(
        name=f"{milliseconds:g} ms, {name}", group="object store", what="1,000 chunks of 32^3",
        sources=["store.zarr"],
        commands=partial(contenders.in_store, source, {"chunks": (32,) * 3, **LZ4, **shards}, milliseconds),
    )  # fmt: skip


LITTLE, BIG = ({"name": "bytes", "configuration": {"endian": endian}} for endian in ("little", "big"))
GZIP = {"name": "gzip", "configuration": {"level": 6}}
ZSTD = {"name": "zstd", "configuration": {"level": 3, "checksum": False}}
BLOSC = {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 2, "blocksize": 0}
LZ4 = {"codecs": [LITTLE, {"name": "blosc", "configuration": BLOSC}]}
FLOATS = [LITTLE, {"name": "blosc", "configuration": {**BLOSC, "cname": "zstd", "typesize": 4}}]
CUBES, SHARDS = {"chunks": (64, 64, 64)}, {"shards": (256, 256, 256)}
# zarr-python copies many chunks at a time.
TINY = {"chunks": (8, 16, 16), "region": (56, 112, 112), **LZ4}
RECHUNK = "--chunks 64,64,64 --shards 4,4,4 --codecs zstd:3"
ALL = ("tensorstore", "zarr-python", "zarr-python with zarrs", "dask", "zarrs_reencode")
N5 = ("tensorstore", "z5py")

WORKLOADS: Sequence[Workload] = (
    array("copy", "large.zarr", result={**CUBES, **LZ4}, peers=ALL, limit="copy"),
    array("links", "large.zarr", "--link hard", result={**CUBES, **LZ4}, peers=(), limit="links"),
    array(
        "shards", "large.zarr", "--shards 4,4,4", result={**CUBES, **SHARDS, **LZ4}, peers=ALL,
        limit="as many files",
    ),
    array("n5 gzip", "container/blocks.n5", result={**CUBES, "codecs": [BIG, GZIP]}, peers=N5, limit="copy"),
    array(
        "n5 edges", "container/cut.n5", result={**CUBES, "codecs": [BIG, GZIP], "only_cut": True}, peers=N5,
        limit="codecs alone",
    ),
    array(
        "n5 zstd", "container/blocks.n5", "--codecs zstd:3 --set endian=little",
        result={**CUBES, "codecs": [LITTLE, ZSTD]}, peers=N5, limit="codecs alone",
    ),
    array(
        "float", "float.zarr", "--codecs blosc:zstd:5:shuffle --set endian=little --set order=C",
        result={"chunks": (64, 128, 128), "codecs": FLOATS},
        # zarrs reads no big-endian arrays.
        peers=("tensorstore", "zarr-python", "dask"), limit="codecs alone",
    ),
    array("tiny", "tiny.zarr", result=TINY, peers=ALL, limit="copy"),
    array(
        "tiny shards", "tiny.zarr", "--shards 7,7,7", result={**TINY, "shards": (56, 112, 112)}, peers=ALL,
        limit="one file",
    ),
    array(  # zarr-python and dask would take four and ten minutes
        "many tiny", "many_tiny.zarr", result=TINY, limit="copy",
        peers=("tensorstore", "zarr-python with zarrs", "zarrs_reencode"),
    ),
    array(
        "rechunk", "planes.zarr", RECHUNK, result={**CUBES, **SHARDS, "codecs": [LITTLE, ZSTD]},
        peers=ALL, limit="codecs alone",
    ),
    Workload(
        name="metadata", group="files", what="many.zarr --in-place", sources=["many.zarr"],
        commands=contenders.metadata,
    ),
    Workload(
        name="memory", group="files", what=f"deep.zarr {RECHUNK} --memory LIMIT", sources=["deep.zarr"],
        commands=partial(contenders.memory, RECHUNK, ("256MB", "1GB", "4GB")),
    ),
    Workload(
        name="plan", group="files", what="10^9 chunks of 64^3, --dry-run",
        sources=["absent.zarr", "sparse.zarr"], commands=contenders.plans,
    ),
    update("chunks as they are"),
    update("codecs changed", "--codecs", "zstd:1"),
    update("into shards", "--shards", "16,16"),
    in_store("chunks to chunks", "source", 20),
    in_store("chunks to shards of 5^3", "source", 20, shards=(160, 160, 160)),
    in_store("shards of 5^3 to chunks", "sharded", 20),
    in_store("chunks to chunks", "source", 100),
    in_store("chunks to shards of 5^3", "source", 100, shards=(160, 160, 160)),
    in_store("shards of 5^3 to chunks", "sharded", 100),
)  # fmt: skip

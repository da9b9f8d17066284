"""Codec libraries beside each other, in MB/s of decoded data: `codecs.py FOLDER ROUNDS`.

What is not installed is left out; `pip install zlib-ng imagecodecs` brings all. Every output is compared with
what was encoded before anything is timed. The fastest round counts.
"""

from __future__ import annotations

import gzip
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import google_crc32c
import numcodecs.blosc
import numcodecs.zstd
import numpy as np
import zstandard
from harness import interleaved, markdown

from zarrlift.core.codec_spec import CodecSpec
from zarrlift.core.codecs.layout import in_c_order
from zarrlift.core.codecs.registry import compile_bytes_codec

SHAPE = (64, 128, 128)
CHUNKS = 8
"""Of SHAPE, each other data, so that two threads have work."""
Contender = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Work:
    """One thing that several libraries can do."""

    title: str
    contenders: Mapping[str, Contender | None]
    """None where the library is not installed."""
    items: Sequence[Any]
    expected: bytes
    """Of the first item."""
    check: Callable[[Any], Any] = bytes
    """What makes of a contender's output what is expected."""
    encodes: bool = False
    """Whether the outputs' sizes are worth a column."""


def camera(number: int) -> np.ndarray:
    """uint16 as cameras give: a smooth scene and shot noise."""
    axes = np.ogrid[tuple(slice(0, length) for length in SHAPE)]
    scene = sum(np.sin(axis / 17 + number) for axis in axes) * 40 + 160
    return (np.random.default_rng(number).poisson(scene) + 100).astype("<u2")


def field(number: int) -> np.ndarray:
    """float32 as models give: smooth, rounded to a 64th; big-endian and in F order."""
    axes = np.ogrid[tuple(slice(0, length) for length in SHAPE)]
    noise = np.random.default_rng(number).normal(0, 0.05, SHAPE)
    values = sum(np.cos(axis / 23 + number) for axis in axes) * 10 + 280 + noise
    return np.asfortranarray((np.round(values * 64) / 64).astype(">f4"))


def labels(number: int) -> np.ndarray:
    """uint64 as segmentations give: cells of one number each, with crooked borders."""
    grid = np.stack(np.meshgrid(*map(np.arange, SHAPE), indexing="ij"), -1)
    grid = grid + 2 * np.sin(grid[..., ::-1] / 3)
    cells = (grid // np.random.default_rng(number).integers(20, 40, 3)).astype("u8")
    return (cells[..., 0] * 10007 + cells[..., 1] * 101 + cells[..., 2] + 720575940000).astype("<u8")


def by(name: str, make: Callable[[Any], Contender]) -> Contender | None:
    """What a module that may not be installed does."""
    try:
        return make(import_module(name))
    except ImportError:
        return None


def inflaters(size: int) -> dict[str, Contender | None]:
    """gunzip, each held to the chunk's size where the library can be."""
    bounded = lambda module: lambda data: module.decompressobj(31).decompress(data, size + 1)  # noqa: E731
    return {
        "zlib": bounded(zlib),
        "numcodecs": numcodecs.GZip().decode,
        "libdeflate": by("deflate", lambda m: lambda data: m.gzip_decompress(data, originalsize=size)),
        "isal": by("isal.isal_zlib", bounded),
        "zlib-ng": by("zlib_ng.zlib_ng", bounded),
        "imagecodecs": by("imagecodecs", lambda m: lambda data: m.gzip_decode(data, out=size)),
    }


def deflaters() -> dict[str, Contender | None]:
    """gzip encoders, each at levels that are meant for each other."""
    compress = lambda level: lambda module: lambda data: module.compress(data, level, 31)  # noqa: E731
    libdeflate = lambda level: lambda module: lambda data: module.gzip_compress(data, level)  # noqa: E731
    return {
        **{f"zlib {level}": compress(level)(zlib) for level in (1, 6)},
        **{f"libdeflate {level}": by("deflate", libdeflate(level)) for level in (1, 6, 7)},
        **{f"isal {level}": by("isal.isal_zlib", compress(level)) for level in (1, 2, 3)},
        "zlib-ng 6": by("zlib_ng.zlib_ng", compress(6)),
    }


def works() -> Iterator[Work]:
    """All of them, in the order of the table."""
    numcodecs.blosc.use_threads = False
    kinds = {"uint16, camera": camera, "float32, model": field, "uint64, labels": labels}
    for kind, make in kinds.items():
        plain = [make(number).tobytes(order="A") for number in range(CHUNKS)]
        members = [gzip.compress(data, 6, mtime=0) for data in plain]
        yield Work(f"gunzip, {kind}", inflaters(len(plain[0])), members, plain[0])
        yield Work(f"gzip, {kind}", deflaters(), plain, plain[0], gzip.decompress, encodes=True)
    images = [camera(number).tobytes() for number in range(CHUNKS)]
    ours = compile_bytes_codec(CodecSpec("zstd", {"level": 3}))
    encoders = {
        "zarrlift": lambda data: ours.encode(np.frombuffer(data, "u1")),
        "zstandard": lambda data: zstandard.ZstdCompressor(level=3).compress(data),
        "numcodecs": lambda data: numcodecs.zstd.compress(data, 3),
        "imagecodecs": by("imagecodecs", lambda m: lambda data: m.zstd_encode(data, 3)),
    }
    decoders = {
        "zstandard": lambda data: zstandard.ZstdDecompressor().decompress(data),
        "numcodecs": numcodecs.zstd.decompress,
        "imagecodecs": by("imagecodecs", lambda m: lambda data: m.zstd_decode(data, out=len(images[0]))),
    }
    frames = [zstandard.ZstdCompressor(level=3).compress(data) for data in images]
    yield Work("zstd 3, uint16, camera", encoders, images, images[0], decoders["zstandard"], encodes=True)
    yield Work("unzstd, uint16, camera", decoders, frames, images[0])
    sums = {"google-crc32c": google_crc32c.value, "crc32c": by("crc32c", lambda m: m.crc32c)}
    checksum = google_crc32c.value(images[0]).to_bytes(4, "big")
    yield Work("crc32c", sums, images, checksum, lambda number: number.to_bytes(4, "big"))
    fields = [field(number) for number in range(CHUNKS)]
    orders = {
        "numpy astype": lambda array: array.astype("<f4", order="C"),
        "zarrlift": lambda array: in_c_order(array, np.dtype("<f4")),
    }
    little = fields[0].astype("<f4").tobytes()
    yield Work("to little-endian C order, float32", orders, fields, little, lambda array: array.tobytes())


def seconds(function: Contender, items: Sequence[Any], threads: int) -> float:
    """Of all items, each of which is thrown away."""
    started = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(function, items):
            pass
    return time.perf_counter() - started


def rows(work: Work, rounds: int) -> Iterator[list[str]]:
    """MB/s with one thread and with two, and shares of the decoded size; SystemExit for a wrong output."""
    contenders = {name: function for name, function in work.contenders.items() if function}
    for name, function in contenders.items():
        if bytes(work.check(function(work.items[0]))) != work.expected:
            raise SystemExit(f"{work.title}: {name} gives something else")
    found = interleaved(
        {
            (name, threads): partial(seconds, function, work.items, threads)
            for name, function in contenders.items()
            for threads in (1, 2)
        },
        max(rounds, 7) if rounds else 0,
    )
    decoded = max(len(work.expected), memoryview(work.items[0]).nbytes)
    for name, function in contenders.items():
        speeds = [f"{decoded * len(work.items) / 1e6 / min(found[name, threads]):.0f}" for threads in (1, 2)]
        yield [name, *speeds, f"{len(function(work.items[0])) / decoded:.1%}" if work.encodes else ""]


if __name__ == "__main__":
    for each in works():
        head = [each.title, "1 thread", "2 threads", "size"]
        print(markdown(head, *rows(each, int(sys.argv[2]))), end="\n\n")

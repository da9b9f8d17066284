"""Codec libraries beside each other, and our pipelines beside the fastest of them.

    python benchmarks/codecs.py [--rounds 7]

A contender that is not installed is left out; `pip install isal zlib-ng imagecodecs cramjam` brings all.
Every output is compared with what was encoded before anything is timed. Rounds are interleaved: every
contender once with one thread and once with two, then all again. The fastest round counts, since what
makes others slower comes from elsewhere; so machines that do other work give usable ratios too.
"""

from __future__ import annotations

import argparse
import gzip
import os
import platform
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import crc32c
import numcodecs.blosc
import numcodecs.zstd
import numpy as np
import zstandard

from zarrlift.core.chain.chain import Chain
from zarrlift.core.codecs import deflate
from zarrlift.core.codecs.layout import in_c_order
from zarrlift.core.codecs.pipeline import Pipeline
from zarrlift.core.codecs.registry import compile_bytes_codec
from zarrlift.core.data_types.v3 import DataType
from zarrstack.core.codec_spec import CodecSpec

PACKAGES = (
    *("zarrlift", "numpy", "deflate", "isal", "zlib-ng", "imagecodecs", "cramjam"),
    *("zstandard", "numcodecs", "crc32c"),
)
SHAPE = (64, 128, 128)
CHUNKS = 8
"""Of SHAPE, each other data, so that two threads have work."""

Contender = Callable[[Any], Any]
Check = Callable[[Any], bytes]
_local = threading.local()


@dataclass(frozen=True, slots=True)
class Work:
    """One thing that several libraries can do."""

    title: str
    contenders: Mapping[str, Contender]
    items: Sequence[Any]
    expected: bytes
    """Of the first item."""
    check: Check = bytes
    """What makes of a contender's output what is expected."""
    sizes: bool = False
    """Whether the outputs' sizes are worth a column."""


def camera(number: int) -> np.ndarray:
    """uint16 as cameras give: a smooth scene and shot noise."""
    rng = np.random.default_rng(number)
    axes = np.ogrid[tuple(slice(0, length) for length in SHAPE)]
    scene = sum(np.sin(axis / 17 + number) for axis in axes) * 40 + 160
    return (rng.poisson(scene) + 100).astype("<u2")


def field(number: int) -> np.ndarray:
    """float32 as models give: smooth, rounded to a 64th; big-endian and in F order."""
    rng = np.random.default_rng(number)
    axes = np.ogrid[tuple(slice(0, length) for length in SHAPE)]
    values = sum(np.cos(axis / 23 + number) for axis in axes) * 10 + 280 + rng.normal(0, 0.05, SHAPE)
    return np.asfortranarray((np.round(values * 64) / 64).astype(">f4"))


def labels(number: int) -> np.ndarray:
    """uint64 as segmentations give: cells of one number each, with crooked borders."""
    rng = np.random.default_rng(number)
    grid = np.stack(np.meshgrid(*map(np.arange, SHAPE), indexing="ij"), -1)
    grid = grid + 2 * np.sin(grid[..., ::-1] / 3)
    cells = (grid // rng.integers(20, 40, 3)).astype("u8")
    return (cells[..., 0] * 10007 + cells[..., 1] * 101 + cells[..., 2] + 720575940000).astype("<u8")


def optional(name: str) -> Any:
    """A module, or None."""
    try:
        return import_module(name)
    except ImportError:
        return None


def zstd_3(data: Any) -> bytes:
    """One compressor per thread."""
    if not hasattr(_local, "compressor"):
        _local.compressor = zstandard.ZstdCompressor(level=3)
    return _local.compressor.compress(memoryview(data).cast("B"))


def unzstd_per_thread(data: Any) -> bytes:
    """One decompressor per thread."""
    if not hasattr(_local, "decompressor"):
        _local.decompressor = zstandard.ZstdDecompressor()
    return _local.decompressor.decompress(data)


def blosc_zstd(data: Any) -> bytes:
    """What the float32 rewrite writes."""
    return numcodecs.blosc.compress(data, b"zstd", 5, 1, 0, 4)


def blosc_decode(data: Any) -> np.ndarray:
    """Into fresh memory."""
    size = int.from_bytes(data[4:8], "little")  # as its header says
    return numcodecs.blosc.decompress(data, np.empty(size, "u1"))


def unblosc(data: Any) -> bytes:
    """For comparing."""
    return blosc_decode(data).tobytes()


def inflaters(size: int) -> dict[str, Contender]:
    """gunzip, each held to the chunk's size where the library can be."""
    found: dict[str, Contender] = {
        "zlib": lambda data: zlib.decompressobj(31).decompress(data, size + 1),
        "numcodecs": numcodecs.GZip().decode,
    }
    if module := deflate.libdeflate:
        found["libdeflate"] = lambda data: module.gzip_decompress(data, size)
    if isal := optional("isal.isal_zlib"):
        found["isal"] = lambda data: isal.decompressobj(31).decompress(data, size + 1)
    if ng := optional("zlib_ng.zlib_ng"):
        found["zlib-ng"] = lambda data: ng.decompressobj(31).decompress(data, size + 1)
    if images := optional("imagecodecs"):
        found["imagecodecs"] = lambda data: images.gzip_decode(data, out=size)
    if cramjam := optional("cramjam"):
        found["cramjam"] = lambda data: cramjam.gzip.decompress(data, size)
    return found


def deflaters() -> dict[str, Contender]:
    """gzip encoders, each at levels that are meant for each other."""
    found: dict[str, Contender] = {
        "zlib 1": lambda data: zlib.compress(data, 1, 31),
        "zlib 6": lambda data: zlib.compress(data, 6, 31),
    }
    if module := deflate.libdeflate:
        found["libdeflate 1"] = lambda data: module.gzip_compress(data, 1)
        found["libdeflate 6"] = lambda data: module.gzip_compress(data, 6)
        found["libdeflate 7"] = lambda data: module.gzip_compress(data, 7)
    if isal := optional("isal.isal_zlib"):
        found["isal 1"] = lambda data: isal.compress(data, 1, 31)
        found["isal 2"] = lambda data: isal.compress(data, 2, 31)
        found["isal 3"] = lambda data: isal.compress(data, 3, 31)
    if ng := optional("zlib_ng.zlib_ng"):
        found["zlib-ng 6"] = lambda data: ng.compress(data, 6, 31)
    return found


def pipeline(shape: tuple[int, ...], name: str, *codecs: CodecSpec) -> Pipeline:
    """A chain of codecs for one chunk."""
    return Pipeline(Chain(codecs), shape, DataType(name))


def rewrite(source: Pipeline, target: Pipeline) -> Contender:
    """What a migration does to the payload of a chunk, through the array."""
    return lambda payload: target.encode(source.decode(payload))


def recode(source: Pipeline, target: Pipeline, place: int) -> Contender:
    """What a migration does to the payload of a chunk whose items keep their order."""
    return lambda payload: target.apply(source.undo(payload, place), place)


def works() -> Iterator[Work]:
    """All of them, in the order of the table."""
    numcodecs.blosc.use_threads = False
    kinds = {
        "uint16, camera": [camera(number) for number in range(CHUNKS)],
        "float32, model": [field(number) for number in range(CHUNKS)],
        "uint64, labels": [labels(number) for number in range(CHUNKS)],
    }
    for kind, arrays in kinds.items():
        plain = [array.tobytes(order="A") for array in arrays]
        members = [gzip.compress(data, 6, mtime=0) for data in plain]
        yield Work(f"gunzip, {kind}", inflaters(len(plain[0])), members, plain[0])
        yield Work(f"gzip, {kind}", deflaters(), plain, plain[0], gzip.decompress, sizes=True)
    cameras, models = list(kinds.values())[:2]
    frames = [zstd_3(array) for array in cameras]
    raw = cameras[0].tobytes()
    ours = compile_bytes_codec(CodecSpec("zstd", {"level": 3}))
    encoders: dict[str, Contender] = {
        "zarrstack": lambda data: ours.encode(data.reshape(-1).view("u1")),
        "zstandard": zstd_3,
        "numcodecs": lambda data: numcodecs.zstd.compress(data, 3),
    }
    decoders: dict[str, Contender] = {
        "zstandard": unzstd_per_thread,
        "numcodecs": numcodecs.zstd.decompress,
    }
    if images := optional("imagecodecs"):
        encoders["imagecodecs"] = lambda data: images.zstd_encode(data, 3)
        decoders["imagecodecs"] = lambda data: images.zstd_decode(data, out=len(raw))
    unzstd = zstandard.ZstdDecompressor().decompress
    yield Work("zstd 3, uint16, camera", encoders, cameras, raw, unzstd, sizes=True)
    yield Work("unzstd, uint16, camera", decoders, frames, raw)
    little = [np.ascontiguousarray(array.astype("<f4")) for array in models]
    packed = [blosc_zstd(array) for array in little]
    bloscs: dict[str, Contender] = {"numcodecs": blosc_zstd}
    if images:
        bloscs["imagecodecs"] = lambda data: images.blosc_encode(
            data, level=5, compressor="zstd", shuffle=1, typesize=4, numthreads=1
        )
    raw = little[0].tobytes()
    yield Work("blosc zstd 5, float32", bloscs, little, raw, unblosc, sizes=True)
    yield Work("blosc decode, float32", {"numcodecs": blosc_decode}, packed, raw)
    sums = {"crc32c": lambda data: crc32c.crc32c(data).to_bytes(4)}
    if google := optional("google_crc32c"):
        sums["google-crc32c"] = lambda data: google.value(data).to_bytes(4)
    flat = [array.tobytes() for array in cameras]
    yield Work("crc32c", sums, flat, crc32c.crc32c(flat[0]).to_bytes(4))
    yield Work(
        "to little-endian C order, float32",
        {
            "numpy astype": lambda array: array.astype("<f4", order="C"),
            "zarrstack": lambda array: in_c_order(array, np.dtype("<f4")),
        },
        models,
        raw,
        lambda array: array.tobytes(),
    )


def jobs() -> Iterator[Work]:
    """The codec work of two migrations, bare and by our pipelines."""
    size = int(np.prod(SHAPE))
    inflate = (
        deflate.libdeflate.gzip_decompress if deflate.libdeflate else lambda data, _: gzip.decompress(data)
    )
    unzlib = (
        deflate.libdeflate.zlib_decompress if deflate.libdeflate else lambda data, _: zlib.decompress(data)
    )
    big, little = (CodecSpec("bytes", {"endian": endian}) for endian in ("big", "little"))

    items = [camera(number).astype(">u2") for number in range(CHUNKS)]
    source = pipeline(SHAPE, "uint16", big, CodecSpec("gzip", {"level": 6}))
    target = pipeline(SHAPE, "uint16", big, CodecSpec("zstd", {"level": 3}))
    yield Work(
        "N5 gzip to zstd 3",
        {"bare": lambda data: zstd_3(inflate(data, 2 * size)), "zarrstack": recode(source, target, 1)},
        [gzip.compress(array.tobytes(), 6, mtime=0) for array in items],
        items[0].tobytes(),
        zstandard.ZstdDecompressor().decompress,
    )

    def bare(data: bytes) -> bytes:
        array = np.ndarray(SHAPE, ">f4", unzlib(data, 4 * size), order="F")
        return blosc_zstd(array.astype("<f4", order="C"))

    fields = [field(number) for number in range(CHUNKS)]
    turn = CodecSpec("transpose", {"order": [2, 1, 0]})
    blosc = {"cname": "zstd", "clevel": 5, "shuffle": "shuffle", "typesize": 4, "blocksize": 0}
    source = pipeline(SHAPE, "float32", turn, big, CodecSpec("numcodecs.zlib", {"level": 1}))
    target = pipeline(SHAPE, "float32", little, CodecSpec("blosc", blosc))
    yield Work(
        "zlib, big-endian, F order to little-endian C blosc-zstd 5",
        {"bare": bare, "zarrstack": rewrite(source, target)},
        [zlib.compress(array.tobytes(order="A"), 6) for array in fields],
        np.ascontiguousarray(fields[0].astype("<f4")).tobytes(),
        unblosc,
    )


def seconds(function: Contender, items: Sequence[Any], pool: ThreadPoolExecutor | None) -> float:
    """Of all items, each of which is thrown away."""
    started = time.perf_counter()
    if pool is None:
        for item in items:
            function(item)
    else:
        for _ in pool.map(function, items):
            pass
    return time.perf_counter() - started


def measure(work: Work, rounds: int) -> dict[str, tuple[float, float]]:
    """Seconds of the fastest round of each contender, with one thread and with two."""
    for name, function in work.contenders.items():
        if bytes(work.check(function(work.items[0]))) != work.expected:
            raise SystemExit(f"{work.title}: {name} gives something else")
    best = dict.fromkeys(work.contenders, (float("inf"), float("inf")))
    with ThreadPoolExecutor(2) as pool:
        for _ in range(rounds):
            for name, function in work.contenders.items():
                one = seconds(function, work.items, None)
                two = seconds(function, work.items, pool)
                best[name] = (min(best[name][0], one), min(best[name][1], two))
    return best


def rows(work: Work, best: Mapping[str, tuple[float, float]]) -> Iterator[str]:
    """MB/s of decoded data; sizes as shares of it."""
    decoded = len(work.expected)
    if work.title == "crc32c":
        decoded = memoryview(work.items[0]).nbytes
    yield work.title
    for name, (one, two) in best.items():
        total = decoded * len(work.items) / 1e6
        size = f"{len(work.contenders[name](work.items[0])) / decoded:8.1%}" if work.sizes else ""
        yield f"  {name:16}{total / one:8.0f}{total / two:8.0f}{size}"


def machine() -> str:
    """What was measured on."""
    packages = []
    for name in PACKAGES:
        try:
            packages.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            packages.append(f"no {name}")
    words = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    return f"{words}, zlib {zlib.ZLIB_RUNTIME_VERSION},\n{', '.join(packages)}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    asked = parser.parse_args()
    lines = [machine(), f"{asked.rounds} rounds; MB/s of decoded data with 1 and 2 threads; encoded size", ""]
    for work in works():
        lines += rows(work, measure(work, asked.rounds))
        print(work.title, flush=True)
    lines += ["", "Pipelines beside the bare libraries, 2 threads"]
    for work in jobs():
        best = measure(work, asked.rounds)
        ratio = best["zarrstack"][1] / best["bare"][1]
        lines += [f"{work.title}: {ratio:.2f} times the bare codecs", *list(rows(work, best))[1:]]
    print("\n".join(lines))


if __name__ == "__main__":
    main()

"""Random arrays in N5 and the 2022 draft, as other writers made them, migrate to equal values."""

from __future__ import annotations

import bz2
import gzip
import itertools
import json
import lzma
import math
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.support.chances import examples
from tests.support.readers import ask_zarr_2_18

import zarrlift
from zarrlift.core.draft_v3.nodes import Dialect, DraftEntryPoint, write_entry

NUMBERS = tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
TYPES = (*NUMBERS, "float32", "float64")
Box = tuple[tuple[int, ...], tuple[int, ...]]

BY_TENSORSTORE: tuple[dict[str, Any], ...] = (
    {"type": "raw"},
    {"type": "gzip", "level": 1},
    {"type": "gzip", "level": 1, "useZlib": True},
    {"type": "bzip2", "blockSize": 1},
    {"type": "xz", "preset": 0},
    {"type": "blosc", "cname": "lz4", "clevel": 1, "shuffle": 1},
    {"type": "blosc", "cname": "zstd", "clevel": 1, "shuffle": 2},
    {"type": "zstd", "level": 1},
)
BY_ZARR: tuple[dict[str, Any] | None, ...] = (
    None,
    {"id": "gzip", "level": 1},
    {"id": "zlib", "level": 1},
    {"id": "bz2", "level": 1},
    {"id": "lzma", "preset": 0},
    {"id": "blosc", "cname": "lz4", "clevel": 1, "shuffle": 1},
    {"id": "zstd", "level": 1},
    {"id": "lz4"},
)
PACKERS = {
    "raw": (bytes, bytes),
    "gzip": (gzip.decompress, gzip.compress),
    "bzip2": (bz2.decompress, bz2.compress),
    "xz": (lzma.decompress, lzma.compress),
}
"""N5 compression -> Python's own decoder and encoder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """An array that is to be written; lengths in the order that its writer shows."""

    path: str
    dtype: str
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    compressor: Any
    seed: int
    boxes: tuple[Box, ...]
    """What is written of it, each box with random bits."""
    fs: bool = False


@st.composite
def wishes(draw: st.DrawFn, compressors: tuple[Any, ...], path: str = "a") -> Wish:
    """Small arrays of one to four axes, written in part."""
    shape = tuple(draw(st.lists(st.integers(1, 9), min_size=1, max_size=4)))
    corners = [st.lists(st.integers(0, n), min_size=2, max_size=2).map(sorted) for n in shape]
    boxes = draw(st.lists(st.tuples(*corners), min_size=1, max_size=3))
    return Wish(
        path=path,
        dtype=draw(st.sampled_from(TYPES)),
        shape=shape,
        chunks=tuple(draw(st.integers(1, 5)) for _ in shape),
        compressor=draw(st.sampled_from(compressors)),
        seed=draw(st.integers(0, 2**32 - 1)),
        boxes=tuple((tuple(a for a, _ in box), tuple(b for _, b in box)) for box in boxes),
        fs=draw(st.booleans()),
    )


@contextmanager
def folder() -> Iterator[Path]:
    """A directory for one example."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def bits(values: np.ndarray) -> bytes:
    """Every bit of the values, whatever their byte and memory order."""
    return np.array(values, dtype=values.dtype.newbyteorder("<"), order="C").tobytes()


def assert_migrated(
    root: Path, expected: dict[str, np.ndarray], shown: str, axes: str, **options: Any
) -> None:
    """An archive migrates with these axes to what its writer read, in the order it `shown` it."""
    outcome = zarrlift.migrate(root, root.with_suffix(".zarr"), axes=axes, **options)
    assert outcome.ok, outcome.problems
    for path, values in expected.items():
        found = zarr.open_array(root.with_suffix(".zarr") / path, mode="r")[...]
        wanted = values if axes == shown else values.T
        assert found.shape == wanted.shape
        assert bits(found) == bits(wanted), path
    assert zarrlift.verify(root, root.with_suffix(".zarr"), full=True).ok


# ----- tensorstore


def write(root: Path, wish: Wish) -> Any:
    """The array by tensorstore, still open."""
    import tensorstore as ts

    metadata = {
        "dimensions": list(wish.shape),
        "blockSize": list(wish.chunks),
        "dataType": wish.dtype,
        "compression": wish.compressor,
    }
    spec = {
        "driver": "n5",
        "kvstore": {"driver": "file", "path": f"{root}/{wish.path}/"},
        "metadata": metadata,
    }
    array = ts.open(spec, create=True).result()
    rng = np.random.default_rng(wish.seed)
    for start, stop in wish.boxes:
        lengths = [b - a for a, b in zip(start, stop, strict=True)]
        size = math.prod(lengths) * np.dtype(wish.dtype).itemsize
        values = np.frombuffer(rng.bytes(size), wish.dtype).reshape(lengths)
        array[tuple(slice(a, b) for a, b in zip(start, stop, strict=True))].write(values).result()
    return array


def cut_edges(place: Path, wish: Wish, rng: np.random.Generator) -> int:
    """Cut some of the edge blocks to the array, as Java writes them; gives how many."""
    unpack, pack = PACKERS[wish.compressor["type"]]
    ndim, cut = len(wish.shape), 0
    for file in sorted(place.rglob("*")):
        if not file.is_file() or file.name == "attributes.json":
            continue
        index = tuple(map(int, file.relative_to(place).parts))
        inside = tuple(min(c, n - i * c) for i, c, n in zip(index, wish.chunks, wish.shape, strict=True))
        if inside == wish.chunks or rng.random() < 0.3:
            continue
        data = file.read_bytes()
        block = np.frombuffer(unpack(data[4 + 4 * ndim :]), np.dtype(wish.dtype).newbyteorder(">"))
        part = block.reshape(wish.chunks[::-1])[tuple(slice(0, n) for n in inside[::-1])]
        header = struct.pack(f">HH{ndim}I", 0, ndim, *inside)
        file.write_bytes(header + pack(np.ascontiguousarray(part).tobytes()))
        cut += 1
    return cut


codecs = st.sampled_from(["portable", "portable", "zstd:1", "gzip:1", "none"])


@pytest.mark.needs_reader("tensorstore")
@examples(100)
@given(wishes(BY_TENSORSTORE), st.sampled_from(["reversed", "kept"]), codecs)
def test_what_tensorstore_wrote_migrates_to_equal_values(wish: Wish, axes: str, codec: str) -> None:
    with folder() as place:
        values = write(place / "old.n5", wish).read().result()
        recipe = zarrlift.Recipe(base=zarrlift.ArrayRecipe(codecs=codec))
        assert_migrated(place / "old.n5", {wish.path: values}, "kept", axes, recipe=recipe)


plain = tuple(each for each in BY_TENSORSTORE if each["type"] in PACKERS and not each.get("useZlib"))


@pytest.mark.needs_reader("tensorstore")
@examples(60)
@given(wishes(plain), st.sampled_from(["reversed", "kept"]))
def test_edge_blocks_that_are_cut_some_or_all_change_nothing(wish: Wish, axes: str) -> None:
    with folder() as place:
        values = write(place / "old.n5", wish).read().result()
        cut = cut_edges(place / "old.n5" / wish.path, wish, np.random.default_rng(wish.seed))
        outcome = zarrlift.migrate(place / "old.n5", place / "counted.zarr", axes=axes)
        assert outcome.filled == cut, "blocks that fill their cell are not decoded, and all others are"
        assert_migrated(place / "old.n5", {wish.path: values}, "kept", axes)


in_place = tuple(each for each in BY_TENSORSTORE if each["type"] in ("raw", "blosc", "zstd"))


@pytest.mark.needs_reader("tensorstore")
@examples(40)
@given(wishes(in_place))
def test_in_place_the_same_values_are_read(wish: Wish) -> None:
    with folder() as place:
        values = write(place / "old.n5", wish).read().result()
        assert zarrlift.migrate(place / "old.n5", in_place=True).ok
        found = zarr.open_array(place / "old.n5" / wish.path, mode="r")[...]
        assert bits(found) == bits(values)


# ----- zarr 2.18


def many(draw: st.DrawFn) -> list[Wish]:
    """Arrays of one archive, since starting another Python takes longer than writing them all."""
    return [draw(wishes(BY_ZARR, f"a{number}")) for number in range(40)]


@pytest.mark.needs_reader("zarr-2.18")
@settings(max_examples=3, phases=[Phase.generate])  # nothing is to be learned from smaller lists
@given(st.composite(many)(), st.sampled_from(["reversed", "kept"]))
def test_what_zarr_2_18_wrote_migrates_to_equal_values(arrays: list[Wish], axes: str) -> None:
    with folder() as place:
        root = place / "old.n5"
        ask_zarr_2_18("n5.py", root, [asdict(wish) for wish in arrays])
        expected = {wish.path: np.load(f"{root}.{wish.path}.npy") for wish in arrays}
        assert_migrated(root, expected, "reversed", axes)


# Random arrays in the 2022 draft of v3, either dialect, sharded or not, migrate to equal values.
#
# No library wrote the text's dialect, and zarr-python's old API is not here: a small writer after the
# text makes the archives, without any of our codecs.

URI = "https://purl.org/zarr/spec/"
MISSING = (2**64 - 1, 2**64 - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """An array that is to be written."""

    dialect: Dialect
    path: str
    dtype: str
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    shards: tuple[int, ...] | None
    order: str
    separator: str
    packed: bool
    fill: int
    seed: int

    def present(self, place: tuple[int, ...]) -> bool:
        return bool(np.random.default_rng([self.seed, 1, *place]).integers(3))

    def values(self) -> np.ndarray:
        """What was put in: the fill value where chunks are missing."""
        result = np.full(self.shape, self.fill, self.dtype)
        for place in self.grid():
            if self.present(place):
                box = result[self.box(place)]
                box[...] = np.random.default_rng([self.seed, 2, *place]).integers(0, 99, box.shape)
        return result

    def grid(self) -> list[tuple[int, ...]]:
        counts = (-(-n // c) for n, c in zip(self.shape, self.chunks, strict=True))
        return list(itertools.product(*map(range, counts)))

    def box(self, place: tuple[int, ...]) -> tuple:
        pairs = zip(place, self.chunks, strict=True)
        return (*(slice(i * c, (i + 1) * c) for i, c in pairs), ...)

    def document(self) -> dict:
        old = self.dialect is Dialect.ZARR_PYTHON
        dtype = np.dtype(self.dtype)
        result = {
            "shape": self.shape,
            "data_type": dtype.str.removeprefix("|") if old else dtype.newbyteorder("=").name,
            "chunk_grid": {"type": "regular", "chunk_shape": self.chunks, "separator": self.separator},
            "chunk_memory_layout": self.order,
            "fill_value": self.fill,
            "extensions": [],
            "attributes": {"path": self.path},
        }
        configuration = {"configuration": {"level": 1}}
        codecs = []
        if dtype.str[0] == ">":
            codecs.append({"type": f"{URI}codecs/endian/1.0", "configuration": {"endian": "big"}})
        if self.packed:
            codecs.append({"type": f"{URI}codecs/gzip/1.0", **configuration})
            result["compressor"] = {"codec": f"{URI}codec/gzip/1.0", **configuration}
        if old:
            result.setdefault("compressor", None)
        else:
            result["codecs"] = codecs
            result.pop("compressor", None)
        if self.shards is not None:
            sharding = {"extension": f"{URI}storage_transformers/sharding/1.0", "type": "indexed"}
            counts = {"configuration": {"chunks_per_shard": self.shards}}
            result["storage_transformers"] = [{**sharding, **counts}]
        return result

    def objects(self) -> dict[str, bytes]:
        values = self.values()
        payloads = {}
        for place in filter(self.present, self.grid()):
            chunk = np.full(self.chunks, self.fill, self.dtype)
            part = values[self.box(place)]
            chunk[(*map(slice, part.shape), ...)] = part
            content = chunk.tobytes(order=self.order)
            payloads[place] = gzip.compress(content, 1) if self.packed else content
        if self.shards is not None:
            payloads = sharded(payloads, self.shards)
        return {self.key(place): content for place, content in payloads.items()}

    def key(self, place: tuple[int, ...]) -> str:
        last = "c" + self.separator.join(map(str, place)) if place else self.dialect.scalar_key
        return self.dialect.data(self.path) + last


def sharded(payloads: dict, counts: tuple[int, ...]) -> dict[tuple[int, ...], bytes]:
    """Shards: payloads one after the other, last first, then the index in C order."""
    members: dict[tuple[int, ...], dict] = {}
    for place, content in payloads.items():
        shard = tuple(i // n for i, n in zip(place, counts, strict=True))
        members.setdefault(shard, {})[tuple(i % n for i, n in zip(place, counts, strict=True))] = content
    result = {}
    for shard, inner in members.items():
        body, index = b"", {}
        for place in reversed(inner):
            index[place] = (len(body), len(inner[place]))
            body += inner[place]
        pairs = [index.get(place, MISSING) for place in itertools.product(*map(range, counts))]
        result[shard] = body + np.array(pairs, "<u8").tobytes()
    return result


@st.composite
def drawn(draw: st.DrawFn, path: str, dialect: Dialect) -> Drawn:
    ndim = draw(st.integers(0, 3))
    lengths = st.tuples(*[st.integers(1, 4)] * ndim)
    shape = draw(st.tuples(*[st.integers(0, 9)] * ndim))
    dtype = draw(st.sampled_from(["|u1", "<i2", ">i2", "<u4", ">i4", "<f4", ">f8"]))
    return Drawn(
        dialect=dialect,
        path=path,
        dtype=dtype,
        shape=shape,
        chunks=draw(lengths),
        shards=draw(st.none() | lengths),
        order=draw(st.sampled_from("CF")),
        separator=draw(st.sampled_from("./")),
        packed=draw(st.booleans()),
        fill=draw(st.integers(0, 99)),
        seed=draw(st.integers(0, 999)),
    )


@st.composite
def hierarchies(draw: st.DrawFn) -> list[Drawn]:
    dialect = draw(st.sampled_from([Dialect.TEXT, Dialect.ZARR_PYTHON]))
    names = draw(st.sampled_from([[""], ["a"], ["a", "c0/c1", "root/data"]]))
    return [draw(drawn(path, dialect)) for path in names]


def write_draft(root: Path, arrays: list[Drawn]) -> None:
    dialect = arrays[0].dialect
    objects = {"zarr.json": json.dumps(write_entry(DraftEntryPoint(dialect=dialect))).encode()}
    for array in arrays:
        objects[dialect.key(array.path, "array")] = json.dumps(array.document()).encode()
        objects.update(array.objects())
    for key, content in objects.items():
        (root / key).parent.mkdir(parents=True, exist_ok=True)
        (root / key).write_bytes(content)


@examples(60)
@given(
    hierarchies(),
    st.sampled_from([None, "bytes", "crc32c"]),
    st.sampled_from(["portable", "keep", "zstd:1", "none"]),
    st.sampled_from(["keep", "C", "F"]),
)
def test_every_value_reads_back(arrays, shard_index, codecs, order) -> None:
    wishes = {} if codecs == "keep" else {"order": order}
    options = zarrlift.ArrayRecipe(shard_index=shard_index, codecs=codecs, **wishes)
    with tempfile.TemporaryDirectory() as name:
        source, destination = Path(name, "old"), Path(name, "new")
        write_draft(source, arrays)
        outcome = zarrlift.migrate(source, destination, recipe=zarrlift.Recipe(base=options))
        assert outcome.ok, outcome.problems
        for array in arrays:
            found = zarr.open_array(destination / array.path, mode="r", zarr_format=3)
            assert found.attrs.asdict() == {"path": array.path}
            assert found.dtype == np.dtype(array.dtype).newbyteorder("=")
            shown = np.asarray(found[...])
            assert shown.shape == array.shape
            assert shown.tolist() == array.values().tolist()
            there = [
                f for f in (destination / array.path).rglob("*") if f.is_file() and f.name != "zarr.json"
            ]
            if array.path or len(arrays) == 1:
                assert len(there) == len(array.objects()), "what is missing stays so"
        report = zarrlift.verify(source, destination, full=True)
        assert report.ok, report.problems

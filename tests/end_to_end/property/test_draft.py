"""Random arrays in the 2022 draft of v3, either dialect, sharded or not, migrate to equal values.

No library wrote the text's dialect, and zarr-python's old API is not here: a small writer after the
text makes the archives, without any of our codecs.
"""

from __future__ import annotations

import gzip
import itertools
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import zarr
from hypothesis import given
from hypothesis import strategies as st
from tests.support.chances import examples

import zarrlift
from zarrlift.core.draft_v3.nodes import Dialect, DraftEntryPoint, write_entry

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


def write(root: Path, arrays: list[Drawn]) -> None:
    dialect = arrays[0].dialect
    objects = {"zarr.json": json.dumps(write_entry(DraftEntryPoint(dialect=dialect))).encode()}
    for array in arrays:
        objects[dialect.array_key(array.path)] = json.dumps(array.document()).encode()
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
        write(source, arrays)
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

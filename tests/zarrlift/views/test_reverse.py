"""Readers that know Zarr v2 or N5 only read a Zarr v3 hierarchy, bit for bit, as it lies.

The truth is what they see themselves: zarr-python 2.18.7, and tensorstore's zarr and n5 drivers.
"""

from __future__ import annotations

import asyncio
import json
import pickle
import tempfile
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import tensorstore as ts
import zarr
from hypothesis import given
from hypothesis import strategies as st
from tests.support.fixtures_index import archive, same
from tests.support.readers import ask_zarr_2_18
from zarr.abc.store import OffsetByteRequest, RangeByteRequest, SuffixByteRequest
from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec, GzipCodec, TransposeCodec, ZstdCodec
from zarr.core.buffer.core import default_buffer_prototype
from zarr.storage import LocalStore

import zarrlift
from zarrlift.views.reverse import ReverseView
from zarrstack.base.transformer import StorageTransformer
from zarrstack.core.errors import ChunkError, StorageError, UnsupportedError, UsageError

OCEAN = archive("zarr-2.18/people/ocean").path
OLD = {
    "zarr2": (
        "applications/climate", "gdal/fortran", "netcdf/nczarr", "tensorstore/arrays", "z5py/slashes",
        "zarr-2.18/codecs", "zarr-2.18/dtypes", "zarr-2.18/fills", "zarr-2.18/people/ocean",
        "zarr-2.18/shapes", "zarr-2.18/stores/root_array", "zarr-2.4/old",
    ),
    "n5": (
        "n5/java-3.5.1/compressions", "n5/java-3.5.1/edges", "n5/java-3.5.1/root", "n5/java-3.5.1/types",
        "n5/tensorstore/all", "n5/z5py/all", "n5/zarr-2.18/store",
    ),
}  # fmt: skip


def shown(store: ReverseView, folder: Path) -> Path:
    """Everything that a view shows, as files."""

    async def copy() -> None:
        async for key in store.list():
            value = await store.get(key, default_buffer_prototype())
            assert value is not None, key
            (folder / key).parent.mkdir(parents=True, exist_ok=True)
            (folder / key).write_bytes(value.to_bytes())

    asyncio.run(copy())
    return folder


def read(store: ReverseView, key: str, part=None) -> bytes | None:
    value = asyncio.run(store.get(key, default_buffer_prototype(), part))
    return None if value is None else value.to_bytes()


class Counting(StorageTransformer):
    """Counts the bytes that are taken, by key."""

    name = "counting"

    def __init__(self, store=None) -> None:
        super().__init__(store)
        self.taken = Counter()

    async def get(self, key, prototype, byte_range=None):
        value = await super().get(key, prototype, byte_range)
        self.taken[key] += 0 if value is None else len(value)
        return value

    async def getsize(self, key):
        return await self.below.getsize(key)


def collected(names) -> list[str]:
    async def collect() -> list[str]:
        return [name async for name in names]

    return asyncio.run(collect())


def refusals(store: ReverseView) -> dict[str, str]:
    return {p.node: p.message for p in store.problems if p.severity == "refusal"}


def zarr_2_18(kind: str, *places: tuple[str, list[str]]) -> list[dict]:
    """What zarr 2.18.7 sees in each place; see `environments/zarr-2.18/read.py`."""
    return ask_zarr_2_18("read.py", kind, places)


def values_of(seen: dict) -> np.ndarray:
    shape = tuple(seen["shape"])
    if seen["dtype"] == "|O":
        flat = np.empty(len(seen["values"]), dtype=object)
        flat[:] = [bytes.fromhex(v["bytes"]) if isinstance(v, dict) else v for v in seen["values"]]
        return flat.reshape(shape)
    described = seen["dtype"]
    dtype = _struct(described) if isinstance(described, list) else np.dtype(described)
    return np.frombuffer(bytes.fromhex(seen["values"]), dtype.newbyteorder("<")).reshape(shape)


def _struct(fields: list) -> np.dtype:
    """A numpy `descr` that went through JSON."""
    return np.dtype([(f[0], _struct(f[1]) if isinstance(f[1], list) else f[1]) for f in fields])


def expected_values(store_path: Path, path: str) -> np.ndarray:
    """What zarr-python 3 reads of the hierarchy itself."""
    array = zarr.open_array(store_path / path, mode="r")
    values = np.empty(array.shape, object if array.dtype.kind == "T" else array.dtype)
    values[...] = array[...]
    return values


# ----- old archives, migrated, are read by old readers again


def cases() -> list:
    return [
        pytest.param(kind, name, axes, id=f"{name}-{axes}" if kind == "n5" else name)
        for kind, names in OLD.items()
        for name in names
        for axes in (("reversed", "kept") if kind == "n5" else ("reversed",))
    ]


@cache
def _lifted(root: Path, kind: str, name: str, axes: str) -> tuple[Path, ReverseView, Path]:
    place = root / f"{name.replace('/', '_')} {axes}"
    zarrlift.migrate(archive(name).path, place / "new", axes=axes, verify="none")
    store = zarrlift.present(place / "new", kind, axes=axes)
    return place / "new", store, shown(store, place / "old")


@pytest.fixture(scope="module")
def lifted(tmp_path_factory):
    """Old archive -> Zarr v3 -> shown as before: the result, its view, and the view as files; made once."""
    root = tmp_path_factory.mktemp("lifted")
    return lambda kind, name, axes: _lifted(root, kind, name, axes)


@pytest.mark.needs_reader("zarr-2.18")
@pytest.mark.parametrize("kind", ["zarr2", "n5"])
def test_zarr_2_18_reads_what_it_could_before_the_migration(kind: str, lifted) -> None:
    """What is shown as before: zarr 2.18 reads the values once written."""
    places, migrated = [], []
    for shown_as, name, axes in (case.values for case in cases()):
        if shown_as != kind:
            continue
        result, store, old = lifted(kind, name, axes)
        places.append([str(old), []])
        migrated.append((archive(name), result, store, axes))
    compared = 0
    for (one, result, store, axes), seen in zip(migrated, zarr_2_18(kind, *places), strict=True):
        left_out = refusals(store)
        there = {node.path for node in zarrlift.inspect(result).nodes if hasattr(node, "layout")}
        assert set(seen) == there - left_out.keys(), one.name
        for path, array in seen.items():
            values = values_of(array)
            # zarr 2 shows N5 with its axes reversed, whatever they were to others.
            turned = values.T if axes == "kept" else values
            assert same(turned, expected_values(result, path)), f"{one.name}:{path}"
            old = one.arrays.get(path)
            if old is None or old.unreadable or old.misread or old.mask is not None or old.lossy:
                continue
            if kind == "n5":
                assert same(values, np.asarray(old.in_axes("reversed"))), f"{one.name}:{path}"
            elif old.dtype.kind != "O" and array["dtype"] != "|O":
                assert same(values, np.asarray(old.values, old.little)), f"{one.name}:{path}"
            compared += 1
    assert compared > 150


@pytest.mark.slow(one_in=19)
@pytest.mark.needs_reader("tensorstore")
@pytest.mark.parametrize(("kind", "name", "axes"), cases())
def test_tensorstore_reads_it_too(kind: str, name: str, axes: str, lifted) -> None:
    result, _, place = lifted(kind, name, axes)
    document = ".zarray" if kind == "zarr2" else "attributes.json"
    compared = 0
    for file in sorted(place.rglob(document)):
        path = file.parent.relative_to(place).as_posix().removeprefix(".")
        data = json.loads(file.read_text())
        if kind == "n5" and "dimensions" not in data:
            continue
        if kind == "zarr2" and (data["filters"] or not _plain(data)):
            continue  # tensorstore 0.1.86 has none of these
        spec = {
            "driver": "zarr" if kind == "zarr2" else "n5",
            "kvstore": {"driver": "file", "path": str(file.parent)},
        }
        values = np.asarray(ts.open(spec, read=True).result().read().result())
        # tensorstore shows N5's own order of axes.
        turned = values.T if kind == "n5" and axes == "reversed" else values
        assert same(np.array(turned, order="C"), expected_values(result, path)), path
        compared += 1
    assert compared


def _plain(document: dict) -> bool:
    compressor = document["compressor"]
    ids = ("blosc", "bz2", "gzip", "zlib", "zstd")
    kinds = isinstance(document["dtype"], str) and document["dtype"][1] in "biufc"
    return kinds and 0 not in document["shape"] and (compressor is None or compressor["id"] in ids)


@pytest.mark.parametrize("path", ["sst", "lat", "station_name", "depth"])
def test_zarr_python_3_reads_it_as_v2(path: str, tmp_path: Path) -> None:
    zarrlift.migrate(OCEAN, tmp_path / "result", verify="none")
    store = zarrlift.present(tmp_path / "result", "zarr2")
    old = zarr.open_array(OCEAN / path, mode="r", zarr_format=2)
    new = zarr.open_array(store, path=path, mode="r", zarr_format=2)
    values = [np.asarray(array[...]) for array in (new, old)]
    assert same(*(v.astype(object) if v.dtype.kind == "T" else v for v in values))
    # What xarray keeps of a mask in v3 lies in the fill value in v2, where it is too.
    added = {"_FillValue"} - set(old.attrs)
    assert {name: value for name, value in new.attrs.items() if name not in added} == dict(old.attrs)


def test_xarray_reads_it_as_before(tmp_path: Path) -> None:
    """Dimension names are where xarray looks for them in v2, and so is consolidated metadata."""
    import xarray

    zarrlift.migrate(OCEAN, tmp_path / "result", verify="none")
    shown(zarrlift.present(tmp_path / "result", "zarr2"), tmp_path / "old")
    with xarray.open_zarr(tmp_path / "old", zarr_format=2, consolidated=True) as again:
        xarray.testing.assert_equal(again.load(), xarray.open_zarr(OCEAN).load())


def test_an_old_archive_is_shown_in_another_old_format() -> None:
    """Through the view of it as Zarr v3: N5 as Zarr v2, each value where it was."""
    one = archive("n5/z5py/all")
    store = zarrlift.present(one.path, "zarr2")
    array = next(array for array in one.arrays.values() if array.shape and array.dtype.kind in "uif")
    seen = zarr.open_array(store, path=array.path, mode="r", zarr_format=2)[...]
    assert same(seen, array.in_axes("reversed"))


# ----- what a chunk becomes

DATA = np.arange(7 * 9, dtype="<u2").reshape(7, 9)


def made(folder: Path, data: np.ndarray = DATA, **options) -> Path:
    given = {"name": "a", "shape": data.shape, "chunks": (2, 3), "dtype": data.dtype, **options}
    zarr.create_group(folder).create_array(**given)[...] = data
    return folder


SHARDED = {"shards": (4, 6), "compressors": [ZstdCodec(level=1)]}


@pytest.mark.parametrize("kind", ["zarr2", "n5"])
@pytest.mark.parametrize(
    "options",
    [
        {"compressors": None},
        {"compressors": [GzipCodec(level=1)]},
        {"compressors": [ZstdCodec(level=1), Crc32cCodec()]},
        {"filters": [TransposeCodec(order=(1, 0))], "serializer": BytesCodec(endian="big")},
        SHARDED,
        {"shards": (4, 6), "compressors": [ZstdCodec(level=1), Crc32cCodec()]},
        {"chunk_key_encoding": {"name": "v2", "configuration": {"separator": "."}}},
    ],
    ids=["none", "gzip", "crc32c", "f-big", "sharded", "sharded-crc32c", "v2-keys"],
)
def test_every_way_to_store_a_chunk(kind: str, options: dict, tmp_path: Path) -> None:
    source = made(tmp_path / "new", **options)
    old = shown(zarrlift.present(source, kind), tmp_path / "old")
    driver = {"zarr2": "zarr", "n5": "n5"}[kind]
    spec = {"driver": driver, "kvstore": {"driver": "file", "path": str(old / "a")}}
    values = np.asarray(ts.open(spec, read=True).result().read().result())
    assert np.array_equal(values.T if kind == "n5" else values, DATA)


def test_payloads_that_fit_are_shown_as_they_lie(tmp_path: Path) -> None:
    source = made(tmp_path / "new", compressors=[ZstdCodec(level=1)], serializer=BytesCodec(endian="big"))
    stored = (source / "a/c/1/2").read_bytes()
    assert read(zarrlift.present(source, "zarr2"), "a/1.2") == stored
    assert read(zarrlift.present(source, "zarr2", separator="/"), "a/1/2") == stored
    block = read(zarrlift.present(source, "n5"), "a/2/1")
    header = bytes.fromhex("0000 0002 00000003 00000002")
    assert block == header + stored


def test_edge_blocks_are_whole(tmp_path: Path) -> None:
    """v3 chunks are; a header is put before them, and nothing is decoded."""
    source = made(tmp_path / "new", compressors=None, serializer=BytesCodec(endian="big"))
    store = zarrlift.present(source, "n5")
    edge = read(store, "a/2/3")
    assert len(edge) == 12 + 2 * 3 * 2
    assert asyncio.run(store.getsize("a/2/3")) == len(edge)


def test_of_a_shard_only_the_index_and_the_chunk_are_read(tmp_path: Path) -> None:
    source = made(tmp_path / "new", **SHARDED)
    below = Counting(LocalStore(source))
    chunk = read(ReverseView(below, format="zarr2"), "a/0.0")
    index = 16 * 4 + 4
    assert below.taken["a/c/0/0"] == len(chunk) + index < (source / "a/c/0/0").stat().st_size


@pytest.mark.slow(one_in=20)
@pytest.mark.parametrize("kind", ["zarr2", "n5"])
@pytest.mark.parametrize(
    "part", [RangeByteRequest(3, 20), OffsetByteRequest(7), SuffixByteRequest(5), RangeByteRequest(0, 10**6)]
)
def test_byte_ranges_and_sizes_are_those_of_the_whole(kind: str, part, tmp_path: Path) -> None:
    for number, options in enumerate(({"compressors": None}, SHARDED)):
        store = zarrlift.present(made(tmp_path / str(number), **options), kind)
        for key in collected(store.list()):
            whole = read(store, key)
            match part:
                case RangeByteRequest(start, end):
                    cut = whole[start:end]
                case OffsetByteRequest(offset):
                    cut = whole[offset:]
                case SuffixByteRequest(suffix):
                    cut = whole[-suffix:]
            assert read(store, key, part) == cut
            assert store.get_sync(key, byte_range=part).to_bytes() == cut
            assert asyncio.run(store.getsize(key)) == len(whole)
            assert asyncio.run(store.exists(key))


def test_what_is_missing_is_missing(tmp_path: Path) -> None:
    source = made(tmp_path / "new", data=DATA, **SHARDED)
    zarr.open_array(source / "a")[0:2, 0:3] = 0  # a chunk of the fill value goes out of its shard
    zarr.open_array(source / "a")[4:7, 6:9] = 0
    store = zarrlift.present(source, "zarr2")
    for key in ("a/0.0", "a/2.2", "a/3.2"):
        assert read(store, key) is None
        assert store.get_sync(key) is None
        assert not asyncio.run(store.exists(key))
        with pytest.raises(FileNotFoundError):
            asyncio.run(store.getsize(key))
    assert sorted(key for key in collected(store.list_prefix("a/")) if "." not in key[2]) == [
        f"a/{i}.{j}" for i in range(4) for j in range(3) if (i, j) not in {(0, 0), (2, 2), (3, 2)}
    ]
    for key in ("a/9.0", "a/0", "a/0.0.0", "a/c/0/0", "b/0.0", "a/.zattrs", "a/zarr.json", "nothing"):
        assert read(store, key) is None


def test_a_scalar_and_an_array_at_the_root(tmp_path: Path) -> None:
    zarr.create_array(tmp_path / "new", shape=(), dtype="float32")[...] = 1.5
    for kind, key in (("zarr2", "0"), ("n5", "0")):
        store = zarrlift.present(tmp_path / "new", kind)
        assert key in collected(store.list())
        assert np.isin(np.frombuffer(read(store, key)[-4:], "<f4"), [1.5]).all() or kind == "n5"
    assert json.loads(read(zarrlift.present(tmp_path / "new", "n5"), "attributes.json"))["n5"] == "2.0.0"


# ----- what cannot be said


def mixed(folder: Path) -> Path:
    """A hierarchy with something for each format to refuse."""
    group = zarr.create_group(folder)
    make = group.create_array
    make("fine", shape=(4,), chunks=(2,), dtype="u2")[...] = 1
    make("bool", shape=(4,), chunks=(2,), dtype="bool")[...] = True
    make("seven", shape=(4,), chunks=(2,), dtype="u2", fill_value=7)[:2] = 1
    make("seven_whole", shape=(4,), chunks=(2,), dtype="u2", fill_value=7)[...] = 1
    make("seven_shards", shape=(7,), chunks=(2,), shards=(4,), dtype="u2", fill_value=7)[...] = 1
    make("seven_holes", shape=(7,), chunks=(2,), shards=(4,), dtype="u2", fill_value=7)[2:] = 1
    make("nan", shape=(4,), chunks=(2,), dtype="f4", fill_value=np.nan)[:2] = 1
    make("nan_whole", shape=(4,), chunks=(2,), dtype="f4", fill_value=np.nan)[...] = 1
    for name in ("nan", "nan_whole"):  # zarr-python itself forgets which NaN it is
        document = folder / name / "zarr.json"
        document.write_text(document.read_text().replace('"fill_value": "NaN"', '"fill_value": "0x7fc00001"'))
    make("named", shape=(4,), chunks=(2,), dtype="u2", attributes={"dimensions": "x"})[...] = 1
    return folder


def test_every_array_that_v2_cannot_hold_is_named(tmp_path: Path) -> None:
    store = zarrlift.present(mixed(tmp_path / "new"), "zarr2")
    assert refusals(store).keys() == {"nan"}
    assert json.loads(read(store, "nan_whole/.zarray"))["fill_value"] is None
    assert "nan" not in collected(store.list_dir(""))
    with pytest.raises(UnsupportedError, match="fill value") as caught:
        read(store, "nan/.zarray")
    assert (caught.value.problem.node, caught.value.problem.key) == ("nan", "nan/zarr.json")
    assert "nan/.zarray" not in json.loads(read(store, ".zmetadata"))["metadata"]


def test_every_array_that_n5_cannot_hold_is_named(tmp_path: Path) -> None:
    store = zarrlift.present(mixed(tmp_path / "new"), "n5")
    messages = refusals(store)
    assert messages.keys() == {"bool", "seven", "seven_holes", "nan", "named"}
    assert "data type" in messages["bool"]
    assert "fill value" in messages["seven_holes"]
    assert "attributes" in messages["named"]
    assert {"fine", "seven_whole", "seven_shards", "nan_whole"} <= set(collected(store.list_dir("")))


def test_a_damaged_chunk_is_an_error_with_its_place(tmp_path: Path) -> None:
    for number, (options, key) in enumerate((({"compressors": [GzipCodec()]}, "a/0.1"), (SHARDED, "a/0.1"))):
        source = made(tmp_path / str(number), **options)
        file = source / ("a/c/0/0" if options is SHARDED else "a/c/0/1")
        data = bytearray(file.read_bytes())
        if options is SHARDED:
            data[:] = b"\xff" * (len(data) - 64 - 4) + data[-68:]
        else:
            data[0] ^= 0xFF
        file.write_bytes(data)
        with pytest.raises(ChunkError) as caught:
            read(zarrlift.present(source, "zarr2"), key)
        assert caught.value.problem.node == "a"
        assert caught.value.problem.key == file.relative_to(source).as_posix()


@pytest.mark.parametrize("part", [None, RangeByteRequest(0, 4)], ids=str)
@pytest.mark.parametrize(
    ("target", "reason"),
    [("gone", "a link leads nowhere"), ("elsewhere", "a link points outside the archive")],
)
@pytest.mark.parametrize("options", [{"compressors": None}, SHARDED], ids=["chunks", "shards"])
def test_a_link_is_no_missing_chunk_and_no_way_out(
    options: dict, target: str, reason: str, part, tmp_path: Path
) -> None:
    source = made(tmp_path / "new", **options)
    (source / "a/c/0/0").rename(tmp_path / "elsewhere")
    (source / "a/c/0/0").symlink_to(tmp_path / target)
    store = zarrlift.present(source, "zarr2")
    for call in (lambda: read(store, "a/0.0", part), lambda: store.get_sync("a/0.0", byte_range=part)):
        with pytest.raises(StorageError, match=reason) as caught:
            call()
        assert caught.value.problem.key == "a/c/0/0"
    if target == "elsewhere":
        meant = zarrlift.present(source, "zarr2", follow_links=True)
        assert read(meant, "a/0.0") == read(
            zarrlift.present(made(tmp_path / "plain", **options), "zarr2"), "a/0.0"
        )


def test_a_broken_document_leaves_its_node_out_alone(tmp_path: Path) -> None:
    source = mixed(tmp_path / "new")
    document = (source / "fine/zarr.json").read_text()
    (source / "fine/zarr.json").write_text(document.replace('"bytes"', '"mystery"'))
    store = zarrlift.present(source, "zarr2")
    assert refusals(store).keys() == {"fine", "nan"}
    assert read(store, "bool/.zarray") is not None
    with pytest.raises(UnsupportedError):
        read(store, "fine/.zarray")


@pytest.mark.parametrize("in_v2", [True, False])
def test_documents_are_read_up_to_a_limit(in_v2: bool, tmp_path: Path) -> None:
    source = tmp_path / "source"
    group = zarr.create_group(source, zarr_format=2 if in_v2 else 3)
    group.create_group("large", attributes={"text": "a" * 2000})
    group.create_group("fine", attributes={"text": "a" * (960 if in_v2 else 800)})
    limited = zarrlift.present(source, "n5", max_document_size=1000)
    assert refusals(limited).keys() == {"large"}, "what a view makes of a document may be larger"
    assert refusals(zarrlift.present(source, "n5", max_document_size=4000)) == {}
    if not in_v2:
        assert refusals(ReverseView(LocalStore(source), max_document_size=1000)).keys() == {"large"}


# ----- the store


def test_nothing_can_be_written(tmp_path: Path) -> None:
    store = zarrlift.present(made(tmp_path / "new"), "zarr2")
    assert store.read_only
    assert not store.supports_writes
    with pytest.raises(UsageError, match="cannot be written"):
        store.with_read_only(False)
    with pytest.raises(ValueError, match="read-only"):
        zarr.open_array(store, path="a", mode="r", zarr_format=2)[...] = 0
    with pytest.raises(UsageError, match=r"does not support writing.* write to the hierarchy") as caught:
        asyncio.run(store.delete("a/.zarray"))
    assert (caught.value.problem.key, caught.value.problem.found) == ("a/.zarray", "delete")


def test_a_copy_shows_the_same(tmp_path: Path) -> None:
    store = zarrlift.present(made(tmp_path / "new"), "n5", axes="kept")
    again = pickle.loads(pickle.dumps(store))
    assert again == store
    assert {key: read(again, key) for key in collected(again.list())} == {
        key: read(store, key) for key in collected(store.list())
    }


@pytest.mark.parametrize(
    "options", [{"format": "zarr4"}, {"separator": "-"}, {"axes": "sideways"}], ids=lambda o: next(iter(o))
)
def test_options_that_make_no_sense(options: dict) -> None:
    with pytest.raises(UsageError, match="unknown"):
        ReverseView(**options)


def test_there_must_be_an_archive(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no archive"):
        zarrlift.present(tmp_path, "zarr2")


def test_axes_kept_are_the_same_axes(tmp_path: Path) -> None:
    source = made(tmp_path / "new")
    members = json.loads(read(zarrlift.present(source, "n5"), "a/attributes.json"))
    assert (members["dimensions"], members["blockSize"]) == ([9, 7], [3, 2])
    store = zarrlift.present(source, "n5", axes="kept")
    members = json.loads(read(store, "a/attributes.json"))
    assert (members["dimensions"], members["blockSize"]) == ([7, 9], [2, 3])
    old = shown(store, tmp_path / "old")
    spec = {"driver": "n5", "kvstore": {"driver": "file", "path": str(old / "a")}}
    assert np.array_equal(ts.open(spec, read=True).result().read().result(), DATA)


# ----- any array


@st.composite
def arrays(draw: st.DrawFn) -> tuple[np.ndarray, dict]:
    """Values, and how zarr-python stores them: any order, byte order, compression, shards or none."""
    ndim = draw(st.integers(1, 3))
    shape = tuple(draw(st.integers(1, 9)) for _ in range(ndim))
    chunks = tuple(draw(st.integers(1, 4)) for _ in range(ndim))
    dtype = np.dtype(draw(st.sampled_from(["u1", "i2", "u4", "i8", "f4", "f8"])))
    data = np.random.default_rng(draw(st.integers(0, 99))).bytes(int(np.prod(shape)) * dtype.itemsize)
    options = {
        "shape": shape,
        "chunks": chunks,
        "dtype": dtype,
        "serializer": BytesCodec(endian=draw(st.sampled_from(["little", "big"]))),
        "filters": [TransposeCodec(order=draw(st.permutations(range(ndim))))]
        if draw(st.booleans())
        else None,
        "compressors": draw(
            st.sampled_from([None, [GzipCodec(level=1)], [ZstdCodec(level=1), Crc32cCodec()], [BloscCodec()]])
        ),
        "fill_value": 0,
    }
    if draw(st.booleans()):
        options["shards"] = tuple(n * draw(st.integers(1, 3)) for n in chunks)
    return np.frombuffer(data, dtype).reshape(shape), options


@pytest.mark.needs_reader("tensorstore")
@given(arrays(), st.sampled_from(["zarr2", "n5"]), st.sampled_from(["reversed", "kept"]))
def test_whatever_v3_holds_an_older_reader_sees_bit_for_bit(made_of, kind: str, axes: str) -> None:
    values, options = made_of
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        zarr.create_group(place / "new").create_array(name="a", **options)[...] = values
        store = zarrlift.present(place / "new", kind, axes=axes)
        assert refusals(store) == {}
        old = shown(store, place / "old")
        driver = {"zarr2": "zarr", "n5": "n5"}[kind]
        spec = {"driver": driver, "kvstore": {"driver": "file", "path": str(old / "a")}}
        seen = np.asarray(ts.open(spec, read=True).result().read().result())
    assert same(seen.T if (kind, axes) == ("n5", "reversed") else seen, values)

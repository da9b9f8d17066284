"""The operations of the draft's section "Storage", by examples of our own, through zarr-python 3."""

from __future__ import annotations

import asyncio
import json

import numpy as np
import pytest
import zarr
from zarr.codecs import BytesCodec, GzipCodec, ShardingCodec
from zarr.core.buffer import cpu, default_buffer_prototype
from zarr.storage import LocalStore, MemoryStore, WrapperStore

from zarrstack import Log, Rekey, stack
from zarrstack.core.errors import MetadataError, UnsupportedError, UsageError
from zarrstack.layers.draft.layer import Draft

PROTOTYPE = default_buffer_prototype()
DIALECTS = {"text": ("meta/", "data/"), "zarr-python": ("meta/root/", "data/root/")}
"""Where each keeps documents and chunks."""


@pytest.fixture(params=["memory", "files"])
def bottom(request, tmp_path):
    """An empty store, which each layer of a test is put over."""
    return MemoryStore() if request.param == "memory" else LocalStore(tmp_path)


def keys(store, prefix: str = "") -> list[str]:
    async def listed() -> list[str]:
        return sorted([key async for key in store.list_prefix(prefix)])

    return asyncio.run(listed())


def names(store, path: str) -> list[str]:
    async def listed() -> list[str]:
        return sorted([name async for name in store.list_dir(path)])

    return asyncio.run(listed())


def get(store, key: str):
    value = asyncio.run(store.get(key, PROTOTYPE))
    return None if value is None else json.loads(value.to_bytes())


def put(store, key: str, value) -> None:
    content = value if isinstance(value, bytes) else json.dumps(value).encode()
    asyncio.run(store.set(key, cpu.Buffer.from_bytes(content)))


def make(store, path: str, **options):
    options = {
        "shape": (4, 4),
        "chunks": (2, 2),
        "dtype": "i4",
        "fill_value": 0,
        "compressors": None,
    } | options
    return zarr.create_array(store, name=path, **options)


def hierarchy(bottom) -> Draft:
    """An explicit group and an explicit array at different depths; the groups above them are implied."""
    entry = {
        "zarr_format": "https://purl.org/zarr/spec/core/3.0",
        "metadata_encoding": {"type": "json", "metadata_key_suffix": ".json"},
        "extensions": [],
    }
    array = {
        "shape": [2, 2],
        "data_type": "int32",
        "chunk_grid": {"type": "regular", "chunk_shape": [1, 2], "separator": "/"},
        "chunk_memory_layout": "C",
        "fill_value": 7,
        "extensions": [],
        "attributes": {},
    }
    put(bottom, "zarr.json", entry)
    put(bottom, "meta/ocean/casts.group.json", {"attributes": {"vessel": "Thetis", "legs": 3}})
    put(bottom, "meta/ocean/tides/m2.array.json", array)
    put(bottom, "data/ocean/tides/m2/c1/0", np.array([1, 2], "<i4").tobytes())
    return Draft(bottom)


# -- create -----------------------------------------------------------------------------------------


def test_the_entry_point_is_made_with_the_first_node(bottom) -> None:
    store = Draft(bottom)
    assert keys(bottom) == []
    zarr.create_group(store, attributes={"a": 1})
    assert get(bottom, "zarr.json") == {
        "zarr_format": "https://purl.org/zarr/spec/core/3.0",
        "metadata_encoding": {"type": "json", "metadata_key_suffix": ".json"},
        "extensions": [],
    }
    assert get(bottom, "meta/group.json") == {"attributes": {"a": 1}}


def test_zarr_python_has_an_entry_point_of_its_own(bottom) -> None:
    zarr.create_group(Draft(bottom, dialect="zarr-python"))
    protocol = "https://purl.org/zarr/spec/protocol/core/3.0"
    assert get(bottom, "zarr.json") == {
        "extensions": [],
        "metadata_encoding": protocol,
        "metadata_key_suffix": ".json",
        "zarr_format": protocol,
    }
    assert keys(bottom) == ["meta/root.group.json", "zarr.json"]


def test_an_archive_that_is_there_keeps_its_dialect(bottom) -> None:
    zarr.create_group(Draft(bottom, dialect="zarr-python"))
    make(Draft(bottom, dialect="text"), "a")
    assert keys(bottom) == ["meta/root.group.json", "meta/root/a.array.json", "zarr.json"]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_explicit_group_needs_no_document_of_its_ancestors(bottom, dialect) -> None:
    """Every path above a group that is made is a group as well."""
    store = Draft(bottom, dialect=dialect)
    put(
        store,
        "ocean/casts/zarr.json",
        {"zarr_format": 3, "node_type": "group", "attributes": {"vessel": "Thetis"}},
    )
    meta, _ = DIALECTS[dialect]
    assert get(bottom, f"{meta}ocean/casts.group.json") == {"attributes": {"vessel": "Thetis"}}
    assert keys(bottom) == [f"{meta}ocean/casts.group.json", "zarr.json"]
    for path in ("", "ocean"):
        assert dict(zarr.open_group(store, path=path, mode="r").attrs) == {}
    assert dict(zarr.open_group(store, path="ocean/casts", mode="r").attrs) == {"vessel": "Thetis"}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_array_is_created_and_its_chunks_stored_and_retrieved(bottom, dialect) -> None:
    """Documents lie below meta/, chunks below data/, under the path of the array."""
    store = Draft(bottom, dialect=dialect)
    array = make(store, "ocean/tides", attributes={"unit": "m"})
    array[...] = np.arange(16).reshape(4, 4)
    meta, data = DIALECTS[dialect]
    assert [key for key in keys(bottom) if key.startswith(f"{data}ocean/")] == [
        f"{data}ocean/tides/c{i}/{j}" for i in (0, 1) for j in (0, 1)
    ]
    document = get(bottom, f"{meta}ocean/tides.array.json")
    assert document["chunk_grid"] == {"type": "regular", "chunk_shape": [2, 2], "separator": "/"}
    assert document["data_type"] == ("int32" if dialect == "text" else "<i4")
    found = zarr.open_array(Draft(bottom), path="ocean/tides", mode="r")
    assert (found[...] == np.arange(16).reshape(4, 4)).all()
    assert dict(found.attrs) == {"unit": "m"}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_root_may_be_an_array(bottom, dialect) -> None:
    store = Draft(bottom, dialect=dialect)
    zarr.create_array(store, shape=(4,), chunks=(2,), dtype="u1", compressors=None)[...] = 7
    data = DIALECTS[dialect][1]
    document = "meta/array.json" if dialect == "text" else "meta/root.array.json"
    assert keys(bottom) == [f"{data}c0", f"{data}c1", document, "zarr.json"]
    assert keys(store) == ["c/0", "c/1", "zarr.json"]
    assert zarr.open_array(Draft(bottom), mode="r")[...].tolist() == [7] * 4


KEYS = {
    "text": {"slash": "c2/19/44", "dot": "c2.19.44", "one": "c5", "one dot": "c5", "none": "c"},
    "zarr-python": {"slash": "c2/19/44", "dot": "c2.19.44", "one": "c5", "one dot": "c5", "none": "c0"},
}
SHAPES = {"slash": 3, "dot": 3, "one": 1, "one dot": 1, "none": 0}


@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_chunks_have_the_texts_identifiers(bottom, dialect, kind) -> None:
    """A chunk is named by a c and its indices in the grid, with the separator between them."""
    ndim = SHAPES[kind]
    separator = "." if "dot" in kind else "/"
    place = (2, 19, 44) if ndim == 3 else (5,) * ndim
    store = Draft(bottom, dialect=dialect)
    array = make(
        store,
        "a",
        shape=(50,) * ndim,
        chunks=(1,) * ndim,
        chunk_key_encoding={"name": "default", "configuration": {"separator": separator}},
    )
    array[place] = 9
    data = DIALECTS[dialect][1]
    assert keys(bottom, data) == [f"{data}a/{KEYS[dialect][kind]}"]
    fresh = Draft(bottom)
    above = "a/" + separator.join(["c", *map(str, place)])
    assert keys(fresh) == sorted([above, "a/zarr.json", "zarr.json"])
    assert names(Draft(bottom), "a") == sorted([above[2:].split("/")[0], "zarr.json"])
    assert zarr.open_array(fresh, path="a", mode="r")[place] == 9
    assert asyncio.run(Draft(bottom).getsize(above)) == 4
    asyncio.run(Draft(bottom).delete(above))
    assert keys(bottom, data) == []


# -- discover ---------------------------------------------------------------------------------------


def test_the_children_of_a_group_are_discovered(bottom) -> None:
    """An implicit group shows in the keys of what lies below it."""
    store = hierarchy(bottom)
    assert names(store, "ocean") == ["casts", "tides", "zarr.json"]
    assert names(store, "") == ["ocean", "zarr.json"]
    children = dict(zarr.open_group(store, path="ocean", mode="r").members())
    assert {name: type(node) for name, node in children.items()} == {"casts": zarr.Group, "tides": zarr.Group}
    assert dict(children["casts"].attrs) == {"vessel": "Thetis", "legs": 3}


def test_all_nodes_of_a_hierarchy_are_discovered(bottom) -> None:
    store = hierarchy(bottom)
    found = dict(zarr.open_group(store, mode="r").members(max_depth=None))
    assert sorted(found) == ["ocean", "ocean/casts", "ocean/tides", "ocean/tides/m2"]
    assert found["ocean/tides/m2"][...].tolist() == [[7, 7], [1, 2]]
    documents = [
        f"{path}zarr.json" for path in ("", "ocean/", "ocean/casts/", "ocean/tides/", "ocean/tides/m2/")
    ]
    assert keys(store) == sorted([*documents, "ocean/tides/m2/c/1/0"])


def test_whether_a_node_exists(bottom) -> None:
    store = hierarchy(bottom)
    kinds = {
        path: get(store, f"{path}/zarr.json")
        for path in ("ocean/tides/m2", "ocean/casts", "ocean/tides", "ocean/no")
    }
    assert kinds["ocean/tides/m2"]["node_type"] == "array"
    assert kinds["ocean/casts"]["attributes"] == {"vessel": "Thetis", "legs": 3}
    assert kinds["ocean/tides"] == {"zarr_format": 3, "node_type": "group", "attributes": {}}
    assert kinds["ocean/no"] is None
    for path, document in kinds.items():
        assert asyncio.run(store.exists(f"{path}/zarr.json")) == (document is not None)


def test_a_store_that_lists_nothing_has_explicit_nodes_only(bottom) -> None:
    class Blind(WrapperStore):
        supports_listing = False

        def list_prefix(self, prefix):
            raise AssertionError

    hierarchy(bottom)
    store = Draft(Blind(bottom))
    assert get(store, "ocean/casts/zarr.json") is not None
    assert get(store, "ocean/tides/zarr.json") is None


def test_an_empty_hierarchy_has_no_root(bottom) -> None:
    put(bottom, "zarr.json", get(hierarchy(MemoryStore()).below, "zarr.json"))
    assert get(Draft(bottom), "zarr.json") is None
    assert keys(Draft(bottom)) == []


# -- erase ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_array_is_erased_with_its_chunks(bottom, dialect) -> None:
    store = Draft(bottom, dialect=dialect)
    root = zarr.create_group(store)
    for path in ("ocean", "oceanic"):
        make(store, path)[...] = 1
    before = keys(bottom)
    del root["ocean"]
    meta, data = DIALECTS[dialect]
    gone = (f"{meta}ocean.array.json", f"{data}ocean/")
    assert keys(bottom) == [key for key in before if not key.startswith(gone)]


def test_an_implicit_group_is_erased_with_all_nodes_below_it(bottom) -> None:
    store = hierarchy(bottom)
    asyncio.run(store.delete_dir("ocean/tides"))
    assert keys(bottom) == ["meta/ocean/casts.group.json", "zarr.json"]
    assert get(store, "ocean/tides/zarr.json") is None
    assert names(store, "ocean") == ["casts", "zarr.json"]


def test_an_explicit_group_is_erased_with_all_nodes_below_it(bottom) -> None:
    store = hierarchy(bottom)
    put(store, "ocean/zarr.json", {"zarr_format": 3, "node_type": "group", "attributes": {}})
    put(store, "zarr.json", {"zarr_format": 3, "node_type": "group", "attributes": {}})
    root = zarr.open_group(store)
    del root["ocean"]
    assert keys(bottom) == ["meta/group.json", "zarr.json"]
    assert list(root.members()) == []


def test_a_group_without_its_document_is_an_implicit_one(bottom) -> None:
    store = hierarchy(bottom)
    put(store, "ocean/zarr.json", {"zarr_format": 3, "node_type": "group", "attributes": {"a": 1}})
    asyncio.run(store.delete("ocean/zarr.json"))
    assert get(store, "ocean/zarr.json") == {"zarr_format": 3, "node_type": "group", "attributes": {}}


def test_an_implicit_group_is_written_down_when_that_changes_nothing(bottom) -> None:
    """zarr writes an array and the documents of its groups at once; whichever comes first, all are there."""
    store = hierarchy(bottom)
    group = {"zarr_format": 3, "node_type": "group", "attributes": {}}
    for document, attributes in {"ocean": {}, "ocean/tides": {"a": 1}, "ocean/casts": {}}.items():
        value = cpu.Buffer.from_bytes(json.dumps(group | {"attributes": attributes}).encode())
        before = get(store, f"{document}/zarr.json")
        asyncio.run(store.set_if_not_exists(f"{document}/zarr.json", value))
        assert get(store, f"{document}/zarr.json") == before
    assert get(bottom, "meta/ocean.group.json") == {"attributes": {}}
    assert get(bottom, "meta/ocean/tides.group.json") is None
    assert get(bottom, "meta/ocean/casts.group.json") == {"attributes": {"vessel": "Thetis", "legs": 3}}


def test_erasing_the_last_node_takes_its_implicit_groups_along(bottom) -> None:
    """The text allows that parents go which are implicit and hold nothing any more."""
    store = hierarchy(bottom)
    asyncio.run(store.delete_dir("ocean/casts"))
    asyncio.run(store.delete_dir("ocean/tides/m2"))
    assert keys(store) == []
    assert get(store, "ocean/zarr.json") is None


@pytest.mark.parametrize("dialect", DIALECTS)
def test_everything_is_erased_and_made_anew(bottom, dialect) -> None:
    hierarchy(bottom)
    store = Draft(bottom, dialect=dialect)
    assert names(store, "") == ["ocean", "zarr.json"]
    zarr.open_group(store, mode="w")
    document = "meta/group.json" if dialect == "text" else "meta/root.group.json"
    assert keys(bottom) == [document, "zarr.json"]


def test_an_array_replaces_a_group_and_a_group_an_array(bottom) -> None:
    store = Draft(bottom)
    zarr.create_group(store, path="a/b")
    make(store, "a", overwrite=True)[...] = 1
    assert [key for key in keys(bottom) if key.startswith("meta/a")] == ["meta/a.array.json"]
    put(store, "a/zarr.json", {"zarr_format": 3, "node_type": "group", "attributes": {}})
    assert "meta/a.array.json" not in keys(bottom)
    assert get(store, "a/zarr.json")["node_type"] == "group"


# -- what the draft cannot say ----------------------------------------------------------------------

CRC = ShardingCodec(chunk_shape=(2, 2))
REFUSED = {
    "a shard index with a checksum": ({"serializer": CRC, "chunks": (4, 4)}, "one kind of shard index"),
    "a transpose that is no reversal": (
        {"shape": (2, 2, 2), "chunks": (2, 2, 2), "filters": [zarr.codecs.TransposeCodec(order=(1, 0, 2))]},
        "only the orders C and F",
    ),
    "keys of Zarr v2": ({"chunk_key_encoding": {"name": "v2"}}, "default chunk keys"),
    "text of variable length": ({"dtype": "string", "fill_value": ""}, "no name for this"),
    "dimension names beside their attribute": (
        {"dimension_names": ("y", "x"), "attributes": {"_ARRAY_DIMENSIONS": ["a", "b"]}},
        "which is taken",
    ),
    "a name with a blank": ({"path": "a b"}, "a node's name"),
    "a name of periods": ({"path": "a/..."}, "periods only"),
}
REFUSED_BY_ZARR_PYTHON = {
    "two compressors": ({"compressors": [GzipCodec(), GzipCodec()]}, "one compressor"),
    "filters among the attributes": ({"attributes": {"filters": [{"id": "delta"}]}}, "another name"),
}


@pytest.mark.parametrize(
    ("dialect", "options", "words"),
    [
        *((dialect, *case) for dialect in DIALECTS for case in REFUSED.values()),
        *(("zarr-python", *case) for case in REFUSED_BY_ZARR_PYTHON.values()),
    ],
    ids=[*(f"{d}: {name}" for d in DIALECTS for name in REFUSED), *REFUSED_BY_ZARR_PYTHON],
)
@pytest.mark.filterwarnings("ignore")
def test_what_the_draft_cannot_say_is_refused_at_creation(dialect, options, words) -> None:
    below: dict = {}
    options = dict(options)
    path = options.pop("path", "a")
    with pytest.raises((UnsupportedError, UsageError), match=words) as caught:
        make(Draft(MemoryStore(below), dialect=dialect), path, **options)
    assert (caught.value.problem.node, caught.value.problem.key) == (path, f"{path}/zarr.json")
    assert not any(key.endswith(".array.json") for key in below)


def test_what_zarr_python_cannot_say_the_text_can() -> None:
    for options, _ in list(REFUSED_BY_ZARR_PYTHON.values()):
        path = {**options}.pop("path", "a")
        rest = {name: value for name, value in options.items() if name != "path"}
        store = Draft(MemoryStore())
        make(store, path, **rest)[...] = 5
        assert (zarr.open_array(store, path=path, mode="r")[...] == 5).all()


def test_a_group_called_consolidated_is_a_ghost_only_where_zarr_python_2_consolidated(bottom) -> None:
    store = Draft(bottom, dialect="zarr-python")
    zarr.create_group(store)
    zarr.create_group(store, path="consolidated")
    assert names(store, "") == ["consolidated", "zarr.json"]
    put(bottom, "meta/root/consolidated/.zmetadata", {})
    assert names(store, "") == keys(store) == ["zarr.json"]
    assert get(store, "consolidated/zarr.json") is None
    assert not asyncio.run(store.exists("consolidated/zarr.json"))
    make(store, "consolidated/a")
    assert names(store, "") == ["consolidated", "zarr.json"]
    assert names(store, "consolidated") == ["a", "zarr.json"]


def test_consolidated_metadata_are_refused_since_groups_have_attributes_only(bottom) -> None:
    store = hierarchy(bottom)
    with pytest.raises(TypeError, match="consolidated metadata"):
        zarr.consolidate_metadata(store)


def test_a_document_that_is_none_is_told_as_over_any_other_store(bottom) -> None:
    store = hierarchy(bottom)
    put(store, "ocean/casts/zarr.json", b"no JSON")
    assert keys(store, "ocean/casts") == ["ocean/casts/zarr.json"]
    with pytest.raises(json.JSONDecodeError):
        zarr.open_group(store, path="ocean/casts", mode="r")
    put(store, "ocean/casts/zarr.json", {"zarr_format": 3, "node_type": "group", "attributes": {}})
    assert get(store, "ocean/casts/zarr.json")["node_type"] == "group"


# -- what is no archive of the draft ----------------------------------------------------------------


def test_an_archive_of_ratified_v3_is_not_touched() -> None:
    below: dict = {}
    zarr.create_group(MemoryStore(below))
    before = dict(below)
    store = Draft(MemoryStore(below))
    for attempt in (lambda: zarr.open_group(store, mode="r"), lambda: zarr.open_group(store, mode="w")):
        with pytest.raises(UnsupportedError, match="as ratified") as caught:
            attempt()
        assert caught.value.problem.key == "zarr.json"
    assert below == before


def test_an_archive_without_its_entry_point_is_told_so(bottom) -> None:
    hierarchy(bottom)
    asyncio.run(bottom.delete("zarr.json"))
    with pytest.raises(MetadataError, match="no entry point") as caught:
        zarr.open_group(Draft(bottom), mode="r")
    assert caught.value.problem.key == "zarr.json"


# -- dimension names, shards, options ---------------------------------------------------------------


@pytest.mark.parametrize("dialect", DIALECTS)
def test_dimension_names_are_kept_where_xarray_kept_them(bottom, dialect) -> None:
    make(Draft(bottom, dialect=dialect), "a", dimension_names=("y", None), attributes={"b": 1})
    document = get(bottom, f"{DIALECTS[dialect][0]}a.array.json")
    assert document["attributes"] == {"b": 1, "_ARRAY_DIMENSIONS": ["y", None]}
    found = zarr.open_array(Draft(bottom), path="a")
    assert found.metadata.dimension_names == ("y", None)
    assert dict(found.attrs) == {"b": 1}
    found.attrs["c"] = 2
    assert get(bottom, f"{DIALECTS[dialect][0]}a.array.json")["attributes"] == {
        "b": 1,
        "c": 2,
        "_ARRAY_DIMENSIONS": ["y", None],
    }


@pytest.mark.parametrize("dialect", DIALECTS)
def test_shards_without_checksum_are_the_drafts_storage_transformer(bottom, dialect) -> None:
    store = Draft(bottom, dialect=dialect)
    shards = ShardingCodec(
        chunk_shape=(2, 3), codecs=[BytesCodec(), GzipCodec()], index_codecs=[BytesCodec()]
    )
    array = make(store, "a", shape=(9, 9), chunks=(4, 6), serializer=shards)
    array[2:5, 1:8] = 7
    meta, data = DIALECTS[dialect]
    document = get(bottom, f"{meta}a.array.json")
    assert document["chunk_grid"]["chunk_shape"] == [2, 3]
    assert document["storage_transformers"] == [
        {
            "extension": "https://purl.org/zarr/spec/storage_transformers/sharding/1.0",
            "type": "indexed",
            "configuration": {"chunks_per_shard": [2, 2]},
        }
    ]
    assert keys(bottom, data) == [f"{data}a/c{i}/{j}" for i in (0, 1) for j in (0, 1)]
    found = zarr.open_array(Draft(bottom), path="a", mode="r")
    assert (found.chunks, found.shards) == ((2, 3), (4, 6))
    assert found[...].sum() == 7 * 21


def test_an_empty_shard_is_an_error_and_no_fill_value(bottom) -> None:
    store = Draft(bottom)
    array = make(
        store, "a", serializer=ShardingCodec(chunk_shape=(2, 2), index_codecs=[BytesCodec()]), chunks=(4, 4)
    )
    array[...] = 7
    put(bottom, "data/a/c0/0", b"")
    with pytest.raises(ValueError, match=r"shorter than its index|too short to hold its index"):
        zarr.open_array(Draft(bottom), path="a", mode="r")[...]


@pytest.mark.parametrize("options", [{"dialect": "n5"}, {"allow_fallback": "yes"}])
def test_options_are_checked(options) -> None:
    with pytest.raises(UsageError, match="layer 'draft'"):
        Draft(**options)


def test_the_command_line_may_name_the_dialect() -> None:
    assert Draft.from_text("zarr-python") == Draft(dialect="zarr-python")
    assert Draft.from_text("allow_fallback=true").options == {"allow_fallback": True}


def test_options_that_say_nothing_are_left_open() -> None:
    assert Draft() == Draft.from_json({"name": "draft", "configuration": {}})


# -- suffixes, faults, stacks -----------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["", ".zarr", ".json.txt"])
def test_documents_have_the_suffix_that_the_entry_point_names(bottom, suffix) -> None:
    hierarchy(bottom)
    entry = get(bottom, "zarr.json")
    for key in keys(bottom):
        asyncio.run(bottom.delete(key))
    put(bottom, "zarr.json", entry | {"metadata_encoding": {"type": "json", "metadata_key_suffix": suffix}})
    make(Draft(bottom), "g/a")[...] = 3
    assert f"meta/g/a.array{suffix}" in keys(bottom)
    assert names(Draft(bottom), "g") == ["a", "zarr.json"]
    assert (zarr.open_array(Draft(bottom), path="g/a", mode="r")[...] == 3).all()


class Failing(WrapperStore):
    """Fails at its `turn`th change, and at none after."""

    turn = 0

    def _count(self) -> None:
        self.turn -= 1
        if self.turn == 0:
            raise OSError("no space left on device")

    async def set(self, key, value):
        self._count()
        await self._store.set(key, value)

    async def delete(self, key):
        self._count()
        await self._store.delete(key)


@pytest.mark.parametrize("turn", range(1, 8))
def test_a_change_that_failed_half_way_is_done_by_doing_it_again(turn) -> None:
    below: dict = {}
    store = Failing(MemoryStore(below))
    store.turn = turn
    layer = Draft(store)

    def work() -> None:
        put(layer, "a/zarr.json", {"zarr_format": 3, "node_type": "group", "attributes": {}})
        make(layer, "a", overwrite=True)[...] = 1

    try:
        work()
    except OSError:
        get(Draft(MemoryStore(below)), "a/zarr.json")  # an array, a group or nothing, but never an error
        work()
    assert (zarr.open_array(Draft(MemoryStore(below)), path="a", mode="r")[...] == 1).all()
    chunks = {f"data/a/c{i}/{j}" for i in (0, 1) for j in (0, 1)}
    # zarr-python may have made the group above an explicit one.
    assert set(below) - {"meta/group.json"} == chunks | {"meta/a.array.json", "zarr.json"}


def test_a_store_that_fails_is_not_one_that_has_nothing(bottom) -> None:
    class Broken(WrapperStore):
        async def get(self, key, prototype, byte_range=None):
            if key.endswith(".array.json"):
                raise OSError("connection lost")
            return await self._store.get(key, prototype, byte_range)

    hierarchy(bottom)
    with pytest.raises(OSError, match="connection lost"):
        zarr.open(Draft(Broken(bottom)), path="ocean/tides/m2", mode="r")


def test_layers_stand_over_it_and_under_it(bottom) -> None:
    log = Log()
    prefix = {"name": "prefix", "configuration": {"below": "archives/old"}}
    store = stack(bottom, log, Draft(), Rekey(rules=[prefix]))
    make(store, "a")[...] = 5
    assert "archives/old/meta/a.array.json" in keys(bottom)
    assert keys(store, "a/") == [*(f"a/c/{i}/{j}" for i in (0, 1) for j in (0, 1)), "a/zarr.json"]
    assert (zarr.open_array(store, path="a", mode="r")[...] == 5).all()
    del zarr.open_group(store)["a"]
    assert keys(store, "a") == []

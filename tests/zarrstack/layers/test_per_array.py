"""Arrays whose `zarr.json` names storage transformers: read, written, and never without the field."""

from __future__ import annotations

import asyncio
import json
import warnings

import numpy as np
import pytest
import xarray
import zarr
from tests.support.example_layers import Mask
from tests.support.stores import Noted, got, listed
from tests.support.stores import put as set_value
from tests.support.unpacking import unpacked
from zarr.storage import LocalStore, MemoryStore

import zarrstack
from zarrstack import PerArray, Sharding, stack
from zarrstack.base import registry
from zarrstack.base.array_documents import GUARD
from zarrstack.core.errors import MetadataError, UnsupportedError, UsageError
from zarrstack.testing.operations import dump

ENTRY = {"name": "sharding", "configuration": {"chunks_per_shard": [2, 2]}}
DATA = np.arange(64, dtype="i4").reshape(8, 8)


class Fixed(Mask):
    """Follows no change of shape."""

    name = "fixed"

    def check_change(self, old, new):
        return "it has a key for each chunk" if old["shape"] != new["shape"] else None


class Held(Mask):
    """Stores values later."""

    name, buffers = "held", True


@pytest.fixture(autouse=True)
def more_layers(monkeypatch):
    def find(name, known=registry.find):
        return {"mask": Mask, "fixed": Fixed, "held": Held}.get(name) or known(name)

    monkeypatch.setattr("zarrstack.layers.per_array.layer.find", find)


@pytest.fixture
def store():
    return MemoryStore()


@pytest.fixture(params=["memory", "folder"])
def either(request, tmp_path):
    """A store that keeps no empty folders, and one that does."""
    return MemoryStore() if request.param == "memory" else LocalStore(tmp_path)


def create(store, entries=(ENTRY,), name="g/a", **options):
    array = zarrstack.create_array(
        store, name=name, shape=(8, 8), chunks=(2, 2), dtype="i4", storage_transformers=entries, **options
    )
    array[:] = DATA
    return array


def key_of(path):
    return f"{path}/zarr.json" if path else "zarr.json"


def document(store, path):
    return json.loads(got(store, key_of(path)))


def put(store, path, content):
    set_value(store, key_of(path), json.dumps(content).encode())


def field(store, path="g/a"):
    return document(store, path)["storage_transformers"]


def keys(store):
    return listed(store.list())


def consolidate(store, path=""):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        zarr.consolidate_metadata(store, path=path)


@pytest.mark.parametrize("layer", [ENTRY, Sharding(chunks_per_shard=[2, 2])], ids=["JSON", "a layer"])
def test_chunks_go_through_the_layers_that_the_metadata_names(either, layer):
    array = create(either, [layer, {"name": "mask"}])
    assert [key for key in keys(either) if "/c/" in key] == [f"g/a/c/{i}/{j}" for i in (0, 1) for j in (0, 1)]
    name = "sharding" if layer is ENTRY else "zarrstack.sharding"
    assert field(either) == [{**ENTRY, "name": name}, {"name": "mask"}]
    assert (zarrstack.open(either, path="g/a")[:] == DATA).all()
    assert array.store == PerArray(either)


WAYS = {
    "write": lambda group: group["a"].__setitem__(Ellipsis, 9),
    "read": lambda group: group["a"][...],
    "attributes": lambda group: group["a"].attrs.__setitem__("x", 1),
    "resize": lambda group: group["a"].resize((4, 4)),
    "array": lambda group: zarr.open_array(group.store, path="g/a", mode="r+"),
    "members": lambda group: list(group.members()),
    "a new array in its place": lambda group: group.create_array("a", shape=(2,), dtype="i4"),
}


@pytest.mark.slow(one_in=3)
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_zarr_python_alone_refuses_such_an_array_and_harms_nothing(either, way):
    create(either)
    before = dump(either)
    with pytest.raises(ValueError, match=r"zarrstack\.storage_transformers|exists"):
        way(zarr.open_group(either, path="g", mode="r+"))
    assert dump(either) == before
    assert (zarrstack.open(either, path="g/a")[:] == DATA).all()


def test_an_array_that_was_written_before_there_was_a_guard_is_read_and_gets_one(store):
    create(store)
    put(store, "g/a", {name: value for name, value in document(store, "g/a").items() if name != GUARD})
    assert (zarrstack.open(store, path="g/a")[:] == DATA).all()
    zarrstack.open(store, path="g/a").attrs["x"] = 1
    assert document(store, "g/a")[GUARD] == {"must_understand": True}
    assert (zarrstack.open(store, path="g/a")[:] == DATA).all()


def test_a_guard_without_transformers_is_refused(store):
    create(store)
    put_field(store, [])
    with pytest.raises(MetadataError, match="no longer names"):
        zarrstack.open(store, path="g/a")


def test_an_array_without_transformers_is_as_it_was(store):
    create(store, ())
    assert field(store) == []
    assert (zarr.open_array(store, path="g/a")[:] == DATA).all()
    assert (zarrstack.open(store, path="g/a")[:] == DATA).all()


def change_attributes(array):
    array.attrs["x"] = 1


def resize(array):
    array.resize((10, 8))


def append(array):
    array.append(DATA[:2])


def consolidate_all(array):
    consolidate(array.store)


@pytest.mark.parametrize("change", [change_attributes, resize, append, consolidate_all])
def test_the_field_stays_whatever_is_written(store, change):
    create(store)
    for _ in range(2):
        change(zarrstack.open(store, path="g/a"))
        assert field(store) == [ENTRY]
        assert document(store, "g/a")[GUARD] == {"must_understand": True}
    assert (zarrstack.open(store, path="g/a", mode="r")[:8] == DATA).all()


def consolidated(store):
    """The paths of the groups that have consolidated metadata."""
    paths = [key.rpartition("/")[0] for key in keys(store) if key.endswith("zarr.json")]
    return [path for path in paths if "consolidated_metadata" in document(store, path)]


def siblings(store):
    """What zarr-python alone opens, and refuses, of the group `g`."""
    for group in (zarr.open_group(store, mode="r")["g"], zarr.open_group(store, path="g", mode="r")):
        with pytest.raises(ValueError, match=r"zarrstack\.storage_transformers"):
            group["a"]
        yield group["b"][...]


@pytest.mark.slow(one_in=3)
@pytest.mark.parametrize("path", ["", "g"])
def test_a_group_with_such_an_array_is_written_without_consolidated_metadata(either, path):
    array = create(either)
    create(either, (), "g/b")
    create(either, (), "h/c")
    for each in (path, "h"):
        consolidate(array.store, each)
    assert consolidated(either) == ["h"]
    assert all((found == DATA).all() for found in siblings(either))
    group = zarrstack.open_group(either)
    assert {name for name, _ in group.members(max_depth=None)} == {"g", "g/a", "g/b", "h", "h/c"}
    assert (group["g/a"][:] == DATA).all()


def test_zarr_python_alone_does_not_consolidate_such_an_array(store):
    create(store)
    with pytest.raises(ValueError, match=r"zarrstack\.storage_transformers"):
        consolidate(store)
    assert consolidated(store) == []


def test_no_document_is_read_while_it_is_written(store):
    """zarr writes those of new groups beside the array's; Windows refuses to read what is being written."""
    being_written, read_meanwhile = set(), []

    class Slow(zarr.storage.WrapperStore):
        get_sync = set_sync = None

        async def get(self, key, *rest):
            await asyncio.sleep(0)  # others begin
            read_meanwhile.extend(being_written & {key})
            return await super().get(key, *rest)

        async def write(self, how, key, value):
            being_written.add(key)
            for _ in range(100):
                await asyncio.sleep(0)  # others begin
            await how(key, value)
            being_written.discard(key)

        async def set(self, key, value):
            await self.write(super().set, key, value)

        async def set_if_not_exists(self, key, value):
            await self.write(super().set_if_not_exists, key, value)

    create(Slow(store))
    assert not read_meanwhile
    assert [key for key in keys(store) if key.endswith("zarr.json")] == [
        "g/a/zarr.json",
        "g/zarr.json",
        "zarr.json",
    ]


@pytest.mark.parametrize("replaced", [False, True], ids=["new", "replaced"])
def test_creating_such_an_array_removes_consolidated_metadata_first(store, replaced):
    """Otherwise zarr-python would write chunks over its shards: it would not see the guard."""
    create(store, (), "g/b")
    if replaced:
        create(store, ())
    consolidate(store, "g")
    consolidate(store)
    opened = zarrstack.open_group(store)
    assert consolidated(store) == ["g", ""]
    written = []

    class Writes(zarr.storage.WrapperStore):
        async def set(self, key, value):
            written.append(key)
            await super().set(key, value)

    create(PerArray(Writes(store)), overwrite=replaced)
    assert consolidated(store) == []
    assert written.index("zarr.json") < written.index("g/a/zarr.json")
    assert written.index("g/zarr.json") < written.index("g/a/zarr.json")
    assert all((found == DATA).all() for found in siblings(store))
    assert (zarrstack.open(store, path="g")["a"][:] == DATA).all()
    assert opened.metadata.consolidated_metadata is not None, "it was opened before"


def test_xarray_reads_such_arrays_beside_others(store):
    for name, layers in (("a", [ENTRY]), ("b", ())):
        create(store, layers, name, dimension_names=["y", "x"])
    data = xarray.open_zarr(zarrstack.open_group(store, mode="r").store, consolidated=False)
    assert {name: (each.values == DATA).all() for name, each in data.items()} == {"a": True, "b": True}


def test_consolidated_metadata_that_was_read_before_is_not_written_again(store):
    create(store, (), "b")
    consolidate(store)
    group = zarrstack.open_group(store)
    create(group.store, name="a")
    group.attrs["x"] = 1
    assert consolidated(store) == []
    assert (zarrstack.open_group(store)["a"][:] == DATA).all()


def test_consolidated_metadata_without_such_arrays_is_kept(store):
    create(store, (), "g/b")
    layer = PerArray(store)
    consolidate(layer)
    group = zarr.open_consolidated(layer)
    group.attrs["x"] = 1
    assert consolidated(store) == [""]
    assert (zarr.open_consolidated(store)["g/b"][:] == DATA).all()


def earlier(store, form):
    """Consolidated metadata over an array that is stored in shards, as something else has written it."""
    create(store, (), "g/b")
    create(store, ())
    consolidate(store)
    block = document(store, "")["consolidated_metadata"]
    create(store, overwrite=True)
    own = document(store, "g/a")
    if form == "named":
        block["metadata"]["g/a"] = {name: value for name, value in own.items() if name != GUARD}
    put(store, "", document(store, "") | {"consolidated_metadata": block})


@pytest.mark.parametrize("form", ["named", "outdated"])
def test_existing_consolidated_metadata_is_ignored_over_such_an_array(store, form):
    earlier(store, form)
    group = zarrstack.open_group(store)
    assert {name for name, _ in group.members(max_depth=None)} == {"g", "g/a", "g/b"}
    assert (group["g/a"][:] == DATA).all()
    group.attrs["y"] = 2
    assert consolidated(store) == []
    assert all((found == DATA).all() for found in siblings(store))


def test_a_replaced_array_has_only_what_it_was_given(either):
    layer = create(either).store
    array = zarr.create_array(layer, name="g/a", shape=(4,), chunks=(2,), dtype="i4", overwrite=True)
    assert array[:].tolist() == [0, 0, 0, 0]
    assert field(either) == []
    array[:] = 3
    create(either, [{"name": "mask"}], overwrite=True)
    assert field(either) == [{"name": "mask"}]
    assert (zarrstack.open(either, path="g/a")[:] == DATA).all()


def test_a_group_is_made_at_once_if_the_store_can():
    """A second process that makes an array in the group must not write over the group's attributes."""

    class AtOnce(MemoryStore):
        async def set_if_not_exists(self, key, value):
            made.append(key)
            await super().set_if_not_exists(key, value)

    made = []
    create(AtOnce())
    assert sorted(made) == ["g/zarr.json", "zarr.json"]


def test_deleting_a_group_takes_everything_along(either):
    array = create(either)
    del zarr.open_group(array.store)["g"]
    assert [key for key in keys(either) if key != "zarr.json"] == []


def test_shapes_that_the_layers_can_follow_are_written(store):
    create(store)
    array = zarrstack.open(store, path="g/a")
    array.resize((4, 12))
    array[:, 8:] = 1
    again = zarrstack.open(store, path="g/a", mode="r")
    assert again.shape == (4, 12)
    assert (again[:, :8] == DATA[:4]).all()
    assert (again[:, 8:] == 1).all()


def test_a_shape_that_a_layer_cannot_follow_is_refused_before_anything_is_written(store):
    create(store, [{"name": "fixed"}])
    before = document(store, "g/a")
    array = zarrstack.open(store, path="g/a")
    with pytest.raises(UsageError, match="cannot follow this change of the array: it has a key") as caught:
        array.resize((10, 8))
    assert (caught.value.problem.node, caught.value.problem.key) == ("g/a", "g/a/zarr.json")
    assert document(store, "g/a") == before
    zarrstack.open(store, path="g/a").attrs["x"] = 1


def put_field(store, entries, path="g/a"):
    """As another program might have written it."""
    put(store, path, document(store, path) | {"storage_transformers": entries})


@pytest.mark.parametrize(
    ("entries", "error", "words"),
    [
        ([{"name": "nowhere"}], UnsupportedError, "'nowhere'"),
        (["nowhere"], UnsupportedError, "'nowhere'"),
        ([{"name": "nowhere", "must_understand": False}], UnsupportedError, "'nowhere'"),
        ([{"name": "log", "configuration": {"events": "x"}}], UnsupportedError, "'log' may not be named"),
        ([{"name": "held"}], UnsupportedError, "'held' keeps values in memory"),
        ([{"name": "sharding"}], MetadataError, "chunks_per_shard"),
        ([{"name": "sharding", "configuration": {"chunks": 3}}], MetadataError, "'chunks'"),
        ([{"name": "sharding", "configuration": 3}], MetadataError, "not a JSON object"),
        ([{"title": "sharding"}], MetadataError, "not a storage transformer"),
        ([7], MetadataError, "not a storage transformer"),
        ({"name": "sharding"}, MetadataError, "not a list"),
        ({}, MetadataError, "not a list"),
        (
            [{**ENTRY, "type": "indexed"}],
            MetadataError,
            "unknown members of storage transformer 'sharding'; found type",
        ),
        (
            [{**ENTRY, "must_understand": "no"}],
            MetadataError,
            "must_understand of storage transformer 'sharding'",
        ),
    ],
    ids=[
        "unknown", "name alone", "may be skipped", "reaches out", "stores later", "lacks an option",
        "slip", "number",
        "no name", "7", "dict", "empty dict", "another member", "not a boolean",
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_an_error_that_names_it(store, entries, error, words):
    create(store, ())
    put_field(store, entries)
    with pytest.raises(error, match=words) as caught:
        zarrstack.open(store, path="g/a")
    assert (caught.value.problem.node, caught.value.problem.key) == ("g/a", "g/a/zarr.json")


@pytest.mark.parametrize("member", ["shape", "chunk_key_encoding"])
def test_a_document_without_what_layers_read_is_an_error_that_names_it(store, member):
    create(store)
    broken = document(store, "g/a")
    del broken[member]
    put(store, "g/a", broken)
    with pytest.raises(MetadataError, match=f"no valid {member}"):
        zarrstack.open(store, path="g/a")


def test_layers_of_a_new_array_must_be_understood(store):
    with pytest.raises(UsageError, match="a reader that skips a layer"):
        create(store, [{**ENTRY, "must_understand": False}])
    assert "g/a/zarr.json" not in keys(store)
    create(store, [{**ENTRY, "must_understand": True}])


def test_an_array_of_zarr_v2_cannot_name_layers(store):
    with pytest.raises(UsageError, match="only metadata of Zarr v3"):
        zarrstack.create_array(store, name="a", shape=(4,), dtype="i4", zarr_format=2)


def test_an_array_is_not_created_through_what_cannot_be_used(store):
    with pytest.raises(UnsupportedError, match="'nowhere'"):
        create(store, [{"name": "nowhere"}])
    assert "g/a/zarr.json" not in keys(store)


def test_what_is_wrong_with_one_array_does_not_stop_the_others(store):
    """By name it is an error; it is not overwritten, and can be repaired while its group is open."""
    create(store)
    create(store, name="g/b")
    put_field(store, [{"name": "nowhere"}], "g/b")
    before = dump(store)
    group = zarrstack.open_group(store, path="g")
    for way in (
        lambda: group["b"],
        lambda: zarrstack.open_array(store, path="g/b", mode="r"),
        lambda: dict(group.members()),
        lambda: group.create_array("b", shape=(2,), dtype="i4"),
    ):
        with pytest.raises(UnsupportedError, match="'nowhere'"):
            way()
    assert (group["a"][:] == DATA).all()
    assert dump(store) == before
    put_field(store, [ENTRY], "g/b")
    assert sorted(dict(group.members())) == ["a", "b"]


def test_the_layer_finds_arrays_by_itself_when_it_arrives_elsewhere(tmp_path):
    import pickle

    array = create(LocalStore(tmp_path))
    assert (pickle.loads(pickle.dumps(array))[:] == DATA).all()
    arrived = pickle.loads(pickle.dumps(array.store))
    assert arrived == PerArray(LocalStore(tmp_path))


def test_listings_show_chunks_not_shards(either):
    layer = create(either).store
    assert len([key for key in keys(layer) if "/c/" in key]) == 16
    consolidated = zarr.open_group(layer, mode="r")
    assert [name for name, _ in consolidated["g"].members()] == ["a"]


def test_a_group_and_an_array_are_opened_by_type(store):
    create(store)
    assert isinstance(zarrstack.open_group(store, path="g"), zarr.Group)
    assert (zarrstack.open_array(store, path="g/a")[:] == DATA).all()
    with pytest.raises(UsageError, match="is a group"):
        zarrstack.open_array(store, path="g")
    with pytest.raises(UsageError, match="is an array"):
        zarrstack.open_group(store, path="g/a")


@pytest.mark.parametrize("name", ["zarr-2.18/tree.zarr", "may-2022/tree.zarr"])
@pytest.mark.parametrize("path", ["", "elsewhere"])
def test_an_archive_of_the_draft_is_refused_by_name(name, path):
    with pytest.raises(UnsupportedError, match="2022 draft of Zarr v3") as caught:
        zarrstack.open(unpacked(f"zarr_v3_draft/{name}"), path=path, mode="r")
    assert caught.value.problem.advice == "Use zarrlift.open."


def test_an_error_of_another_archive_is_that_of_zarr_python(store):
    create(store)
    with pytest.raises(FileNotFoundError):
        zarrstack.open(store, path="elsewhere")
    with pytest.raises(FileNotFoundError):
        zarrstack.open(MemoryStore(), mode="r")


def test_a_consolidated_group_takes_as_many_requests_as_through_zarr():
    below = MemoryStore()
    zarr.create_group(below)
    for number in range(50):
        zarr.create_array(below, name=f"a{number}", shape=(4,), chunks=(2,), dtype="i4")
    consolidate(below)
    plain, counted = Noted(below), Noted(below)
    for store, group in (
        (plain, zarr.open_group(plain, mode="r+")),
        (counted, zarrstack.open_group(counted)),
    ):
        assert len(dict(group.members())) == 50
        group.attrs["x"] = 1
        assert store.gets, "it is asked"
    assert len(counted.gets) == len(plain.gets)


def test_chunks_of_zarr_v2_take_one_request_each_at_any_depth():
    below = MemoryStore()
    array = zarr.create_array(
        below, name="f/g/a", shape=(10, 10), chunks=(1, 1), dtype="i4", zarr_format=2, fill_value=-1
    )
    array[:] = 7
    counts = []
    for opened in (zarr.open_array, zarrstack.open_array):
        counted = Noted(below)
        array = opened(counted, path="f/g/a", mode="r+")  # a copy for reading would count by itself
        counted.gets.clear()
        assert (array[:] == 7).all()
        counts.append(len(counted.gets))
    assert counts[0] == 100
    assert counts[1] <= 104, "the documents of the four nodes above are looked for once"


def test_an_array_created_where_none_was_found_has_its_layers(store):
    zarr.create_group(store, path="g")
    layer = stack(store, PerArray())
    assert asyncio.run(layer.exists("g/a/c/0")) is False
    create(store)
    assert (zarr.open_array(layer, path="g/a", mode="r")[:] == DATA).all()
    assert len([key for key in keys(layer) if "/c/" in key]) == 16

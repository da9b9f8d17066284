"""A hierarchy appears whole or not at all, and never over something else."""

from __future__ import annotations

import os

import pytest
import zarr
from tests.support.documents import v3_array
from tests.support.fixtures_index import archive
from zarr.storage import MemoryStore

from zarrlift import models
from zarrlift.errors import JobError
from zarrlift.models.model_storage import ModelStorage
from zarrlift.storage.local.storage import LocalStorage
from zarrlift.storage.local.writer import LocalWriter
from zarrstack.core.errors import MetadataError, UsageError

OCEAN = archive("zarr-2.18/people/ocean").path
CELLS = archive("zarr-2.18/people/cells").path


class Stop(Exception):
    pass


def files(path):
    return {
        file.relative_to(path).as_posix(): file.read_bytes() for file in path.rglob("*") if file.is_file()
    }


@pytest.fixture
def failing(monkeypatch):
    """Makes the n-th write of an object fail, or the process die there."""

    def arm(count, *, dead=False):
        seen = []
        real = LocalWriter.write

        def write(self, key, data):
            if len(seen) == count:
                raise Stop(key)
            seen.append(key)
            real(self, key, data)

        monkeypatch.setattr(LocalWriter, "write", write)
        if dead:
            # A process that is killed takes nothing back.
            monkeypatch.setattr(LocalStorage, "delete", lambda self, key: None)
            monkeypatch.setattr(LocalWriter, "close", lambda self: None)
        return seen

    return arm


@pytest.mark.parametrize("migrated", [False, True], ids=["v2", "v3"])
@pytest.mark.parametrize("source", [OCEAN, CELLS], ids=["ocean", "cells"])
def test_what_is_made_is_read_by_zarr(source, migrated, tmp_path):
    shown = models.show(source, migrated=migrated)
    created = models.create(shown, tmp_path / "made")
    flat = models.flatten(shown.model)
    group = zarr.open_group(tmp_path / "made", mode="r")
    assert {path for path, _ in group.members(max_depth=None)} == flat.keys() - {""}
    assert (created.arrays, created.groups) == (
        sum("shape" in node for node in flat.values()),
        sum("shape" not in node for node in flat.values()),
    )
    assert not any(part in name for name in files(tmp_path / "made") for part in ("partial", ".zarrlift"))


@pytest.mark.parametrize("migrated", [False, True], ids=["v2", "v3"])
def test_the_root_comes_last_and_groups_after_what_is_in_them(migrated, tmp_path, failing):
    seen = failing(10**6)
    models.create(CELLS, tmp_path / "made", migrated=migrated)
    name = "zarr.json" if migrated else ".zgroup"
    assert seen[-1] == name
    groups = [f"labels/cells/{name}", f"labels/{name}", name]
    assert [key for key in seen if key in groups] == groups
    array = name if migrated else ".zarray"
    arrays = [key for key in seen if key.endswith("/" + array) and key not in groups]
    assert len(arrays) == 6
    assert max(map(seen.index, arrays)) < seen.index(groups[0]), "groups come after every array"


@pytest.mark.parametrize("count", range(0, 11, 2))
def test_a_failing_write_leaves_nothing(count, tmp_path, failing):
    failing(count)
    with pytest.raises(Stop):
        models.create(CELLS, tmp_path / "made")
    assert files(tmp_path / "made") == {}


@pytest.mark.parametrize("count", range(0, 11, 2))
def test_what_a_killed_call_leaves_is_no_hierarchy_and_is_taken_over(count, tmp_path, failing, monkeypatch):
    failing(count, dead=True)
    with pytest.raises(Stop):
        models.create(CELLS, tmp_path / "made")
    with pytest.raises(FileNotFoundError):
        zarr.open(tmp_path / "made", mode="r", zarr_format=2)
    monkeypatch.undo()
    models.create(CELLS, tmp_path / "made")
    assert models.diff(CELLS, tmp_path / "made") == ()
    assert not list((tmp_path / "made").glob(".zarrlift*"))


def test_what_a_killed_call_left_is_not_another_models(tmp_path, failing, monkeypatch):
    failing(5, dead=True)
    with pytest.raises(Stop):
        models.create(CELLS, tmp_path / "made")
    monkeypatch.undo()
    before = files(tmp_path / "made")
    with pytest.raises(JobError, match="the destination is not empty"):
        models.create(OCEAN, tmp_path / "made")
    assert files(tmp_path / "made") == before


@pytest.mark.parametrize("there", ["zarr.json", ".zgroup", "notes.txt", "a/b/c"])
def test_what_is_there_already_stays(there, tmp_path):
    file = tmp_path / "made" / there
    file.parent.mkdir(parents=True)
    file.write_text("mine")
    with pytest.raises(JobError) as caught:
        models.create(OCEAN, tmp_path / "made")
    assert caught.value.problem.key == there
    assert files(tmp_path / "made") == {there: b"mine"}


def test_a_hierarchy_is_not_made_twice(tmp_path):
    models.create(OCEAN, tmp_path / "made")
    with pytest.raises(JobError):
        models.create(OCEAN, tmp_path / "made")


def test_an_empty_directory_is_nothing(tmp_path):
    assert models.create(OCEAN, tmp_path).arrays == 12


def test_a_store_is_a_place_too():
    store = MemoryStore()
    models.create(OCEAN, store, migrated=True, consolidate=True)
    assert models.diff(models.show(OCEAN, migrated=True), store) == ()
    assert zarr.open_consolidated(store)["sst"].shape == (12, 36, 72)


BAD = {
    "shape": ([-3], "shape/0"),
    "codecs": ([{"name": "gzip", "configuration": {"level": 1}}, {"name": "bytes"}], "codecs"),
    "fill_value": ("x", "fill_value"),
    "chunk_grid": ({"name": "regular", "configuration": {"chunk_shape": [0]}}, "chunk_grid"),
    "dimension_names": (["a", "b", "c", "d"], "dimension_names"),
}


def test_metadata_that_v3_forbids_is_refused_with_every_place(tmp_path):
    model = models.show(OCEAN, migrated=True).model
    for (member, (value, _)), array in zip(BAD.items(), ("sst", "lat", "lon", "crs", "time"), strict=True):
        model["members"][array][member] = value
    with pytest.raises(MetadataError) as caught:
        models.create(model, tmp_path / "made")
    text = str(caught.value)
    for (_, place), array in zip(BAD.values(), ("sst", "lat", "lon", "crs", "time"), strict=True):
        assert f"/{array}: " in text
        assert place in text
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("member", "value"), [("shape", "big"), ("chunks", [1]), ("dtype", None), ("shape", [-1])]
)
def test_metadata_that_v2_cannot_do_without_is_asked_for(member, value, tmp_path):
    model = models.show(OCEAN).model
    model["members"]["sst"][member] = value
    with pytest.raises(MetadataError) as caught:
        models.create(model, tmp_path / "made")
    assert caught.value.problem.node == "sst"


V3 = v3_array([4], [2])
V2: dict = {"zarr_format": 2, "shape": [4], "chunks": [2], "dtype": "<i4", "compressor": None}
V2 |= {"filters": None, "fill_value": 0, "order": "C", "attributes": {}}
INNER = {"name": "sharding_indexed", "configuration": {"chunk_shape": [1], "codecs": V3["codecs"]}}
INNER["configuration"]["index_codecs"] = [*V3["codecs"], {"name": "crc32c"}]
SHARDS_IN_SHARDS = {**INNER, "configuration": {**INNER["configuration"], "codecs": [INNER]}}


@pytest.mark.parametrize(
    ("node", "named"),
    [
        (V3 | {"data_type": "int128"}, "int128"),
        (V3 | {"data_type": {"name": "nobody.knows", "configuration": {}}}, "nobody.knows"),
        (V3 | {"codecs": [*V3["codecs"], {"name": "snappy"}]}, "snappy"),
        (V2 | {"dtype": "<x9"}, "<x9"),
        (V2 | {"compressor": {"id": "snappy"}}, "snappy"),
        (V2 | {"filters": [{"id": "nobody-knows"}]}, "nobody-knows"),
    ],
    ids=lambda value: value if isinstance(value, str) else f"v{value['zarr_format']}",
)
def test_data_types_and_codecs_that_nothing_reads_are_refused(node, named, tmp_path):
    group = {"zarr_format": node["zarr_format"], "attributes": {}, "members": {"a": node}}
    group |= {"node_type": "group"} if node["zarr_format"] == 3 else {}
    with pytest.raises(MetadataError, match="no known reader supports this array") as caught:
        models.create(group, tmp_path / "made")
    assert caught.value.problem.node == "a"
    assert named in str(caught.value)
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("node", [V3, V2, V3 | {"codecs": [SHARDS_IN_SHARDS]}], ids=["v3", "v2", "by zarr"])
def test_what_one_reader_knows_is_made(node, tmp_path):
    models.create(node, tmp_path / "made")
    assert zarr.open_array(tmp_path / "made", mode="r")[:].tolist() == [0] * 4


def test_an_archive_with_unread_nodes_makes_no_hierarchy(tmp_path):
    models.create(OCEAN, tmp_path / "a")
    (tmp_path / "a" / "sst" / ".zarray").write_text("{")
    with pytest.raises(MetadataError) as caught:
        models.create(tmp_path / "a", tmp_path / "b")
    assert caught.value.problem.node == "sst"


def test_a_place_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError):
        models.create(OCEAN, tmp_path / "file")


def test_a_model_is_a_place_that_cannot_be_written():
    storage = ModelStorage(models.flatten(models.show(OCEAN).model), url="here")
    with pytest.raises(NotImplementedError):
        storage.put("a", b"")
    with pytest.raises(NotImplementedError):
        storage.delete("a")
    assert sorted(dict(zarr.open_group(storage.zarr_store(), mode="r").members())) == sorted(
        name for name in os.listdir(OCEAN) if not name.startswith(".")
    )

"""`Draft` over archives by zarr-python, zarrita and GDAL, and after the text: what the old writer reads."""

from __future__ import annotations

import asyncio
import json
import re
import shutil

import numpy as np
import pytest
import zarr
from tests.support import fixtures_index
from tests.support.unpacking import FIXTURES, unpacked
from zarr.core.buffer import default_buffer_prototype
from zarr.storage import LocalStore

from zarrstack.core.errors import ZarrstackError
from zarrstack.layers.draft.layer import Draft

GHOST = "consolidated"
"""The group that zarr-python 2 leaves where it consolidates; the node of no one."""

REFUSED = {
    "json2": "objects have no v3 name as stored",
    "F/json2": "json2 with order F",
    "pickle": "objects have no v3 name as stored",
    "struct_mixed": "fields that are not all little-endian",
    "struct_subarray": "a sub-array field has no v3 data type",
}
"""What zarr-python 3 cannot read as it lies, by the end of an array's path, and the words that say so."""
REFUSED_IN_ALL = 16
READ_IN_ALL = 464

ARCHIVES = fixtures_index.archives("zarr_v3_draft")
SHARDED = unpacked("zarr_v3_draft/zarr-2.18/sharded.zarr")


def refusal(path: str) -> str | None:
    return next((words for end, words in reversed(REFUSED.items()) if path.endswith(end)), None)


def layer(archive: fixtures_index.ExpectedArchive) -> Draft:
    needs = any(array.needs for array in archive.arrays.values())
    return Draft(LocalStore(archive.path, read_only=True), allow_fallback=needs)


def equal(found: np.ndarray, expected: fixtures_index.ExpectedArray) -> bool:
    if expected.mask is not None:
        return found[expected.mask].tobytes() == expected.values[expected.mask].tobytes()
    if found.dtype.kind == "T":  # numpy 2's text of variable length
        found = found.astype(object)
    if found.dtype.names is not None:
        found = found.astype(expected.little)  # the fields of both are little-endian, and packed
    return fixtures_index.same(found, expected.values)


@pytest.mark.parametrize("archive", ARCHIVES, ids=str)
def test_every_array_reads_as_its_writer_read_it_or_is_refused_by_name(archive) -> None:
    store = layer(archive)
    for path, expected in archive.arrays.items():
        words = refusal(path)
        if words is not None and "struct_little" not in path:
            with pytest.raises(ZarrstackError, match=words) as caught:
                zarr.open_array(store, path=path, mode="r")
            assert caught.value.problem.node == path
            assert caught.value.problem.key.endswith(f"{path}.array.json")
            continue
        array = zarr.open_array(store, path=path, mode="r")
        assert array.shape == expected.shape
        assert equal(np.asarray(array[...]), expected), path
        # Dimension names stood in an attribute, and zarr-python's filters in another.
        names = array.metadata.dimension_names
        shown = {**array.attrs, **({} if names is None else {"_ARRAY_DIMENSIONS": list(names)})}
        hidden = {"filters"} if isinstance(expected.attributes.get("filters"), list) else set()
        stood = {name: value for name, value in expected.attributes.items() if name not in hidden}
        assert repr(sorted(shown.items())) == repr(sorted(stood.items()))


@pytest.mark.parametrize("archive", ARCHIVES, ids=str)
def test_every_group_is_there_and_no_ghost(archive) -> None:
    store = layer(archive)
    for path, attributes in archive.groups.items():
        if path == GHOST:
            with pytest.raises(FileNotFoundError):
                zarr.open_group(store, path=path, mode="r")
        else:
            found = zarr.open_group(store, path=path, mode="r").attrs
            assert repr(dict(found)) == repr(dict(attributes))

    async def names(path: str) -> set[str]:
        return {name async for name in store.list_dir(path)}

    async def listed() -> set[str]:
        return {key async for key in store.list()}

    nodes = ({*archive.groups, *archive.arrays} - {GHOST}) | {""}
    for path in archive.groups.keys() - {GHOST}:
        inside = f"{path}/" if path else ""
        children = {node[len(inside) :].split("/")[0] for node in nodes if node and node.startswith(inside)}
        assert asyncio.run(names(path)) == children | {"zarr.json"}
    keys = asyncio.run(listed())
    documents = {f"{path}/zarr.json" if path else "zarr.json" for path in nodes}
    assert {key for key in keys if key.endswith("zarr.json")} == documents
    for path, expected in archive.arrays.items():
        inside = f"{path}/c" if path else "c"
        chunks = [key for key in keys if key.startswith(inside) and not key.endswith("zarr.json")]
        if expected.dtype.kind != "O" and "shard" not in path:
            assert len(chunks) == expected.stored_chunks, path


def test_so_many_arrays_are_read_and_so_many_refused() -> None:
    paths = [array.path for array in fixtures_index.arrays(format="zarr_v3_draft")]
    refused = [path for path in paths if refusal(path) is not None]
    assert (len(refused), len(paths) - len(refused)) == (REFUSED_IN_ALL, READ_IN_ALL)


EXPECTED = json.loads((FIXTURES / "zarr_v3_draft/zarr-2.18/sharded.expected.json").read_text())


@pytest.mark.parametrize("path", EXPECTED)
def test_shards_of_zarr_2_18_are_read_and_changed_in_part(path, tmp_path) -> None:
    made = EXPECTED[path]
    root = shutil.copytree(SHARDED, tmp_path / "a.zarr")
    array = zarr.open_array(Draft(LocalStore(root)), path=path)
    values = np.array(made["values"], "i4")
    assert (array[...] == values).all()
    if not values.ndim:
        return  # zarr-python 3 reads shards without axes, and writes none
    assert array.shards is not None
    first = (0,) * values.ndim
    array[first] = values[first] = 4321
    assert (zarr.open_array(Draft(LocalStore(root)), path=path)[...] == values).all()


# -- an archive is changed as it lies ---------------------------------------------------------------


@pytest.mark.parametrize(
    "archive", [one for one in ARCHIVES if "types" in one.name or "codecs" in one.name], ids=str
)
def test_attributes_and_shape_change_and_all_else_stays_as_it_was_written(archive, tmp_path) -> None:
    root = shutil.copytree(archive.path, tmp_path / "a.zarr")
    store = Draft(LocalStore(root))
    for path in archive.arrays:
        if refusal(path) is not None:
            continue
        file = next(root.glob(f"meta/**/{path}.array.json"))
        before = json.loads(file.read_text())
        array = zarr.open_array(store, path=path)
        array.attrs["new"] = 1
        array.resize((array.shape[0] + 1, *array.shape[1:]))
        after = json.loads(file.read_text())
        assert after["shape"][0] == before["shape"][0] + 1
        assert after["attributes"] == {**before["attributes"], "new": 1}
        kept = [name for name in before if name not in {"shape", "attributes"}]
        assert repr([after[name] for name in kept]) == repr([before[name] for name in kept])
        assert before.keys() == after.keys()


def test_zarritas_chunk_of_an_array_without_axes_stays_the_only_one(tmp_path) -> None:
    """zarrita wrote zarr-python's entry point, and `c` where zarr-python has `c0`."""
    root = tmp_path / "a.zarr"
    array = zarr.create_array(Draft(LocalStore(root), dialect="zarr-python"), name="n", shape=(), dtype="i4")
    array[...] = 5
    (root / "data/root/n/c0").rename(root / "data/root/n/c")
    store = Draft(LocalStore(root))
    found = zarr.open_array(store, path="n")
    assert found[...] == 5
    found[...] = 6
    assert sorted(file.name for file in (root / "data/root/n").iterdir()) == ["c"]
    assert zarr.open_array(Draft(LocalStore(root)), path="n")[...] == 6

    async def keys() -> list[str]:
        return sorted([key async for key in store.list()])

    assert asyncio.run(keys()) == ["n/c", "n/zarr.json", "zarr.json"]


# -- damage -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", fixtures_index.bad_cases("zarr_v3_draft"), ids=str)
def test_damage_gives_one_clear_error_or_the_true_values(case) -> None:
    store = Draft(LocalStore(case.path, read_only=True))
    for path in case.damaged:
        try:
            node = zarr.open(store, path=path, mode="r")
            if isinstance(node, zarr.Group) or node.size > 1000:
                continue  # absurd shapes, which nobody reads whole
            values = np.asarray(node[...])
        except ZarrstackError as error:
            assert error.problem.key in {*case.keys, *(shown_key(key) for key in case.keys)}  # noqa: PT017
        except Exception as error:  # noqa: BLE001
            # What the layer hands over is zarr-python's to decode, and missing nodes are its to miss.
            assert case.name.startswith(OTHERS), repr(error)  # noqa: PT017
        else:
            assert case.readable or fixtures_index.same(values.astype("<i4"), fixtures_index.GOOD), case.what
    if "entry" not in case.name and case.name != "nothing":
        assert asyncio.run(store.get("good/zarr.json", default_buffer_prototype())) is not None


OTHERS = ("chunk", "shard", "array_transformer", "name", "nothing")
"""Damage that is not in a document."""


def shown_key(key: str) -> str:
    """`bad/c/0/0` for `data/bad/c0/0`."""
    return re.sub("/c(?=[0-9])", "/c/", key.removeprefix("data/").removeprefix("root/"))

"""The documents that are written, held against zarr-python and strict JSON."""

from __future__ import annotations

import itertools
import json
import pickle
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from tests.support.chances import json_values
from tests.support.documents import layout as of_layout
from tests.support.v2_trees import array, tree

import zarrlift
from zarrlift.archive.nodes import Layout
from zarrlift.core.codec_spec import CodecSpec
from zarrlift.core.data_types.compare import matches_json_text
from zarrlift.core.data_types.object_values import tagged_form
from zarrlift.core.json_document import document
from zarrlift.planning.zarr_json import array_document, consolidate, group_document, strict_attributes
from zarrstack.core.chunk_keys_v3 import KeyEncoding
from zarrstack.core.errors import MetadataError

LITTLE = CodecSpec("bytes", {"endian": "little"})


def layout(*codecs: CodecSpec, **changes: Any) -> Layout:
    return of_layout(LITTLE, *codecs, **{"fill": 7, "keys": KeyEncoding("v2", "/"), **changes})


def test_an_array_document_has_its_members_in_one_order() -> None:
    found = array_document(layout(dimension_names=("y", None)), {"a": 1})
    assert found == {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [4, 6],
        "data_type": "int32",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 6]}},
        "chunk_key_encoding": {"name": "v2", "configuration": {"separator": "/"}},
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        "fill_value": 7,
        "dimension_names": ["y", None],
        "attributes": {"a": 1},
    }
    assert list(found)[:2] == ["zarr_format", "node_type"]
    assert list(found)[-1] == "attributes"


@pytest.mark.parametrize(
    ("codec", "written"),
    [
        (CodecSpec("gzip", {"level": -1}), {"name": "gzip", "configuration": {"level": 6}}),
        (CodecSpec("crc32c"), {"name": "crc32c"}),
        (CodecSpec("numcodecs.adler32"), {"name": "numcodecs.adler32", "configuration": {}}),
        (
            CodecSpec("blosc", {"cname": "lz4", "clevel": 5}),
            {
                "name": "blosc",
                "configuration": {
                    "cname": "lz4",
                    "clevel": 5,
                    "shuffle": "shuffle",
                    "typesize": 4,
                    "blocksize": 0,
                },
            },
        ),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_codecs_are_written_as_every_reader_takes_them(codec: CodecSpec, written: Any) -> None:
    assert array_document(layout(codec), {})["codecs"][1] == written


def test_a_0d_array_has_no_dimension_names() -> None:
    assert "dimension_names" not in array_document(layout(shape=(), chunks=(), dimension_names=()), {})


# ----- attributes


@given(st.dictionaries(st.text(), json_values(), max_size=3))
def test_strict_attributes_are_strict_json_and_nothing_else_changes(attributes: dict[str, Any]) -> None:
    strict, problems = strict_attributes(attributes)
    text = json.dumps(strict, allow_nan=False)
    words = {"NaN": "NaN", "Infinity": "Infinity", "-Infinity": "-Infinity"}
    loose = json.loads(json.dumps(attributes), parse_constant=words.__getitem__)
    assert json.loads(text) == loose
    assert len(problems) == non_finite(attributes)


def non_finite(value: Any) -> int:
    if isinstance(value, dict | list):
        return sum(map(non_finite, value.values() if isinstance(value, dict) else value))
    return isinstance(value, float) and value - value != 0


def test_each_place_is_named_as_a_json_pointer() -> None:
    attributes = {"a/b": [1.0, {"~": float("-inf")}], "c": float("nan"), "d": "NaN"}
    strict, problems = strict_attributes(attributes)
    assert strict == {"a/b": [1.0, {"~": "-Infinity"}], "c": "NaN", "d": "NaN"}
    assert [(problem.found or "").partition(":")[0] for problem in problems] == ["/a~1b/1/~0", "/c"]
    assert {problem.severity for problem in problems} == {"note"}


# ----- consolidated metadata


def example_tree() -> dict[str, Any]:
    """Names chosen so that sorting by letters or folded case would part siblings."""
    array = array_document(layout(), {"x": 1})
    groups = ("", "A", "a", "a-b", "a/deep", "a/deep/deeper", "empty")
    arrays = ("top", "A/x", "A/y", "a/x", "a/z", "a-b/x", "a/deep/x", "a/deep/deeper/x")
    return {
        **dict.fromkeys(reversed(arrays), array),
        **{path: group_document({"path": path}) for path in reversed(groups)},
    }


def write(root: Path, documents: dict[str, Any]) -> None:
    for path, content in documents.items():
        (root / path).mkdir(parents=True, exist_ok=True)
        (root / path / "zarr.json").write_bytes(document(content))


def below(group: Any) -> set[str]:
    return {name for name, _ in group.members(max_depth=None)}


def test_zarr_reads_every_node_from_the_root_document_alone(tmp_path: Path) -> None:
    import zarr

    documents = example_tree()
    write(tmp_path, {**documents, "": consolidate(documents)})
    for path in documents:
        if path:
            (tmp_path / path / "zarr.json").unlink()
    group = zarr.open_consolidated(tmp_path, zarr_format=3)
    assert below(group) == {path for path in documents if path}
    assert below(group["a"]) == {"deep", "deep/deeper", "deep/deeper/x", "deep/x", "x", "z"}
    assert below(group["empty"]) == set()
    assert group["a/deep"].attrs["path"] == "a/deep"
    assert group["a/deep/deeper/x"].metadata.fill_value == 7


@pytest.mark.filterwarnings("ignore:Consolidated metadata is currently not part:UserWarning")
def test_it_says_what_zarr_itself_would(tmp_path: Path) -> None:
    import zarr

    documents = example_tree()
    write(tmp_path, documents)
    zarr.consolidate_metadata(tmp_path, zarr_format=3)
    theirs = json.loads((tmp_path / "zarr.json").read_text())["consolidated_metadata"]
    ours = consolidate(documents)["consolidated_metadata"]
    assert {key: ours[key] for key in ("kind", "must_understand")} == {
        "kind": "inline",
        "must_understand": False,
    }
    assert ours.keys() == theirs.keys()
    assert ours["metadata"].keys() == theirs["metadata"].keys()
    for path, mine in ours["metadata"].items():
        other = theirs["metadata"][path]
        assert mine.get("consolidated_metadata") == other.get("consolidated_metadata")
        assert mine["attributes"] == other["attributes"]


def test_consolidating_twice_equals_once() -> None:
    once = {**example_tree(), "": consolidate(example_tree())}
    assert consolidate(once) == once[""]


@pytest.mark.parametrize("documents", [{}, {"": {"node_type": "array"}}])
def test_only_a_root_that_is_a_group_is_consolidated(documents: Any) -> None:
    with pytest.raises(MetadataError):
        consolidate(documents)


# `--set objects=json`: different values of an array have different JSON text.


NAN = float("nan")
VALUES: list[Any] = [
    NAN, "NaN", float("inf"), "Infinity", -float("inf"), b"ab", "YWI=", None, "null", 1, "1", 1.5, True,
    {"a": NAN}, {"a": "NaN"}, {"$float": "NaN"}, {"$bytes": "YWI="}, {"$object": {}},
    {"$object": {"$float": "NaN"}}, [NAN], ["NaN"], [1, 2], b"", "",
]  # fmt: skip
MORE: list[Any] = [
    1 + 2j, np.complex64(1), [1.0, 0.0], np.datetime64(5, "s"), np.timedelta64(5, "s"), 5, "NaT",
    np.timedelta64(5, "ms"), np.datetime64("NaT", "s"), np.longdouble("1.5"), np.float64(NAN),
    np.array([NAN]), np.void(b"ab"),
]  # fmt: skip
TWINS = [(NAN, np.float64(NAN)), ([NAN], np.array([NAN])), (b"ab", np.void(b"ab"))]
"""The same value, as Python and as numpy."""


def text(value: Any) -> str:
    return json.dumps(tagged_form(value), allow_nan=False)


def test_different_values_have_different_text() -> None:
    values = VALUES + MORE
    for one, other in itertools.combinations(values, 2):
        same = any(one is a and other is b or repr((one, other)) == repr((a, b)) for a, b in TWINS)
        assert (text(one) == text(other)) == same, (one, other)
        assert matches_json_text(text(one), other, tagged=True) == same, (one, other)
    assert all(matches_json_text(text(value), value, tagged=True) for value in values)


def migrated(root: Path, codec: Any, chunk: bytes, shape: int, **members: Any) -> tuple[list[str], str]:
    document = {
        **array(), "shape": [shape + 1], "chunks": [shape], "dtype": "|O", "fill_value": None,
        "compressor": None, "filters": [codec], **members,
    }  # fmt: skip
    tree(root / "source", {".zarray": document, "0": chunk})
    recipe = zarrlift.Recipe(base=zarrlift.ArrayRecipe(objects="json", allow_pickle=True))
    outcome = zarrlift.migrate(root / "source", root / "out", recipe=recipe, verify="full")
    assert outcome.ok, outcome.problems
    values = zarr.open_array(root / "out", mode="r")[:].astype(object).tolist()
    return values[:shape], values[shape]


def as_objects(values: list[Any]) -> np.ndarray[Any, Any]:
    result = np.empty(len(values), dtype=object)
    for index, value in enumerate(values):
        result[index] = value
    return result


def test_msgpack_pickle_and_json_keep_them_apart(tmp_path: Path) -> None:
    four = [NAN, "NaN", b"ab", "YWI="]
    texts = ['{"$float": "NaN"}', '"NaN"', '{"$bytes": "YWI="}', '"YWI="']
    msgpack = numcodecs.MsgPack()
    found, fill = migrated(tmp_path / "m", msgpack.get_config(), bytes(msgpack.encode(as_objects(four))), 4)
    assert (found, fill) == (texts, "null")
    chunk = pickle.dumps(as_objects(four), protocol=4)
    assert migrated(tmp_path / "p", {"id": "pickle", "protocol": 4}, chunk, 4)[0] == texts
    codec = numcodecs.JSON()
    chunk = bytes(codec.encode(as_objects([NAN, "NaN", {"$float": "NaN"}])))
    found, fill = migrated(tmp_path / "j", codec.get_config(), chunk, 3, fill_value={"$x": 1})
    assert found == ['{"$float": "NaN"}', '"NaN"', '{"$object": {"$float": "NaN"}}']
    assert fill == '{"$object": {"$x": 1}}'


def test_arrays_of_numbers_need_no_names_of_types(tmp_path: Path) -> None:
    codec = numcodecs.VLenArray("<f8")
    chunk = bytes(codec.encode(as_objects([np.array([1.0, NAN]), np.array([])])))
    found, _ = migrated(tmp_path, codec.get_config(), chunk, 2)
    assert found == ['[1.0, "NaN"]', "[]"]


@pytest.mark.parametrize("value", [{1: 2}, {"a": {1: 2}}, {1, 2}])
def test_what_json_cannot_express_is_refused(value: Any) -> None:
    from zarrstack.core.errors import CastError

    with pytest.raises(CastError, match="no JSON form"):
        tagged_form(value)

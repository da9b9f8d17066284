"""`--set objects=json`: different values of an array have different JSON text."""

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
from tests.support.v2_trees import array, tree

import zarrlift
from zarrlift.core.data_types.compare import matches_json_text
from zarrlift.core.data_types.object_values import tagged_form

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

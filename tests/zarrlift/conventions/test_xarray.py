"""xarray: `_ARRAY_DIMENSIONS` becomes `dimension_names`, a fill value that masked becomes `_FillValue`."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import xarray
from hypothesis import example, given
from hypothesis import strategies as st
from numcodecs import VLenUTF8
from tests.support.chances import examples
from tests.support.documents import layout
from tests.support.v2_trees import GROUP, array, tree

import zarrlift
from zarrlift.archive.nodes import Archive, ArrayNode, SourceDocument
from zarrlift.conventions import Change
from zarrlift.conventions.apply import apply_conventions
from zarrlift.core.data_types.v3 import DataType
from zarrlift.recipe.recipe import ArrayRecipe, Recipe
from zarrstack.core.errors import Problem

NAN = float("nan")
NAMED = {"_ARRAY_DIMENSIONS": ["x"]}


def node(
    ndim: int,
    attributes: dict[str, Any],
    present: Any = None,
    *,
    data_type: str | dict[str, Any] = "int8",
    fill: Any = 0,
    stated: Any = ...,
) -> ArrayNode:
    """An array; `stated` is what its document says of the fill value, `fill` what that means."""
    document = json.dumps({"fill_value": fill if stated is ... else stated}).encode()
    shape = (2,) * ndim
    of = DataType.from_json(data_type)
    return ArrayNode(
        path="a",
        attributes=attributes,
        layout=layout(shape=shape, chunks=shape, data_type=of, fill=fill, dimension_names=present),
        fill_is_null=stated is None,
        documents=(SourceDocument(key="a/.zarray", content=document),),
    )


def recognise(node: ArrayNode, **recipe: Any) -> tuple[Change, tuple[Problem, ...]]:
    """What becomes of an array that is an archive of its own, and what is said of it."""
    archive = Archive(url="x", format="zarr2", nodes=(node,))
    applied = apply_conventions(archive, None, Recipe(base=ArrayRecipe(**recipe)))
    return applied.change(node.path), applied.problems_of(node.path)


# ----- names


@pytest.mark.parametrize("names", [["y", "x"], ["y", None], [None, None], ["x", "x"]])
def test_one_name_or_null_per_dimension_moves(names: list[Any]) -> None:
    change, told = recognise(node(2, {"units": "m", "_ARRAY_DIMENSIONS": names}, stated=None))
    assert change.attributes == {"units": "m"}
    assert change.dimension_names == tuple(names)
    assert told == ()


@pytest.mark.parametrize("names", ["yx", ["y"], ["z", "y", "x"], ["y", 1], [["y"], "x"], None, {"y": 1}])
def test_anything_else_stays_an_attribute_with_a_warning(names: Any) -> None:
    change, told = recognise(node(2, {"_ARRAY_DIMENSIONS": names}))
    assert change == Change()
    assert [problem.severity for problem in told] == ["warning"]


def test_arrays_with_equal_names_have_one_layout_so_that_many_take_little_memory(tmp_path: Path) -> None:
    document = array(shape=[2], chunks=[2])
    entries = {f"{name}/.zarray": document for name in "ab"}
    entries |= {f"{name}/.zattrs": {**NAMED, "units": name} for name in "ab"}
    tree(tmp_path / "old.zarr", {".zgroup": GROUP, **entries})
    first, second = zarrlift.plan(tmp_path / "old.zarr", tmp_path / "new.zarr").arrays
    assert first.move.destination.dimension_names == ("x",)
    assert first.move.destination is second.move.destination


def test_a_0d_array_loses_its_empty_list() -> None:
    change, told = recognise(node(0, {"_ARRAY_DIMENSIONS": []}, stated=None))
    assert (change.attributes, told) == ({}, ())


def test_other_names_that_the_array_has_already_win() -> None:
    change, told = recognise(node(2, {"_ARRAY_DIMENSIONS": ["y", "x"]}, ("lat", "lon")))
    assert change == Change()
    assert [problem.severity for problem in told] == ["warning"]


@pytest.mark.parametrize("present", [("y", "x"), (None, None)])
def test_the_same_names_or_none_do_not_stand_in_the_way(present: Any) -> None:
    change, told = recognise(node(2, {"_ARRAY_DIMENSIONS": ["y", "x"]}, present, stated=None))
    assert (change.attributes, change.dimension_names, told) == ({}, ("y", "x"), ())


@pytest.mark.parametrize(
    ("attributes", "conventions"),
    [({"_ARRAY_DIMENSIONS": ["y", "x"]}, "none"), ({"units": "m"}, "auto"), ({}, "auto")],
)
def test_without_the_attribute_or_the_wish_nothing_changes(attributes: Any, conventions: str) -> None:
    assert recognise(node(2, attributes), conventions=conventions) == (Change(), ())


# ----- masks


@pytest.mark.parametrize(
    ("data_type", "fill", "expected"),
    [
        ("int16", -32768, {"_FillValue": -32768}),
        ("uint64", 2**64 - 1, {"_FillValue": 2**64 - 1}),
        ("bool", False, {"_FillValue": False}),
        ("float64", "NaN", {"_FillValue": "AAAAAAAA+H8="}),
        ("float32", 0.0, {"_FillValue": "AAAAAAAAAAA="}),
        ("float16", "-Infinity", {"_FillValue": "AAAAAAAA8P8="}),
        ("complex64", [0.0, 1.0], {"_FillValue": ["AAAAAAAAAAA=", "AAAAAAAA8D8="]}),
        ("string", "", {"missing_value": ""}),
        ("string", "n/a", {"missing_value": "n/a"}),
    ],
)
def test_a_fill_value_that_masked_is_written_as_xarray_reads_it(
    data_type: str, fill: Any, expected: dict[str, Any]
) -> None:
    change, told = recognise(node(1, {**NAMED, "units": "m"}, data_type=data_type, fill=fill))
    assert change.attributes == {"units": "m", **expected}
    assert told == ()


BYTES = {"name": "null_terminated_bytes", "configuration": {"length_bytes": 3}}


def test_a_cast_changes_the_form() -> None:
    change, _ = recognise(node(1, NAMED, data_type="int16", fill=-1), dtype="float32")
    assert change.attributes == {"_FillValue": "AAAAAAAA8L8="}


@pytest.mark.parametrize(
    ("data_type", "dtype", "stated", "form"),
    [("int16", "float32", [-1], "AAAAAAAA8L8="), ("float64", "int32", -1.0, -1)],
)
def test_a_cast_changes_the_form_of_an_attribute_that_alone_masks(
    data_type: str, dtype: str, stated: Any, form: Any
) -> None:
    array = node(1, {**NAMED, "_FillValue": stated}, data_type=data_type, fill=0, stated=None)
    change, told = recognise(array, dtype=dtype)
    assert (change.attributes, told) == ({"_FillValue": form}, ())


@pytest.mark.parametrize(
    ("data_type", "fill", "there"),
    [("float32", -1.0, -1.0), ("float64", "NaN", "NaN"), ("int8", 7, [7])],
)
def test_an_attribute_that_says_the_same_takes_the_new_form(data_type: str, fill: Any, there: Any) -> None:
    attributes = {**NAMED, "_FillValue": there}
    change, told = recognise(node(1, attributes, data_type=data_type, fill=fill))
    assert change.attributes is not None
    assert change.attributes["_FillValue"] != there
    assert (change.replaced, told) == (("/_FillValue",), ())


def test_an_attribute_that_says_otherwise_gives_way_with_a_warning() -> None:
    change, told = recognise(node(1, {**NAMED, "_FillValue": -9}, fill=0))
    assert change.attributes == {"_FillValue": 0}
    assert [(problem.severity, problem.found, problem.expected) for problem in told] == [
        ("warning", "-9", "0")
    ]


def test_bytes_are_masked_no_more_which_is_said() -> None:
    change, told = recognise(node(1, NAMED, data_type=BYTES, fill=""))
    assert change.attributes == {}
    assert [problem.severity for problem in told] == ["warning"]


@pytest.mark.parametrize("missing", [-9, True, [-9, "x"], {"a": 1}])
def test_numbers_beside_texts_would_be_texts_so_the_first_attribute_is_kept(missing: Any) -> None:
    attributes = {**NAMED, "_FillValue": "x", "missing_value": missing}
    change, told = recognise(node(1, attributes, data_type="int16", stated=None))
    assert change.attributes == {"missing_value": missing}
    assert [problem.severity for problem in told] == ["warning"]


@pytest.mark.parametrize(
    ("data_type", "missing", "left"),
    [
        ("int8", NAN, {}),
        ("int8", [NAN, 3], {"missing_value": [3]}),
        ("float32", [NAN], {}),
        ("float32", NAN, ...),
    ],
)
def test_nan_is_removed_where_the_text_of_strict_json_would_mask(
    data_type: Any, missing: Any, left: Any
) -> None:
    change, _ = recognise(node(1, {**NAMED, "missing_value": missing}, data_type=data_type, stated=None))
    assert change.attributes == ({"missing_value": missing} if left is ... else left)


def test_objects_that_become_text_are_masked_like_text() -> None:
    objects = node(1, {**NAMED, "_FillValue": "x"}, data_type="object", stated=None, fill=None)
    assert recognise(objects)[0].attributes == {"missing_value": "x"}
    objects = node(1, {**NAMED, "_FillValue": "y"}, data_type="object", fill="x")
    assert recognise(objects)[0].attributes == {"missing_value": "x"}


STATED = ["-", "-9", 9, 300, 2.5, True, "NaN", [9], ["-"], [1, 2], "AAAAAAAAIsA=", "", -1]


# ----- whatever an archive says


TYPES: dict[str, tuple[list[Any], list[Any]]] = {
    "|i1": ([1, -9, 3], [None, 0, -9]),
    "<i4": ([1, -999, 2**31 - 1], [None, 0, -999]),
    "|u1": ([1, 255, 9], [None, 0, 255]),
    "<u8": ([1, 9, 2**53 + 1], [None, 9]),
    "<f4": ([1.0, -9.0, NAN], [None, -9.0, "NaN"]),
    "<f8": ([1.0, -9.0, NAN], [None, 0.0, -9.0]),
    "|b1": ([True, False, True], [None, False, True]),
    "<c8": ([1 + 1j, -9, 0], [None, [0.0, 0.0]]),
    "|S1": ([b"a", b"-", b"c"], [None, ""]),
    "<U4": (["a", "-9", ""], [None, "", "-9", "a"]),
    "|O": (["a", "-9", ""], [None, 0, "-9", "a", NAN]),
    "<M8[s]": ([1, 2, -(2**63)], [None, 0]),
    "<m8[s]": ([1, 9, 3], [None, 9]),
}
SAID = st.sampled_from(
    [
        *STATED,
        -9,
        -9.0,
        -999,
        0,
        3,
        1e40,
        2**40,
        False,
        NAN,
        {"a": 1},
        "a",
        "long",
        [],
        [NAN, 3],
        [-9, 3],
        ["a", ""],
    ]
)
ATTRIBUTES = st.fixed_dictionaries(
    {},
    optional={
        "_FillValue": SAID,
        "missing_value": SAID,
        "scale_factor": st.sampled_from([0.5, 2]),
        "_Unsigned": st.sampled_from(["true", "false"]),
        "_Encoding": st.just("utf-8"),
        "dtype": st.just("bool"),
        "units": st.sampled_from(["days since 2000-01-01", "K"]),
    },
)
ARRAYS = st.sampled_from([(dtype, fill) for dtype, (_, fills) in TYPES.items() for fill in fills])


def shown_by_xarray(place: Path, version: int) -> Any:
    """The values of each variable, or the error."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            dataset = xarray.open_zarr(place, chunks=None, consolidated=False, zarr_format=version)
            return {name: repr(each.values.tolist()) for name, each in dataset.variables.items()}
    except Exception as error:  # noqa: BLE001 - whatever it raises
        return error


def of(dtype: str, fill: Any, **attributes: Any) -> Any:
    """An array that is tried whatever is drawn."""
    return (dtype, fill), attributes


ALWAYS = [
    *(of(dtype, None, _FillValue=said) for dtype in ("<f8", "|S1", "<m8[s]") for said in (*STATED, None)),
    *(of(dtype, None, _FillValue=said) for dtype in ("<i4", "|b1") for said in (2.5, 300, 2**40, None)),
    *(of(dtype, -9, _FillValue=said) for dtype in ("|i1", "<f4") for said in (-9, -9.0, [-9], "-9", 7)),
    *(of("<i4", None, _FillValue=[1, -999], missing_value=said) for said in (-9, [3, 1.5])),
    *(of("<U4", "-9", missing_value=said) for said in ("a", ["a", "-9"], 300, ["a", 3])),
    of("|S1", None, _FillValue="a", missing_value="-"),
    of("<f4", None, _FillValue="-9", missing_value=["-9", "x"]),
    of("|u1", 255, _Unsigned="false"),
]


@examples(50)
@example(drawn=ALWAYS)
@given(drawn=st.lists(st.tuples(ARRAYS, ATTRIBUTES), min_size=6, max_size=6))
def test_what_xarray_opens_before_it_opens_after_and_masks_the_same(drawn: Any) -> None:
    with TemporaryDirectory() as folder:
        source, target = Path(folder) / "a.zarr", Path(folder) / "b.zarr"
        files: dict[str, Any] = {".zgroup": GROUP}
        for number, ((dtype, fill), attributes) in enumerate(drawn):
            values = np.array(TYPES[dtype][0], object if dtype == "|O" else None)
            raw = bytes(VLenUTF8().encode(values)) if dtype == "|O" else values.astype(dtype).tobytes()
            filters = [{"id": "vlen-utf8"}] if dtype == "|O" else None
            document = array(shape=[3], chunks=[3], dtype=dtype, fill_value=fill, filters=filters)
            files |= {f"{number}/.zgroup": GROUP, f"{number}/v/.zarray": document, f"{number}/v/0": raw}
            files[f"{number}/v/.zattrs"] = {**NAMED, **attributes}
        tree(source, files)
        outcome = zarrlift.migrate(source, target)
        assert outcome.ok, outcome
        report = zarrlift.verify(source, target, full=True)
        assert report.ok, report
        for number, ((dtype, fill), _) in enumerate(drawn):
            before = shown_by_xarray(source / str(number), 2)
            after = shown_by_xarray(target / str(number), 3)
            # No attribute of v3 masks bytes as a fill value does.
            if not isinstance(before, Exception) and (dtype, fill) != ("|S1", ""):
                assert after == before, drawn[number]
            assert isinstance(before, Exception) or not isinstance(after, Exception)

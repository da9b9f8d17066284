"""Whatever an archive's attributes hold, a convention answers, and never half-converts."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.chances import json_values
from tests.support.documents import layout
from tests.zarrlift.conventions.trees import applied, archive, array
from xarray.backends.zarr import FillValueCoder

from zarrlift.archive.nodes import Archive, ArrayNode, GroupNode, SourceDocument
from zarrlift.conventions.apply import apply_conventions
from zarrlift.conventions.xarray import encoded
from zarrlift.core.data_types.v3 import DataType, fill_from_json, fill_to_json
from zarrlift.recipe.recipe import Recipe
from zarrlift.storage.local.storage import LocalStorage
from zarrlift.verification.documents import lost_values
from zarrstack.core.json_text import canonical

WORDS = ("0", "1", "x", "y", "0.4", "0.3", "", "..", "../im/0", "labels", "é", "scale")
KEYS = (
    "version axes name datasets path coordinateTransformations type scale wells images rowIndex ome".split()
)
JSON = json_values(WORDS, keys=KEYS, leaves=12)
NEARLY = st.fixed_dictionaries(
    {},
    optional={
        "version": JSON | st.just("0.4"),
        "axes": JSON | st.just([{"name": "y"}, {"name": "x"}]),
        "datasets": JSON
        | st.just([{"path": "0"}])
        | st.lists(st.fixed_dictionaries({"path": JSON}), max_size=2),
    },
)
OTHERS = ("plate", "well", "omero", "image-label", "bioformats2raw.layout", "series", "ome", "mine")
GROUP = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(OTHERS, JSON),
        "multiscales": JSON | st.lists(NEARLY, max_size=3),
        "labels": JSON | st.lists(st.sampled_from(WORDS), max_size=2),
    },
)


@given(GROUP, GROUP, GROUP)
def test_any_groups_are_lifted_left_or_refused(
    image: Mapping[str, Any], labels: Mapping[str, Any], xml: Mapping[str, Any]
) -> None:
    groups = {"": xml, "im": image, "im/labels": labels, "OME": xml}
    before = copy.deepcopy(groups)
    found = applied(archive(groups, array("im/0", 2), array("im/1", 3)), files=("OME/a.xml",))
    assert repr(groups) == repr(before)
    for path, attributes in groups.items():
        change = found.change(path).attributes
        refused = any(problem.severity == "refusal" for problem in found.problems_of(path))
        if change is None:
            continue
        assert not refused
        assert change["ome"]["version"] == "0.5"
        moved = set(change["ome"]) - {"version"}
        assert moved <= set(attributes)
        assert set(change) == (set(attributes) - moved) | {"ome"}
        assert lost_values(attributes, dict(change), None, found.change(path).replaced) == []


@example({"_ARRAY_DIMENSIONS": ["x"], "_FillValue": False}, "int16", False)
@example({"_ARRAY_DIMENSIONS": ["x"], "_FillValue": []}, "int16", False)
@example({"_ARRAY_DIMENSIONS": ["x"], "_FillValue": [3.4028235677973366e38]}, "float32", True)
@example({"_ARRAY_DIMENSIONS": ["x"], "_FillValue": [3.4028235677973366e38]}, "float32", False)
@given(
    st.fixed_dictionaries(
        {"_ARRAY_DIMENSIONS": st.just(["x"]) | JSON},
        optional={"_FillValue": JSON, "missing_value": JSON, "units": JSON},
    ),
    st.sampled_from(["int16", "float32", "complex64", "bool", "string"]),
    st.booleans(),
)
def test_any_attributes_of_an_array_are_answered(attributes: dict[str, Any], name: str, null: bool) -> None:
    template = array("a", 1)
    data_type = DataType(name)
    fill: Any = "" if name == "string" else fill_to_json(np.zeros((), data_type.numpy)[()], data_type)
    layout = template.layout
    assert layout is not None
    changed = replace(layout, data_type=data_type, fill_value=fill)
    node = ArrayNode(path="a", attributes=attributes, layout=changed, fill_is_null=null)
    found = applied(archive({}, node), "xarray")
    change = found.change("a")
    if change.attributes is not None:
        kept = {key for key in attributes if key != "_ARRAY_DIMENSIONS"}
        assert kept - set(change.attributes) <= {"_FillValue"}
        labels = list(change.dimension_names or [None])
        assert lost_values(attributes, dict(change.attributes), labels, change.replaced) == []


FLOATS = {"float16": 16, "float32": 32, "float64": 64}


@given(st.data())
@pytest.mark.parametrize("name", [*FLOATS, "complex64", "int8", "uint64", "bool"])
def test_xarray_reads_the_mask_as_the_fill_value(name: str, data: Any) -> None:
    data_type = DataType(name)
    if name in FLOATS:
        value = data.draw(st.floats(width=FLOATS[name]))
    elif name == "complex64":
        value = complex(data.draw(st.floats(width=32)), data.draw(st.floats(width=32)))
    elif name == "bool":
        value = data.draw(st.booleans())
    else:
        limits = np.iinfo(data_type.numpy)
        value = data.draw(st.integers(int(limits.min), int(limits.max)))
    fill = fill_from_json(fill_to_json(data_type.numpy.type(value), data_type), data_type)
    read = FillValueCoder.decode(encoded(fill, data_type), data_type.numpy)
    bits = (
        np.asarray(read, dtype=data_type.numpy).tobytes(),
        np.asarray(fill, dtype=data_type.numpy).tobytes(),
    )
    nan = name not in ("bool", "int8", "uint64") and (
        math.isnan(complex(read).real) or math.isnan(complex(read).imag)
    )
    assert bits[0] == bits[1] or nan


# Whatever hdmf-zarr's attributes hold: problems are said, nothing is raised, nothing half-converted.

plain = json_values(["object", "region", "."])
places = st.sampled_from(["/", "", "/a", "/a/b", "/a/x", "a//b/", "/nowhere", "/../a", None, 7])
sources = st.sampled_from([".", "", None, "../other.zarr", "s3://bucket/x", 3])
reference = st.fixed_dictionaries(
    {"source": sources, "path": places}, optional={"object_id": plain, "region": plain}
)
attribute = st.one_of(
    plain, st.fixed_dictionaries({"zarr_dtype": plain, "value": st.one_of(reference, plain)})
)
link = st.one_of(
    plain,
    st.fixed_dictionaries({"name": st.sampled_from(["x", "y", "b", 1]), "path": places, "source": sources}),
)
dtype = st.one_of(
    st.sampled_from(["int64", "scalar", "object", "region", "str"]),
    plain,
    st.lists(st.fixed_dictionaries({"name": st.text(max_size=3), "dtype": plain}), max_size=3),
)
group = st.fixed_dictionaries(
    {},
    optional={"zarr_link": st.one_of(plain, st.lists(link, max_size=3)), ".specloc": plain, "to": attribute},
)
hdmf_array = st.fixed_dictionaries(
    {}, optional={"zarr_dtype": dtype, "to": attribute, "_ARRAY_DIMENSIONS": plain}
)

LAYOUT = layout(shape=(4,), chunks=(4,), data_type="int64")


@given(group, group, hdmf_array, hdmf_array)
def test_nothing_is_raised_and_nothing_half_converted(
    root: dict[str, Any], inner: dict[str, Any], one: dict[str, Any], other: dict[str, Any]
) -> None:
    content = json.dumps({"dtype": "<i8"}).encode()
    nodes = (
        GroupNode(path="", attributes=root),
        GroupNode(path="a", attributes=inner),
        *(
            ArrayNode(
                path=path,
                attributes=said,
                layout=LAYOUT,
                documents=(SourceDocument(key=path, content=content),),
            )
            for path, said in (("a/b", one), ("a/x", other))
        ),
    )
    archive = Archive(url="x", format="zarr2", nodes=nodes)
    applied = apply_conventions(archive, LocalStorage("/nowhere"), Recipe())
    refused = {path for path, told in applied.problems.items() if any(p.severity == "refusal" for p in told)}
    if refused:
        assert refused == {node.path for node in nodes}
        return
    if not any(seen.name == "hdmf" for seen in applied.seen):
        return
    for node in nodes:
        attributes = applied.change(node.path).attributes
        assert attributes is not None
        assert "zarr_link" not in attributes
        assert "zarr_dtype" not in attributes or not isinstance(node, ArrayNode)
        assert canonical(dict(attributes))

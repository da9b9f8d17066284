"""Whatever hdmf-zarr's attributes hold: problems are said, nothing is raised, nothing half-converted."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.support.documents import layout

from zarrlift.archive.nodes import Archive, ArrayNode, GroupNode, SourceDocument
from zarrlift.conventions.apply import apply_conventions
from zarrlift.recipe.recipe import Recipe
from zarrlift.storage.local.storage import LocalStorage
from zarrstack.core.json_text import canonical

plain = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.text(max_size=5),
        st.sampled_from(["object", "region", "."]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
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
array = st.fixed_dictionaries({}, optional={"zarr_dtype": dtype, "to": attribute, "_ARRAY_DIMENSIONS": plain})

LAYOUT = layout(shape=(4,), chunks=(4,), data_type="int64")


@given(group, group, array, array)
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

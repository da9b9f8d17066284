"""What a job keeps of each node says the same as the node, whatever is shared between them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.unpacking import unpacked
from tests.support.v2_trees import GROUP, array, tree

import zarrlift
from zarrlift.jobs.ledger.plan_rows import node_rows
from zarrlift.planning.plans import ArrayPlan


def alike(root: Path) -> Path:
    """Arrays that share a layout, attributes, both or neither; a group, and a node that is refused."""
    flat, other = array(), array(shape=[8, 6])
    units, more = {"units": "m"}, {"units": "m", "\u00e4\ud800": [1.0, None]}
    tree(
        root,
        {
            ".zgroup": GROUP,
            ".zattrs": units,
            "bad/.zarray": array(dtype="<x9"),
            **{f"a{n}/.zarray": other if n == 4 else flat for n in range(6)},
            **{f"a{n}/.zattrs": more if n == 3 else units for n in range(1, 5)},
        },
    )
    return root


@pytest.mark.parametrize("name", ["zarr_v2/zarr-2.18/dtypes.zarr", "n5/java-3.5.1/multiscale.n5", None])
def test_rows_of_a_job_hold_each_node_and_the_order_of_its_document(name, tmp_path):
    source = alike(tmp_path / "a.zarr") if name is None else unpacked(name)
    nodes = zarrlift.plan(source, tmp_path / "out.zarr").nodes
    assert nodes
    for node, (path, kind, text, state) in zip(nodes, node_rows(nodes), strict=True):
        data = json.loads(text)
        assert (path, data) == (node.path, json.loads(json.dumps(node.to_json())))
        assert (state == "refused") == (kind == "refusal")
        if isinstance(node, ArrayPlan):
            assert list(data["document"].items()) == list(json.loads(json.dumps(node.document)).items())

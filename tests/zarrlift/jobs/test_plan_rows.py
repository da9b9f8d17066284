"""What a job keeps of each node says the same as the node, whatever is shared between them."""

from __future__ import annotations

import json
from operator import itemgetter
from pathlib import Path

import pytest
from tests.support.unpacking import unpacked
from tests.support.v2_trees import GROUP, array, tree

import zarrlift
from zarrlift.jobs.ledger.ledger import Job
from zarrlift.jobs.ledger.plan_rows import PlanReader, node_rows
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
    rows = list(node_rows(nodes))
    reader = PlanReader(common for _, common in rows if common is not None)
    for node, ((path, kind, text, state, *_), _) in zip(nodes, rows, strict=True):
        made = reader.node(kind, text)
        assert (path, made.to_json()) == (node.path, json.loads(json.dumps(node.to_json())))
        assert (state == "refused") == (kind == "refusal")
        if isinstance(node, ArrayPlan):
            assert list(made.document.items()) == list(json.loads(json.dumps(node.document)).items())


def test_what_arrays_have_in_common_is_stored_once(tmp_path):
    """Five arrays of one layout, and one of another; attributes belong to each."""
    plan = zarrlift.plan(alike(tmp_path / "a.zarr"), tmp_path / "out.zarr")
    assert len(plan.arrays) == 6
    common = [text for _, text in map(itemgetter(1), filter(itemgetter(1), node_rows(plan.nodes)))]
    assert len(common) == 2
    assert "units" not in "".join(common)


def test_arrays_read_from_a_job_share_their_layouts(tmp_path):
    plan = zarrlift.plan(alike(tmp_path / "a.zarr"), tmp_path / "out.zarr")
    with Job.create(tmp_path / "job.db", plan) as job:
        stored = job.plan()
    assert stored == plan
    assert len({id(array.source) for array in stored.arrays}) == 2

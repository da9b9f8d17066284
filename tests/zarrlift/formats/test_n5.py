"""N5 containers: what is a dataset, what is a group, and what is said of the rest."""

from __future__ import annotations

import contextlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import zarr
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from tests.support.chances import examples, json_values
from tests.support.damaged_archives import copied
from tests.support.fixtures_index import archive
from tests.support.v2_trees import messages, n5, node, tree
from tests.zarrlift.storage.conftest import in_memory

import zarrlift
from zarrlift.archive.nodes import ArrayNode, GroupNode
from zarrlift.planning.planner import make_plan
from zarrlift.recipe.recipe import Recipe
from zarrstack.core.errors import ZarrstackError

DATASET = {
    "dimensions": [7, 5, 3],
    "blockSize": [4, 2, 2],
    "dataType": "uint16",
    "compression": {"type": "gzip", "useZlib": False, "level": -1},
}
ROOT = {"n5": "4.0.0"}


def dataset(*, without="", **changes):
    """An `attributes.json` that differs from a plain dataset's."""
    return {name: value for name, value in {**DATASET, **changes}.items() if name != without}


def read(root, entries, **options):
    """The archive that these files make."""
    return n5.read(tree(root, entries), **options)


def one(root, document, **options):
    """The array at the root that this document makes."""
    return node(read(root, {"attributes.json": document}, **options))


# ----- one dataset


PER_AXIS = {
    "resolution": [4.0, 4.0, 40.0],
    "pixelResolution": {"dimensions": [1, 1, 2], "unit": "nm"},
    "factors": [[1, 1, 1], [2, 2, 2]],
    "units": ["nm", "nm", "nm"],
}
OF_NO_AXIS = {
    "window": [0, 255],
    "name": "xyz",
    "flags": [True, False, True],
    "transform": {"axes": ["z", "y", "x"], "ordering": "C", "scale": [5.24, 4.0, 4.0]},
    "list": [],
}


def test_attributes_that_are_per_axis_stay_and_are_told(tmp_path):
    array = one(tmp_path, {**DATASET, **PER_AXIS, **OF_NO_AXIS})
    assert array.attributes == {**PER_AXIS, **OF_NO_AXIS}
    (note,) = array.problems
    assert (note.kind, note.severity) == ("axes", "note")
    assert note.found == "factors, pixelResolution, resolution, units"


def test_with_axes_kept_they_are_as_the_array_is(tmp_path):
    assert one(tmp_path, {**DATASET, **PER_AXIS}, axes="kept").problems == ()


def test_groups_have_them_too(tmp_path):
    entries = {
        "attributes.json": {**ROOT, "scales": [[1, 1], [2, 2]], "mine": [1, 2]},
        "a/attributes.json": DATASET,
    }
    group = node(read(tmp_path, entries))
    assert [(problem.kind, problem.found) for problem in group.problems] == [("axes", "scales")]


@pytest.mark.parametrize("member", ["dimensions", "blockSize", "dataType", "compression"])
def test_a_dataset_that_lost_a_member_is_a_broken_array_not_a_group(member, tmp_path):
    array = one(tmp_path, dataset(without=member))
    assert isinstance(array, ArrayNode)
    assert array.layout is None
    assert member in messages(array)
    assert {problem.key for problem in array.problems} == {"attributes.json"}


JSON = json_values(["uint8", "gzip", "lz4", "blosc", "raw"], keys=("type", "level", "blockSize", "x"))


@examples(160, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(
    st.dictionaries(st.sampled_from([*DATASET, "n5", "x"]), JSON, max_size=3),
    st.sampled_from(["kept", "reversed"]),
)
def test_nothing_escapes_whatever_a_document_holds(tmp_path, changes, axes):
    with contextlib.suppress(ZarrstackError):
        found = one(tmp_path, json.dumps(dataset(**changes)).encode(), axes=axes)
        if isinstance(found, ArrayNode):
            assert (found.layout is None) == found.refused


# ----- trees


def test_every_directory_is_a_group_whether_it_says_so_or_not(tmp_path):
    (tmp_path / "empty").mkdir()
    entries = {
        "attributes.json": {**ROOT, "title": "a"},
        "silent/inner/array/attributes.json": DATASET,
        "silent/inner/array/0/0/0": b"x",
        "spoken/attributes.json": {"comment": 1, "dataType": "uint16"},
    }
    archive = read(tmp_path, entries)
    assert [(type(found), found.path) for found in archive.nodes] == [
        (GroupNode, ""),
        (GroupNode, "empty"),
        (GroupNode, "silent"),
        (GroupNode, "silent/inner"),
        (ArrayNode, "silent/inner/array"),
        (GroupNode, "spoken"),
    ]
    assert node(archive).attributes == {"title": "a"}
    assert node(archive, "spoken").attributes == {"comment": 1, "dataType": "uint16"}
    assert [found.path for found in archive.nodes if isinstance(found, GroupNode) and found.implicit] == [
        "empty",
        "silent",
        "silent/inner",
    ]
    assert [document.key for document in node(archive, "spoken").documents] == ["spoken/attributes.json"]


def test_numbers_name_groups_and_datasets_as_well_as_blocks(tmp_path):
    archive = read(tmp_path, {"attributes.json": ROOT, "0/attributes.json": DATASET, "0/0/0/0": b"x",
                              "1/2/attributes.json": DATASET})  # fmt: skip
    assert {found.path: type(found) for found in archive.nodes} == {
        "": GroupNode,
        "0": ArrayNode,
        "1": GroupNode,
        "1/2": ArrayNode,
    }
    assert not any(found.refused for found in archive.nodes)


def test_a_broken_document_above_datasets_is_a_groups(tmp_path):
    archive = read(tmp_path, {"group/attributes.json": b"{", "group/a/attributes.json": DATASET})
    assert isinstance(node(archive, "group"), GroupNode)
    assert node(archive, "group").refused
    assert not node(archive, "group/a").refused


@pytest.mark.parametrize(
    ("version", "severity"),
    [
        ("4.0.0", None),
        ("1.0", None),
        ("3.1.2-SNAPSHOT", None),
        ("5.0.0", "refusal"),
        (4, "warning"),
        ("x", "warning"),
    ],
)
def test_the_version_counts_at_the_root(version, severity, tmp_path):
    entries = {"attributes.json": {"n5": version}, "a/attributes.json": {**DATASET, "n5": version}}
    archive = read(tmp_path, entries)
    assert [problem.severity for problem in node(archive).problems] == (
        [] if severity is None else [severity]
    )
    assert node(archive, "a").problems == ()


# ----- what only a listing shows


def planned(root, entries):
    """The plan for these files as a copy."""
    storage = tree(root, entries)
    return make_plan(n5.read(storage), storage, Recipe(), destination="memory://nowhere")


@pytest.mark.parametrize(
    ("changes", "files", "key"),
    [
        ({}, {"a/0/0/0/x": b""}, "a/0/0/0"),
        ({}, {"a/0": b""}, "a/0"),
        ({"dimensions": [], "blockSize": []}, {"a/0/0/0": b""}, "a/0"),
    ],
    ids=["a folder for a block", "a file for a row", "no axes, and blocks of three"],
)
def test_what_stands_in_the_place_of_a_block_is_refused_not_read_as_zeros(changes, files, key, tmp_path):
    plan = planned(tmp_path, {"a/attributes.json": dataset(**changes), **files})
    (refusal,) = plan.refusals
    assert (refusal.path, refusal.problems[0].key) == ("a", key)


def test_blocks_outside_the_grid_are_strays(tmp_path):
    plan = planned(
        tmp_path, {"a/attributes.json": DATASET, "a/0/0/0": b"x", "a/2/0/0": b"x", "a/0/3/0": b"x"}
    )
    (note,) = plan.arrays[0].problems
    assert note.severity == "note"
    assert (note.message, note.found) == ("objects of no chunk are not copied", "2: '0/3', '2'")
    assert plan.arrays[0].chunks == 1


# N5 arrays whose blocks hold no values: the plan says so, whether their document does or not.
#
# Java writes a block whose payload has another length than the block with mode 1, and nothing in
# `attributes.json` tells of it; Paintera adds `isLabelMultiset` to what it writes so.


MODES = archive("n5/java-3.5.1/modes").path
LABELS = archive("n5/java-3.5.1/multiscale").path
VALUES = bytes([0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 4, *range(16)])
"""A block of 4 x 4 in mode 0."""


def refused(plan: zarrlift.Plan) -> dict[str, tuple[str, str | None]]:
    """(kind, key) of what keeps each node back."""
    return {item.path: (item.problems[0].kind, item.problems[0].key) for item in plan.refusals}


@pytest.mark.parametrize("of", ["varlength", "varlength_long"])
@pytest.mark.parametrize("compression", ["raw", "gzip"])
def test_the_first_block_tells_what_the_document_does_not(of: str, compression: str, tmp_path: Path) -> None:
    found = refused(zarrlift.plan(MODES, tmp_path / "out.zarr"))
    path = f"{of}/{compression}"
    assert found[path] == ("unsupported", f"{path}/0/0")


def test_the_document_of_label_multisets_is_enough(tmp_path: Path) -> None:
    source = copied(LABELS, tmp_path / "labels.n5")
    shutil.rmtree(source / "paintera/labels/data/s0/0")
    (refusal,) = zarrlift.plan(source, tmp_path / "out.zarr").refusals
    assert refusal.path == "paintera/labels/data/s0"
    (problem,) = refusal.problems
    assert problem.kind == "unsupported"
    assert "paintera-convert to-scalar" in (problem.advice or "")


def test_in_a_store_bytes_are_looked_at_and_longer_numbers_are_not(tmp_path: Path) -> None:
    found = refused(zarrlift.plan(in_memory(MODES, tmp_path), tmp_path / "out.zarr"))
    assert "varlength/raw" in found
    assert "varlength_long/raw" not in found


def test_nothing_of_such_an_array_is_moved_and_the_others_are(tmp_path: Path) -> None:
    source = copied(MODES, tmp_path / "modes.n5")
    for mended in ("varlength_by_chance/raw/1/0", "varlength_long"):
        place = source / mended
        shutil.rmtree(place) if place.is_dir() else place.unlink()
    outcome = zarrlift.migrate(source, tmp_path / "out.zarr")
    kinds = {problem.node: problem.kind for problem in outcome.problems if problem.severity == "refusal"}
    assert kinds["varlength/raw"] == "unsupported"
    assert not (tmp_path / "out.zarr/varlength/raw").exists()
    assert (tmp_path / "out.zarr/varlength_by_chance/raw/zarr.json").is_file()


@pytest.mark.parametrize("first", [VALUES, VALUES[:10]], ids=["values", "damaged"])
def test_a_later_block_is_found_when_it_is_moved(first: bytes, tmp_path: Path) -> None:
    source = copied(MODES / "varlength/raw", tmp_path / "later.n5")
    (source / "0/0").write_bytes(first)
    assert not zarrlift.plan(source, tmp_path / "out.zarr").refusals
    outcome = zarrlift.migrate(source, tmp_path / "out.zarr")
    assert {(p.kind, p.key) for p in outcome.problems if p.severity == "refusal"} >= {("chunk", "1/0")}


# N5 with shards, which Java's n5 4.0 writes and no document states: refused by name, and no value is wrong.
#
# `attributes.json` has the size of an inner chunk as `blockSize`, so the first chunk of each shard looks like
# a block; for some compressions the Java library itself returns it as one.


FIXTURE = archive("n5/java-4.0.2/shards")
SHARDS = FIXTURE.path
SHARDED = sorted(set(FIXTURE.arrays) - {"plain"})
WHAT = "shards are stored in the place of N5 blocks"


def told(plan: zarrlift.Plan) -> dict[str, str]:
    """The problems of each refused node, as text."""
    return {item.path: " ".join(map(str, item.problems)) for item in plan.refusals}


@pytest.mark.parametrize("axes", ["reversed", "kept"])
def test_the_plan_refuses_every_dataset_with_shards(axes: str, tmp_path: Path) -> None:
    plan = zarrlift.plan(SHARDS, tmp_path / "out.zarr", axes=axes)
    refused = told(plan)
    assert sorted(refused) == SHARDED
    for path, text in refused.items():
        assert WHAT in text, path
        assert "docs/howto/n5.md, Shards" in text, path
    problems = [problem for item in plan.refusals for problem in item.problems]
    assert {problem.kind for problem in problems if problem.severity == "refusal"} == {"unsupported"}
    assert "the index of a shard, as Java's n5 4.0 writes it" in refused["end/blosc"]


def test_blocks_that_would_stay_in_place_are_looked_at(tmp_path: Path) -> None:
    for source in (copied(SHARDS, tmp_path / "shards.n5"), in_memory(SHARDS, tmp_path)):
        found = told(zarrlift.plan(source, in_place=True))
        for path in ("end/raw", "end/gzip", "end/blosc", "start/raw"):
            assert WHAT in found[path]


def test_in_a_store_the_migration_says_so(tmp_path: Path) -> None:
    source = in_memory(SHARDS, tmp_path)
    outcome = zarrlift.migrate(source, tmp_path / "out.zarr")
    failed = {problem.node: str(problem) for problem in outcome.problems if problem.severity == "refusal"}
    assert sorted(failed) == SHARDED
    assert all(WHAT in text for text in failed.values())
    documents = {path.parent.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("zarr.json")}
    assert documents == {"out.zarr", "out.zarr/end", "out.zarr/start", "out.zarr/plain"}


@pytest.mark.parametrize("path", SHARDED)
def test_a_view_never_shows_a_chunk_of_a_shard_as_a_block(path: str) -> None:
    array = zarrlift.open_array(SHARDS, path=path)
    for start in np.ndindex(*(-(-n // c) for n, c in zip(array.shape, array.chunks, strict=True))):
        place = tuple(slice(i * c, (i + 1) * c) for i, c in zip(start, array.chunks, strict=True))
        try:
            assert not array[place].any(), place  # missing
        except ZarrstackError:
            continue


def block_ending_like_an_index() -> bytes:
    """A valid raw block of uint64 whose last values are the index of a shard that fills the object."""
    header = bytes([0, 0, 0, 1, 0, 0, 0, 8])
    return header + bytes(48) + (0).to_bytes(8, "big") + (8 + 48).to_bytes(8, "big")


def test_a_block_that_decodes_is_a_block_whatever_its_values_are(tmp_path: Path) -> None:
    dataset = {"dimensions": [8], "blockSize": [8], "dataType": "uint64", "compression": {"type": "raw"}}
    (tmp_path / "root.n5").mkdir()
    (tmp_path / "root.n5/attributes.json").write_text(json.dumps({"n5": "4.0.0", **dataset}))
    (tmp_path / "root.n5/0").write_bytes(block_ending_like_an_index())
    assert zarrlift.migrate(tmp_path / "root.n5", tmp_path / "out.zarr", verify="full").ok
    assert zarr.open_array(tmp_path / "out.zarr", mode="r")[...].tolist() == [0] * 7 + [56]


SHARDING = {"name": "sharding_indexed", "configuration": {"chunk_shape": [2, 4], "index_location": "end"}}


@pytest.mark.parametrize(
    ("codecs", "what"),
    [
        ([SHARDING], "an N5 dataset with shards"),
        ([{"type": "sharding_indexed"}], "an N5 dataset with shards"),
        ([{"name": "n5bytes"}], "an N5 dataset with a list of codecs"),
        ([], "an N5 dataset with a list of codecs"),
        (7, "an N5 dataset with a list of codecs"),
    ],
)
def test_a_document_with_codecs_is_refused_whatever_else_it_states(
    codecs: object, what: str, tmp_path: Path
) -> None:
    source = copied(SHARDS, tmp_path / "shards.n5")
    for path in SHARDED:
        shutil.rmtree(source / path.partition("/")[0], ignore_errors=True)
    document = json.loads((source / "plain/attributes.json").read_text())
    (source / "plain/attributes.json").write_text(json.dumps({**document, "codecs": codecs}))
    (refusal,) = zarrlift.plan(source, tmp_path / "out.zarr").refusals
    text = " ".join(map(str, refusal.problems))
    assert what in text
    assert "docs/howto/n5.md, Shards" in text

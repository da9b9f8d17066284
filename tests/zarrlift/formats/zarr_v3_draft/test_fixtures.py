"""Draft archives by zarr-python, zarrita and GDAL, and some after the text, are described as they lie.

That their chunks decode to what was written is tested in core/test_draft_v3_fixtures.py, and that
they migrate in conformance/.
"""

from __future__ import annotations

import pytest
from tests.support import fixtures_index
from tests.support.format_readers import zarr_v3_draft

from zarrlift.archive.chunk_inventory import take_inventory
from zarrlift.archive.nodes import ArrayNode, GroupNode
from zarrlift.storage.open_storage import open_storage
from zarrstack.core.errors import UsageError, ZarrstackError

ARCHIVES = fixtures_index.archives(format="zarr_v3_draft")
REASONS = ("a sub-array field has no v3 data type", "json2 with order F")
GHOST = "consolidated"


@pytest.mark.parametrize("expected", ARCHIVES, ids=str)
def test_an_archive_by_an_old_writer_is_described(expected):
    storage = open_storage(expected.path)
    archive = zarr_v3_draft.read(storage, allow_fallback=True)
    groups = {node.path: node.attributes for node in archive.nodes if isinstance(node, GroupNode)}
    arrays = {node.path: node for node in archive.nodes if isinstance(node, ArrayNode)}
    wanted = {path: attributes for path, attributes in expected.groups.items() if path != GHOST}
    assert repr(groups) == repr(dict(sorted(wanted.items())))
    assert arrays.keys() == expected.arrays.keys()
    assert archive.consolidated == expected.name.endswith(GHOST)
    for path, node in arrays.items():
        before = expected[path]
        if node.layout is None:
            assert any(reason in str(p) for p in node.problems for reason in REASONS), node.problems
            continue
        layout = node.layout
        assert (layout.shape, layout.chunk_shape) == (before.shape, before.chunks)
        assert node.fill_is_null == before.fill_is_null or before.needs is not None
        inventory = take_inventory(storage, path, layout)
        assert inventory.unclaimed_count == 0
        if layout.frame is None:
            assert len(inventory.indexes) == before.stored_chunks


@pytest.mark.parametrize("expected", ARCHIVES, ids=str)
def test_nothing_of_it_is_called_a_stray_or_lost(expected):
    problems = zarr_v3_draft.read(open_storage(expected.path)).all_problems()
    assert [p for p in problems if p.kind == "stray" or "chunks without" in p.message] == []


@pytest.mark.parametrize("case", fixtures_index.bad_cases("zarr_v3_draft"), ids=str)
def test_damage_to_a_document_is_told_at_its_key_and_the_sound_array_described(case):
    try:
        archive = zarr_v3_draft.read(open_storage(case.path))
    except UsageError:
        assert case.name == "nothing"
        return
    except ZarrstackError as error:
        assert error.problem.key == "zarr.json" in case.keys  # noqa: PT017
        return
    good = next(node for node in archive.nodes if node.path == "good")
    assert good.refused == (case.name == "root_array_and_group")
    named = {problem.key for problem in archive.all_problems() if problem.severity == "refusal"}
    if any(key.startswith("meta/") for key in case.keys) and not case.readable:
        unseen = case.name in ("zarr_array_filters_text", "array_transformer_too_many", "zarr_array_pickle")
        assert bool(named & {*case.keys}) == (not unseen), named

"""Every damaged archive of the fixtures: one clear error, all else migrated, nothing wrong visible."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.end_to_end.bad_input.test_plan_and_run import assert_foreseen, refusals
from tests.support.damaged_archives import (
    assert_told,
    copied,
    looked_at,
    migrate,
    read,
    run,
    said_of,
    write_archive,
    write_array,
)
from tests.support.fixtures_index import FORMATS, GOOD, BadCase, bad_cases
from tests.support.job_archives import tree

import zarrlift
from zarrlift.archive.chunk_inventory import take_inventory
from zarrlift.archive.nodes import ArrayNode
from zarrlift.formats.describe import describe
from zarrlift.planning.chunk_checks import damage_problem, exact_size
from zarrlift.storage.open_storage import open_storage

ALL = {str(case): case for form in FORMATS for case in bad_cases(form)}
PLAIN = tuple(case for form in ("zarr_v2", "zarr_v1") for case in bad_cases(form))
DRAFTS = bad_cases("zarr_v3_draft")
SHARDS = [case for case in DRAFTS if case.name.startswith("shard_")]
IN_CHUNKS = [case for case in DRAFTS if case.name.startswith(("shard_", "chunk_", "array_transformer"))]
RUNS = [
    *((case, ()) for case in (*PLAIN, *DRAFTS)),
    # Chunks are looked at by other code where they are changed.
    *((case, ("--set", "shard-index=crc32c")) for case in IN_CHUNKS),
    *((case, ("--codecs", "zstd:3")) for case in IN_CHUNKS),
    *((case, options) for case in bad_cases("n5") for options in ((), ("--axes", "kept"))),
]
DOCUMENTS = (".zarray", ".zgroup", ".zattrs", "zarr.json", "meta", "attrs")
"""Names that metadata documents have, of whatever format."""
NOT_AN_ARCHIVE = {"nothing", "root_v2_and_v3"}
"""Nothing can be done with the place as a whole: the request makes no sense (exit 2)."""
VALID = {"zarray_shape_huge", "both_dialects"}
"""Damaged, but nobody can tell: sparse arrays, by their own documents, which are carried over."""
AS_MEANT = {
    "zarray_zarr_format_text",  # can mean one thing only: what no reader takes, and zarrlift does with a note
    "zarr_array_filters_text",  # an attribute of the user's that happens to bear the name
    "name_empty",  # the root, which is a group, is whole; the document of no node is told
}
"""The damaged node is visible, and is right."""
DECIDED_BY_CHUNKS = {"node_v2_and_v3"}
"""Two documents for one array, of which the chunks show the one that counts, with a note."""
FILES_WIN = {
    "zmetadata_a_list",
    "zmetadata_entry_text",
    "zmetadata_format_9",
    "zmetadata_hides_pickle",
    "zmetadata_no_metadata",
    "zmetadata_truncated",
    "zarr_consolidated_wrong",
}
"""Consolidated metadata is only a copy: where it is wrong and leads nowhere, a warning says so."""
ALSO_AT = {
    "meta_blosc_opts_missing": "bad/0.0",  # null means the defaults; the chunks are not blosc's
    "meta_is_a_folder": "bad",  # chunks without their document
    "zarray_dtype_bfloat16": "bad/0.0",  # a type that tensorstore writes; the chunks have twice its size
    "zarray_chunk_big": "bad/0.0",  # the first chunk that contradicts the document
    "separators_mixed": "bad/.zarray",  # found names the keys
    "array_transformer_too_many": "data/bad/c0/0",  # zarr-python takes it so: the shards are none
    "zarr_array_pickle": "meta/root/bad.array.json",
    "attributes_dimensions_none": "bad/0",  # contradicts the document, where both are plausible
    "attributes_data_type_unknown": "bad/0/0",
}
"""Another key that may be blamed."""


@pytest.mark.slow(one_in=97)
@pytest.mark.parametrize(("case", "options"), RUNS, ids=str)
def test_a_copy_keeps_back_what_is_damaged_and_nothing_else_as_its_plan_says(
    case: BadCase, options: tuple[str, ...], tmp_path: Path
) -> None:
    destination, before = tmp_path / "out.zarr", tree(case.path)
    inspected, planned = looked_at(case.path, tmp_path)
    foreseen, _ = refusals(zarrlift.plan, case.path, destination)
    ran = migrate(case.path, destination, *options)
    if not options:
        assert_foreseen(foreseen, ran.refusals)
    assert tree(case.path) == before
    if case.name in NOT_AN_ARCHIVE:
        assert (inspected.code, planned.code) == (2, 2)
    elif not options and any(key.endswith((".json", *DOCUMENTS)) for key in case.keys):
        # What a copy refuses is known before it begins, unless only a chunk shows it.
        known = [p for p in ran.refusals if p["kind"] != "chunk" or p.get("found") == "a directory"]
        assert planned.code == (1 if known else 0)
    keys = {*case.keys, ALSO_AT.get(case.name, "")}
    if case.name in NOT_AN_ARCHIVE:
        assert (ran.code, len(ran.problems)) == (2, 1)
        assert not destination.exists()
        return
    if case in DRAFTS and case.damaged == ("",) and case.keys == ("zarr.json",) and ran.code:
        # Without its entry point nothing of a hierarchy can be read.
        (problem,) = ran.problems
        assert (ran.code, problem["key"]) == (1, "zarr.json")
        assert not destination.exists()
        return
    good = GOOD.T if "kept" in options else GOOD
    if case.name != "root_array_and_group":
        assert read(destination / "good").tolist() == good.tolist()
    assert ran.code == (1 if ran.refusals else 0)
    published = [node for node in case.damaged if (destination / node / "zarr.json").is_file()]
    for node in case.damaged:
        if node not in published:
            assert_told(ran, node, keys)
        elif case.name not in VALID and (node or case.format != "n5"):
            if case.name in DECIDED_BY_CHUNKS:
                said = " ".join(run("migrate", "--dry-run", case.path).out.split())
                assert f"note: /{node}, key '{node}/zarr.json': zarr.json of zarr3 is ignored" in said
            assert case.readable or case.name in AS_MEANT | DECIDED_BY_CHUNKS
            node_type = json.loads((destination / node / "zarr.json").read_text())["node_type"]
            assert node_type == "array" or case in DRAFTS  # among which are damaged groups that can be read
            assert node_type == "group" or np.array_equal(read(destination / node), good)
    if ran.refusals or (case.name not in FILES_WIN and not published):
        assert any(problem.get("key") in keys for problem in ran.refusals)


@pytest.mark.slow(one_in=41)
@pytest.mark.needs_reader("once")
@pytest.mark.parametrize("case", PLAIN, ids=str)
def test_in_place_nothing_damaged_is_published_and_no_group(case: BadCase, tmp_path: Path) -> None:
    source = copied(case.path, tmp_path / "source.zarr")
    before = tree(source)
    foreseen, _ = refusals(zarrlift.plan, source, in_place=True)
    ran = migrate(source, "--in-place")
    assert_foreseen(foreseen, ran.refusals)
    after = tree(source)
    new = after.keys() - before.keys()
    assert {key: after[key] for key in before} == before
    assert all(key.endswith("zarr.json") for key in new)
    if case.name in NOT_AN_ARCHIVE:
        assert (ran.code, new) == (2, set())
        return
    assert "good/zarr.json" in new
    assert ran.code == (1 if ran.refusals else 0)
    assert ("zarr.json" in new) == (ran.code == 0)
    if case.name not in VALID | AS_MEANT and not (case.readable and ran.code == 0):
        assert not {f"{node}/zarr.json" for node in case.damaged} & new
        assert all(said_of(ran, node) for node in case.damaged)


@pytest.mark.parametrize("case", [case for case in PLAIN if case.name in FILES_WIN], ids=str)
def test_broken_consolidated_metadata_is_a_warning_that_names_it(case: BadCase, tmp_path: Path) -> None:
    planned = json.loads(run("migrate", "--dry-run", case.path, tmp_path / "out.zarr", "--json").out)
    text = json.dumps(planned)
    assert ".zmetadata" in text
    assert '"warning"' in text


@pytest.mark.slow(one_in=3)
@pytest.mark.parametrize("case", [case for case in PLAIN if "escape" in case.name], ids=str)
def test_a_key_that_leads_out_is_refused_until_it_is_gone(case: BadCase, tmp_path: Path) -> None:
    source, destination = copied(case.path, tmp_path / "source.zarr"), tmp_path / "out.zarr"
    ran = migrate(source, destination)
    assert ran.code == 1
    assert [problem["key"] for problem in ran.refusals] == [".zmetadata"]
    assert {path.name for path in tmp_path.iterdir()} == {"source.zarr", "out.zarr", "out.zarr.zarrlift.db"}
    (source / ".zmetadata").unlink()
    assert run("resume", destination).code == 0


def mend(case: BadCase, source: Path) -> None:
    """Put what is sound in the place of what is damaged."""
    if case in SHARDS:
        (source / "data/bad/c0/0").write_bytes(sound_shard())
    elif case in DRAFTS:
        shutil.copy(source / "meta/good.array.json", source / "meta/bad.array.json")
    else:
        shutil.rmtree(source / "bad")
        shutil.copytree(source / "good", source / "bad")


def sound_shard() -> bytes:
    """The shard that the damaged ones of the fixtures were meant to be."""
    chunks = [gzip.compress(GOOD[3 * i : 3 * i + 3].tobytes(), 1) for i in range(2)]
    places = [(0, len(chunks[0])), (len(chunks[0]), len(chunks[1]))]
    return b"".join(chunks) + np.array(places, "<u8").tobytes()


MENDED = [
    *(
        "chunk_truncated_blosc",
        "document_truncated",
        "zarray_dtype_unknown",
        "zattrs_null",
        "chunk_is_folder",
    ),
    *("zarr_v3_draft-array_truncated", *map(str, SHARDS[::3]), "n5-gzip_truncated"),
]


@pytest.mark.slow(one_in=5)
@pytest.mark.parametrize("name", MENDED)
def test_resume_finishes_once_the_damage_is_mended(name: str, tmp_path: Path) -> None:
    case, destination = ALL[name], tmp_path / "out.zarr"
    source = copied(case.path, tmp_path / "source.zarr")
    assert migrate(source, destination, *(("--axes", "kept") if case.format == "n5" else ())).code == 1
    assert run("resume", destination).code == 1
    mend(case, source)
    assert run("resume", destination).code == 0
    # A job keeps the order of axes it began with.
    assert np.array_equal(read(destination / "bad"), GOOD.T if case.format == "n5" else GOOD)
    assert (destination / "zarr.json").is_file()


@pytest.mark.slow(one_in=3)
@pytest.mark.parametrize(
    "members",
    [{}, {"filters": [{"id": "delta", "dtype": "<i4"}]}, {"order": "F"}],
    ids=["plain", "filtered", "transposed"],
)
def test_a_plan_refuses_sizes_that_no_chunk_without_compression_has(
    tmp_path: Path, members: dict[str, Any]
) -> None:
    place = write_archive(tmp_path / "old")
    write_array(place / "wrong", {"0": bytes(36), "1": bytes(36)}, **members)
    assert migrate(place, tmp_path / "new", "--dry-run").code == 1
    (problem,) = migrate(place, tmp_path / "new").refusals
    assert (problem["node"], problem["key"]) == ("wrong", "wrong/0")
    assert "no chunk of this array has the size that follows from its metadata" in problem["message"]
    write_array(place / "wrong", {"0": bytes(16)}, **members)
    assert migrate(place, tmp_path / "some", "--dry-run").code == 0  # one damaged chunk fails the run


def test_a_plan_does_not_refuse_what_a_store_serves_with_another_size(tmp_path: Path) -> None:
    write_array(tmp_path, {"0": bytes(16), "1": bytes(16)})
    storage = open_storage(tmp_path)
    (node,) = describe(storage).nodes
    assert isinstance(node, ArrayNode)
    layout = node.layout
    assert layout is not None
    listing = take_inventory(storage, "", layout)
    assert listing.sizes is not None
    compressed = listing._replace(sizes=listing.sizes // 2)
    assert exact_size(layout) == 16
    assert damage_problem("", storage, layout, compressed, 16) is None


@pytest.mark.parametrize("case", DRAFTS[::7], ids=str)
def test_nothing_is_done_to_a_draft_in_place(case: BadCase, tmp_path: Path) -> None:
    source = copied(case.path, tmp_path / "source.zarr")
    before = tree(source)
    ran = migrate(source, "--in-place")
    assert ran.code
    assert tree(source) == before
    assert [path.name for path in tmp_path.iterdir()] == ["source.zarr"]


def test_every_bad_block_of_an_n5_array_is_named(tmp_path: Path) -> None:
    source = copied(ALL["n5-block_mode_3"].path, tmp_path / "source.n5")
    (source / "bad/0/0").write_bytes(b"\0\0")
    ran = migrate(source, tmp_path / "out.zarr")
    assert [(problem["node"], problem["key"]) for problem in ran.refusals] == [
        ("bad", "bad/0/0"),
        ("bad", "bad/0/1"),
    ]
    assert "shorter than its header" in ran.refusals[0]["message"]
    assert "unknown mode" in ran.refusals[1]["message"]

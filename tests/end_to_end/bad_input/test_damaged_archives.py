"""Every damaged archive of the fixtures: one clear error, all else migrated, nothing wrong visible.

A format takes part once its name stands in `FORMATS`.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from tests.support.damaged_archives import assert_told, copied, looked_at, migrate, read, run, said_of, tree
from tests.support.fixtures_index import GOOD, BadCase, Format, bad_cases

FORMATS: tuple[Format, ...] = ("zarr_v2", "zarr_v1")
CASES = tuple(case for name in FORMATS for case in bad_cases(name))
DOCUMENTS = (".zarray", ".zgroup", ".zattrs", "zarr.json", "meta", "attrs")
"""Names that metadata documents have, of whatever format."""
NOT_AN_ARCHIVE = {"nothing", "root_v2_and_v3"}
"""Nothing can be done with the place as a whole: the request makes no sense (exit 2)."""
VALID = {"zarray_shape_huge"}
"""Damaged, but nobody can tell: the document is that of a sound sparse array, and is carried over."""
AS_MEANT = {"zarray_zarr_format_text"}
"""What no reader takes, and zarrlift does with a note, since it can mean one thing only."""
DECIDED_BY_CHUNKS = {"node_v2_and_v3"}
"""Two documents for one array, of which the chunks show the one that counts, with a note."""
FILES_WIN = {
    "zmetadata_a_list",
    "zmetadata_entry_text",
    "zmetadata_format_9",
    "zmetadata_hides_pickle",
    "zmetadata_no_metadata",
    "zmetadata_truncated",
}
"""Consolidated metadata is only a copy: where it is wrong and leads nowhere, a warning says so."""
ALSO_AT = {
    "meta_blosc_opts_missing": "bad/0.0",  # null means the defaults; the chunks are not blosc's
    "meta_is_a_folder": "bad",  # chunks without their document
    "zarray_chunk_big": "bad/0.0",  # the first chunk that contradicts the document
    "separators_mixed": "bad/.zarray",  # found names the keys
}


@pytest.mark.slow(one_in=30)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_copy_keeps_back_what_is_damaged_and_nothing_else(case: BadCase, tmp_path: Path) -> None:
    destination = tmp_path / "out.zarr"
    ran = migrate(case.path, destination)
    if case.name in NOT_AN_ARCHIVE:
        assert ran.code == 2
        assert len(ran.problems) == 1
        assert not destination.exists()
        return
    assert read(destination / "good").tolist() == GOOD.tolist()
    assert ran.code == (1 if ran.refusals else 0)
    published = []
    for node in case.damaged:
        document = destination / node / "zarr.json"
        if not document.is_file():
            assert_told(ran, node, {*case.keys, ALSO_AT.get(case.name, "")})
            continue
        published.append(node)
        if case.name in VALID:
            continue
        if case.name in DECIDED_BY_CHUNKS:
            said = " ".join(run("migrate", "--dry-run", case.path).out.split())
            assert f"note: /{node}, key '{node}/zarr.json': zarr.json of zarr3 is ignored" in said
        assert case.readable or case.name in AS_MEANT | DECIDED_BY_CHUNKS
        assert json.loads(document.read_text())["node_type"] == "array"
        assert np.array_equal(read(destination / node), GOOD)
    if case.name not in FILES_WIN and not published:
        assert ran.code == 1
        assert any(problem.get("key") in case.keys for problem in ran.refusals) or case.name in ALSO_AT


@pytest.mark.slow(one_in=10)
@pytest.mark.needs_reader("once")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_in_place_nothing_damaged_is_published_and_no_group(case: BadCase, tmp_path: Path) -> None:
    source = copied(case.path, tmp_path / "source.zarr")
    before = tree(source)
    ran = migrate(source, "--in-place")
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


@pytest.mark.slow(one_in=10)
@pytest.mark.needs_reader("once")
@pytest.mark.parametrize("case", [case for name in get_args(Format) for case in bad_cases(name)], ids=str)
def test_looking_writes_nothing_and_tells_of_what_the_documents_show(case: BadCase, tmp_path: Path) -> None:
    inspected, planned = looked_at(case.path, tmp_path)
    if case.name in NOT_AN_ARCHIVE:
        assert (inspected.code, planned.code) == (2, 2)
    elif any(key.rpartition("/")[2] in DOCUMENTS or key.endswith(".json") for key in case.keys):
        # What a copy refuses is known before it begins, unless only a chunk shows it.
        kept_back = migrate(case.path, tmp_path / "out.zarr").refusals
        known = [p for p in kept_back if p["kind"] != "chunk" or p.get("found") == "a directory"]
        assert planned.code == (1 if known else 0)


@pytest.mark.parametrize("case", [case for case in CASES if case.name in FILES_WIN], ids=str)
def test_broken_consolidated_metadata_is_a_warning_that_names_it(case: BadCase, tmp_path: Path) -> None:
    planned = json.loads(run("migrate", "--dry-run", case.path, tmp_path / "out.zarr", "--json").out)
    text = json.dumps(planned)
    assert ".zmetadata" in text
    assert '"warning"' in text


@pytest.mark.parametrize("name", [case.name for case in CASES if "escape" in case.name])
def test_a_key_that_leads_out_is_refused_until_it_is_gone(name: str, tmp_path: Path) -> None:
    (case,) = (case for case in CASES if case.name == name)
    source, destination = copied(case.path, tmp_path / "source.zarr"), tmp_path / "out.zarr"
    ran = migrate(source, destination)
    assert ran.code == 1
    assert [problem["key"] for problem in ran.refusals] == [".zmetadata"]
    assert {path.name for path in tmp_path.iterdir()} == {
        "source.zarr",
        "out.zarr",
        "out.zarr.zarrlift.db",
    }
    (source / ".zmetadata").unlink()
    assert run("resume", destination).code == 0


REPAIRED = [
    "chunk_truncated_blosc",
    "zarray_truncated",
    "zarray_dtype_unknown",
    "zattrs_null",
    "chunk_is_folder",
]


@pytest.mark.parametrize("case", [case for case in CASES if case.name in REPAIRED], ids=str)
def test_resume_finishes_once_the_damage_is_mended(case: BadCase, tmp_path: Path) -> None:
    source, destination = copied(case.path, tmp_path / "source.zarr"), tmp_path / "out.zarr"
    assert migrate(source, destination).code == 1
    shutil.rmtree(source / "bad")
    shutil.copytree(source / "good", source / "bad")
    assert run("resume", destination).code == 0
    assert np.array_equal(read(destination / "bad"), GOOD)
    assert (destination / "zarr.json").is_file()

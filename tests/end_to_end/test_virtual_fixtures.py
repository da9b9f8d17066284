"""Every array of every fixture by reference: nothing is copied, and zarr-python reads what the writer reads.

Through Icechunk, and through fsspec's references for what kerchunk writes. What no v3 document can say about
stored bytes is refused by name, as where they are kept (`KEPT_BACK`).
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
from tests.end_to_end.test_fixtures_in_place import KEPT_BACK
from tests.end_to_end.test_fixtures_migrate import (
    ARCHIVES,
    REFUSED,
    assert_seen,
    listed,
    may_be_refused,
    refused,
)
from tests.support.every import try_each
from tests.support.fixtures_index import ExpectedArchive, ExpectedArray, archive
from tests.support.readers import by_zarr_python
from tests.support.virtual import opened_icechunk, opened_kerchunk

import zarrlift

FORMS = {"icechunk": opened_icechunk, "kerchunk": opened_kerchunk}
DIRECTORIES = tuple(one for one in ARCHIVES if one.kind == "directory" and one.arrays)
CASES = [pytest.param(form, one, id=f"{form}, {one}") for form in FORMS for one in DIRECTORIES]


@cache
def _referred(root: Path, form: str, name: str) -> tuple[object, zarrlift.Outcome]:
    """References to an archive; once per run and process."""
    place = root / f"{name.replace('/', '_')}.json"
    destination = str(place) if form == "kerchunk" else f"icechunk://{place.with_suffix('')}"
    outcome = zarrlift.migrate(archive(name).path, destination, virtual=True)
    return FORMS[form](destination, archive(name).path), outcome


@pytest.fixture(scope="session")
def references(tmp_path_factory):
    root = tmp_path_factory.mktemp("references")
    return lambda form, name: _referred(root, form, name)


@pytest.mark.slow(one_in=110)
@pytest.mark.filterwarnings("ignore:The 'generic' unit:DeprecationWarning")  # numpy 2.5, as zarr-python reads
@pytest.mark.parametrize(("form", "one"), CASES)
def test_references_read_as_the_old_writer_read_the_archive(
    form: str, one: ExpectedArchive, references
) -> None:
    store, outcome = references(form, one.name)
    assert outcome.ok or all(problem.node is not None for problem in outcome.problems)

    def check(array: ExpectedArray) -> None:
        if reason := refused(outcome, array.path):
            known = any(re.search(pattern, array.id) and words in reason for pattern, words in KEPT_BACK)
            if not known and array.needs is None:  # then a copy is refused too
                words = listed(REFUSED, array)
                assert may_be_refused(array) is not None if words is None else words in reason, reason
            return
        if array.unreadable is not None:
            return
        assert_seen(array, by_zarr_python(store, array.path), exactly=True)

    try_each(one.arrays.values(), check)

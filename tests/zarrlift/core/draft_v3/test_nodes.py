"""The 2022 draft of v3: the entry point, groups and keys of both dialects."""

from __future__ import annotations

import contextlib
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.chances import json_values

from zarrlift.core.draft_v3.nodes import (
    Dialect,
    DraftEntryPoint,
    NodeKey,
    bad_node_name,
    is_entry,
    read_entry,
    read_extensions,
    read_group,
    write_entry,
)
from zarrlift.core.grid.chunk_keys import DraftKeys
from zarrstack.core.errors import MetadataError, UnsupportedError, ZarrstackError

TEXT, ZARR_PYTHON = Dialect.TEXT, Dialect.ZARR_PYTHON
DIALECTS = [TEXT, ZARR_PYTHON]
by_dialect = pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)

# ----- the entry point

# Section "Entry point metadata": what an archive without extensions has.
TEXT_ENTRY = {
    "zarr_format": "https://purl.org/zarr/spec/core/3.0",
    "metadata_encoding": {"type": "json", "metadata_key_suffix": ".json"},
    "extensions": [],
}
# zarr-python 2.18.7; zarrita and GDAL 3.4 write the same.
ZARR_PYTHON_ENTRY = {
    "extensions": [],
    "metadata_encoding": "https://purl.org/zarr/spec/protocol/core/3.0",
    "metadata_key_suffix": ".json",
    "zarr_format": "https://purl.org/zarr/spec/protocol/core/3.0",
}


@pytest.mark.parametrize(
    ("document", "dialect"),
    [(TEXT_ENTRY, TEXT), (ZARR_PYTHON_ENTRY, ZARR_PYTHON)],
    ids=["text", "zarr-python"],
)
def test_entry_points_tell_their_dialect_and_are_written_as_they_were(document, dialect):
    entry = read_entry(document)
    assert entry == DraftEntryPoint(dialect=dialect)
    assert entry.problems == ()
    assert write_entry(entry) == document
    assert is_entry(document) and not is_entry({"zarr_format": 3})


def test_an_extension_that_need_not_be_understood_is_kept_and_told():
    """As the second example of the section has one."""
    extension = {
        "extension": "http://example.org/station-index",
        "must_understand": False,
        "configuration": {"levels": 4},
    }
    entry = read_entry({**TEXT_ENTRY, "extensions": [extension]})
    assert entry.extensions == (extension,)
    assert [problem.severity for problem in entry.problems] == ["warning"]
    assert write_entry(entry)["extensions"] == [extension]


def test_a_later_minor_version_may_have_members_of_its_own():
    entry = read_entry({**TEXT_ENTRY, "zarr_format": "https://purl.org/zarr/spec/core/3.7", "colour": 1})
    assert [(problem.severity, problem.found) for problem in entry.problems] == [("warning", '["colour"]')]


BAD_ENTRIES = {
    "members beside the suffix": (
        {"metadata_encoding": {"type": "json", "level": 1}}, MetadataError, "unknown members"),
    "a suffix that is a path": (
        {"metadata_encoding": {"type": "json", "metadata_key_suffix": "/../x"}}, MetadataError, "suffix"),
    "two states at once": (
        {"metadata_encoding": ZARR_PYTHON_ENTRY["metadata_encoding"]}, MetadataError, "two versions"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_ENTRIES)
def test_entry_points_that_cannot_be_followed_are_refused(case):
    changes, error, message = BAD_ENTRIES[case]
    with pytest.raises(error, match=message):
        read_entry({**TEXT_ENTRY, **changes})


# ----- groups


def test_a_group_has_attributes_and_nothing_else():
    assert read_group({"attributes": {"vessel": "Thetis"}}) == {"vessel": "Thetis"}
    with pytest.raises(MetadataError, match="unknown members"):
        read_group({"attributes": {}, "zarr_format": 3})
    # zarrita and GDAL 3.5 write an earlier state of the text
    assert read_group({"attributes": {}, "extensions": []}) == {}
    with pytest.raises(UnsupportedError, match="http://x"):
        read_group({"attributes": {}, "extensions": [{"extension": "http://x"}]})
    assert read_group({"attributes": None}) == {}  # zarrita
    for document in ({}, {"attributes": []}):
        with pytest.raises(MetadataError, match="attributes"):
            read_group(document)


# ----- node keys


NAMES = st.text("ab01-_.", min_size=1, max_size=6).filter(lambda name: bad_node_name(name) is None)
TRICKY = st.sampled_from(("array", "group", "root", "meta", "c0", "a.array", "x.group", "json", "a.json"))
PATHS = st.lists(NAMES | TRICKY, max_size=3).map("/".join)


@given(PATHS, st.sampled_from(DIALECTS), st.sampled_from((".json", "", ".array.json")))
def test_a_key_names_its_node_and_no_other(path, dialect, suffix):
    dialect = Dialect(name=dialect.name, suffix=suffix)
    assert dialect.node(dialect.key(path, "array")) == NodeKey(path, "array")
    assert dialect.node(dialect.key(path, "group")) == NodeKey(path, "group")
    if path:
        parent = path.rpartition("/")[0]
        assert dialect.key(path, "array").startswith(dialect.below(parent))
        assert dialect.data(path).startswith(dialect.data(parent))


@given(st.text("/metarootdgupjsny.", max_size=24))
def test_whatever_names_a_node_has_that_very_key(key):
    for dialect in DIALECTS:
        node = dialect.node(key)
        if node is not None:
            assert key == dialect.key(node.path, node.kind)


@pytest.mark.parametrize(
    "key",
    ["zarr.json", "meta/", "meta/.array.json", "meta/foo/.array.json", "meta//foo.array.json",
     "meta/foo.json", "data/foo.array.json", "meta/root/consolidated/.zmetadata", "meta/foo.array.json.bak"],
)  # fmt: skip
@by_dialect
def test_other_keys_name_no_node(dialect, key):
    assert dialect.node(key) is None


def test_a_zarr_python_key_outside_its_root_names_no_node():
    assert ZARR_PYTHON.node("meta/foo.array.json") is None
    assert ZARR_PYTHON.node("meta/rootfoo.array.json") is None


@pytest.mark.parametrize("name", ["", ".", "..", "...", "a b", "a/b", "ä", "a\n"])
def test_names_that_the_draft_does_not_allow(name):
    assert bad_node_name(name) is not None


# ----- chunk keys

COORDINATES = st.lists(st.integers(0, 10**6), max_size=4).map(tuple)


@given(COORDINATES, st.sampled_from("./"), st.sampled_from(DIALECTS))
def test_a_chunk_key_names_its_chunk_and_no_other(coordinates, separator, dialect):
    keys = DraftKeys(separator, dialect.scalar_key)
    key = keys.key(coordinates)
    assert keys.coordinates(key, len(coordinates)) == coordinates
    if coordinates:  # c0 is a chunk of one axis too
        assert keys.coordinates(key, len(coordinates) + 1) is None
    assert keys.keys(np.array([coordinates] * 2, dtype=np.int64).reshape(2, -1)) == [key] * 2
    assert DraftKeys.from_json(json.loads(json.dumps(keys.to_json()))) == keys


def test_chunk_keys_of_the_text_and_of_zarr_python():
    """Section "Regular grids": c1/23/45, and c without axes; zarr-python 2.18.7 says c0 then."""
    assert DraftKeys().key((1, 23, 45)) == "c1/23/45"
    assert DraftKeys(".").key((0, 1)) == "c0.1"
    assert DraftKeys("/", TEXT.scalar_key).key(()) == "c"
    assert DraftKeys("/", ZARR_PYTHON.scalar_key).key(()) == "c0"


@pytest.mark.parametrize("key", ["", "c", "c0", "0/1", "cc0/1", "c/0/1", "c00/1", "c0.1", "c0/1/", "d0/1"])
def test_other_names_are_no_chunk_keys(key):
    assert DraftKeys().coordinates(key, 2) is None


@pytest.mark.parametrize(
    "data", [None, {}, {"name": "draft"}, {"name": "draft", "configuration": {"separator": "-"}}]
)
def test_keys_of_a_saved_plan_are_checked(data):
    with pytest.raises(MetadataError):
        DraftKeys.from_json(data)


# ----- any input

JSON = json_values(keys=("extension", "type", "metadata_key_suffix", "must_understand"), leaves=8)


@given(st.dictionaries(st.sampled_from([*ZARR_PYTHON_ENTRY, "attributes", "x"]), JSON, max_size=4))
def test_nothing_escapes_whatever_a_document_holds(changes):
    for step in (read_entry, read_group, lambda data: read_extensions(data.get("extensions"))):
        for document in (TEXT_ENTRY, ZARR_PYTHON_ENTRY, {}):
            with contextlib.suppress(ZarrstackError):
                step({**document, **changes})

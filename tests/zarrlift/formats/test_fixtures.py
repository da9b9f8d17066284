"""Archives by old writers are described as their writer saw them, or refused for a reason that stands here.

Their chunks decode to what it read, damaged ones to that or to nothing. How they are described is kept
in described.txt, and what is said of damaged ones in damaged.txt. tests/end_to_end migrates them.
"""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.support import fixtures_index
from tests.support.chances import try_each
from tests.support.v2_trees import n5, zarr_v1, zarr_v3_draft

from zarrlift.archive.chunk_inventory import take_inventory
from zarrlift.archive.chunk_reader import MissingObject
from zarrlift.archive.nodes import ArrayNode, GroupNode
from zarrlift.archive.shard_reader import chunk_reader
from zarrlift.core.codecs.base import HeadAndTail
from zarrlift.core.data_types.v3 import fill_from_json
from zarrlift.formats.describe import describe
from zarrlift.storage.open_storage import open_storage
from zarrstack.core.errors import ChunkError, ZarrstackError
from zarrstack.core.json_text import canonical

READS = {
    "zarr_v2": describe,
    "zarr_v1": zarr_v1.read,
    "n5": lambda storage: n5.read(storage, axes="reversed"),
    "n5, axes kept": lambda storage: n5.read(storage, axes="kept"),
    "zarr_v3_draft": lambda storage: zarr_v3_draft.read(storage, allow_fallback=True),
}
AXES = {"n5": "reversed", "n5, axes kept": "kept"}
FORMATS = {"zarr_v2": "zarr2", "zarr_v1": "zarr1", "n5": "n5", "zarr_v3_draft": "zarr3-draft"}
REASONS = (
    "no reader supports a data type of zero bytes",
    "with order F: zarr-python does not read what was written",  # json2, msgpack2
    "the fill value of an array of bytes is ambiguous",
    "cannot read this fill value of a datetime without unit",
    "an array of objects without an object codec",  # numcodecs before 0.6: json, msgpack without a shape
    "a node's name consists of periods only",
    "shape is not a list of lengths",  # 8.0; zarr-python 2.18 refuses it too
    "the fill value of a struct with objects is not supported",
    "a struct with object fields",
    "an array of zarr 0.x",
    *("'string'", "'object'", "label multisets", "is inside an array"),  # N5
    *("a sub-array field has no v3 data type", "json2 with order F"),  # the draft
)
NOT_WRITTEN = (
    "snappy",  # which numcodecs lacks today
    *("base64", "categorize", "json2", "msgpack2", "pickle", "vlen-array", "lz4_"),  # which no result uses
)
GHOST = "consolidated"
"""What zarr-python's draft took its consolidated metadata for: a group."""
CASES = [
    pytest.param(expected, reads, id=f"{expected}-{reads}" if "," in reads else str(expected))
    for reads in READS
    for expected in fixtures_index.archives(format=reads.partition(",")[0])
]


@pytest.mark.parametrize(("expected", "reads"), CASES)
def test_an_archive_by_an_old_writer_is_described(expected, reads):
    storage = open_storage(expected.path)
    archive = READS[reads](storage)
    draft, n5_written = reads == "zarr_v3_draft", reads.startswith("n5")
    assert archive.format == FORMATS[expected.format]
    assert archive.problems == () or not n5_written
    groups = {member.path: member for member in archive.nodes if isinstance(member, GroupNode)}
    arrays = {member.path: member for member in archive.nodes if isinstance(member, ArrayNode)}
    wanted = {path: attributes for path, attributes in expected.groups.items() if not draft or path != GHOST}
    # As text, since NaN is not equal to itself.
    assert {path: repr(dict(member.attributes)) for path, member in groups.items()} == {
        path: repr(attributes) for path, attributes in wanted.items()
    }
    assert not any(member.refused for member in groups.values())
    assert arrays.keys() == expected.arrays.keys()
    axes = AXES.get(reads, expected.axes)
    turn = 1 if axes == expected.axes else -1
    for path, member in arrays.items():
        before = expected[path]
        # zarr-python's draft stored filters among the attributes.
        assert draft or repr(dict(member.attributes)) == repr(before.attributes)
        if member.refused:
            assert any(reason in str(p) for p in member.problems for reason in REASONS), member.problems
            continue
        layout = member.layout
        assert layout is not None
        assert (layout.shape, layout.chunk_shape) == (before.shape[::turn], before.chunks[::turn])
        assert layout.data_type.numpy == before.dtype.newbyteorder("=") or not n5_written
        if before.refused_by_writer is None and before.needs is None and not n5_written:
            assert member.fill_is_null == before.fill_is_null
        if draft:
            assert not any(p.kind == "stray" or "chunks without" in p.message for p in archive.all_problems())
            inventory = take_inventory(storage, path, layout)
            assert inventory.unclaimed_count == 0
            assert layout.frame is not None or len(inventory.indexes) == before.stored_chunks
    assert archive.consolidated == expected.name.endswith(GHOST) or not draft


def decoded(storage, member, *, damaged=False):
    """The values of an array, where they are known, and how many objects exist, each of which is sound."""
    layout = member.layout
    reader = chunk_reader(storage, member.path, layout, allow_pickle=True)
    found = np.empty(layout.shape, layout.data_type.numpy)
    known = np.zeros(layout.shape, dtype=bool)
    is_ambiguous = any("zero-for-text" in str(problem) for problem in member.problems)
    if not (member.fill_is_null or is_ambiguous or found.dtype.kind == "O"):
        found[...] = fill_from_json(layout.fill_value, layout.data_type)
        known[...] = True
    count = 0
    for number in range(layout.objects.total):
        try:
            chunks = [*reader.encoded(number)]
        except MissingObject:
            continue
        count += 1
        for chunk in chunks:
            values = reader.decode(chunk)
            assert values.dtype.isnative
            assert values.flags.c_contiguous or layout.frame
            coordinates = layout.grid.coordinates(chunk.number)
            place = (*layout.grid.region(coordinates), ...)
            found[place] = values[(*layout.grid.valid(coordinates), ...)]
            known[place] = True
            if layout.frame is None and not damaged:
                assert reader.pipeline.check(HeadAndTail.of(chunk.payload))
                if not any(name in str(layout.chain) for name in NOT_WRITTEN):
                    again = reader.pipeline.decode(reader.pipeline.encode(values))
                    assert fixtures_index.same(again, values)
    return found, known, count


@pytest.mark.slow(one_in=7)  # tests/end_to_end reads every migrated fixture
@pytest.mark.parametrize(("expected", "reads"), CASES)
def test_its_chunks_decode_to_what_its_writer_read(expected, reads):
    storage = open_storage(expected.path)
    for member in READS[reads](storage).nodes:
        before = expected.arrays.get(member.path)
        if before is None or member.layout is None or before.unreadable:
            continue
        if member.layout.data_type.numpy.hasobject and not before.dtype.hasobject:
            continue  # becomes text: tests/zarrlift/planning/test_beyond_v3.py
        try:
            values, known, count = decoded(storage, member)
        except ChunkError as error:
            assert "larger than its dataset's block size" in str(error), error  # noqa: PT017  # by Java
            continue
        assert count == before.stored_chunks or member.layout.frame
        wanted = before.in_axes(AXES[reads]) if reads in AXES else before.values
        if before.dtype.kind != "O":
            wanted = wanted.astype(values.dtype)
        assert fixtures_index.same(values[known], wanted[known]), member.path


SEEN_BY_LISTING = {"attributes_dimensions_none", "block_is_folder", "row_is_file"}
"""What looks like missing blocks to whoever asks for keys only."""


@pytest.mark.parametrize("form", ["zarr_v1", "n5", "zarr_v3_draft"])
def test_damage_is_refused_at_its_key_or_gives_the_true_values(form):
    try_each(fixtures_index.bad_cases(form), assert_refused_or_true)


def assert_refused_or_true(case):
    storage = open_storage(case.path)
    if case.name == "nothing" or case.keys == ("zarr.json",):
        with contextlib.suppress(ZarrstackError):
            assert READS[case.format](storage).nodes
        return
    nodes = {member.path: member for member in READS[case.format](storage).nodes}
    assert not nodes["good"].refused or case.name == "root_array_and_group"
    for path in case.damaged:
        member = nodes.get(path)
        if not isinstance(member, ArrayNode):
            assert case.format != "zarr_v1", "a broken array is not taken for a group"
            continue
        if member.layout is None:
            assert {problem.key for problem in member.problems} & set(case.keys)
            continue
        if np.prod(member.layout.shape) > 1000:
            continue
        try:
            values, known, _ = decoded(storage, member, damaged=True)
        except ZarrstackError:
            continue
        same = fixtures_index.same(values[known].astype("<i4"), fixtures_index.GOOD[known])
        assert same or case.name in SEEN_BY_LISTING or (case.readable and case.format != "zarr_v1"), case.what


DESCRIBED = Path(__file__).with_name("described.txt")
SAID = Path(__file__).with_name("damaged.txt")
OTHERS_WORDS = {
    r"found [^;]* at line \d+, column \d+": "found a fault",
    r"'\d+[./][\d./]*'": "KEY",
}
"""Python's words for a fault in JSON, which its versions change, and the chunk that a disk lists first."""


def line(text):
    """A line of a text that is kept."""
    for pattern, word in OTHERS_WORDS.items():
        text = re.sub(pattern, word, text)
    return f"{text}\n"


@pytest.mark.golden
def test_what_old_writers_wrote_is_described_as_kept():
    """Each codec, data type with fill value, and problem of a format, once for all its arrays."""
    lines = set()
    for reads, read in READS.items():
        form = reads.partition(",")[0]
        for expected in fixtures_index.archives(format=form):
            archive = read(open_storage(expected.path))
            for problem in archive.all_problems():
                lines.add(line(f"{form}: {problem.severity}: {replace(problem, node=None, key=None)}"))
            for member in archive.nodes:
                if isinstance(member, ArrayNode) and (layout := member.layout) is not None:
                    fill = "null" if member.fill_is_null else canonical(layout.fill_value)
                    lines.add(line(f"{form}: {layout.data_type}, fill value {fill}"))
                    lines |= {line(f"{form}: {canonical(codec.to_json())}") for codec in layout.chain.codecs}
    described = "".join(sorted(lines))
    if os.environ.get("UPDATE"):
        DESCRIBED.write_text(described, encoding="utf-8")
    assert described == DESCRIBED.read_text(encoding="utf-8"), "run: UPDATE=1 python3 go.py test"


def said_of(case):
    """What reading a damaged archive says, as lines."""
    try:
        archive = READS[case.format](open_storage(case.path))
    except ZarrstackError as error:
        lines = [f"error: {error}"]
    else:
        lines = [f"{problem.severity}: {problem}" for problem in archive.all_problems()]
    for each in lines:
        yield line(f"{case.format}/{case.name}: {each.replace(str(case.path), 'PATH')}")


@pytest.mark.golden
def test_what_is_said_of_each_damaged_document_is_as_kept():
    cases = [case for form in fixtures_index.FORMATS for case in fixtures_index.bad_cases(form)]
    said = "".join(line for case in cases for line in said_of(case))
    if os.environ.get("UPDATE"):
        SAID.write_text(said, encoding="utf-8")
    assert said == SAID.read_text(encoding="utf-8"), "run: UPDATE=1 python3 go.py test"

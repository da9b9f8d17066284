"""`hdmf-zarr.objects`: whatever object codec is below, the same references, texts and rows come out."""

from __future__ import annotations

from typing import Any

import numcodecs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zarrlift.core.chain.chain import Chain
from zarrlift.core.codec_spec import CodecSpec
from zarrlift.core.codecs.pipeline import Pipeline
from zarrlift.core.data_types.v3 import DataType
from zarrstack.core.errors import CastError, ChunkError, MetadataError, UnsupportedError

CODECS = {"numcodecs.pickle": numcodecs.Pickle(), "numcodecs.json2": numcodecs.JSON()}
ROW = DataType.from_numpy(np.dtype([("n", "<i4"), ("text", "<U20"), ("to", "<U20")]))
TEXT = DataType("string")
FIELDS = ["value", "text", "reference"]

paths = st.lists(st.text("abc", min_size=1, max_size=3), max_size=3).map(lambda names: "/" + "/".join(names))
references = paths.map(lambda path: {"source": ".", "path": path, "object_id": None})
texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
rows = st.tuples(st.integers(-(2**31), 2**31 - 1), texts, references)


def objects(items: list[Any]) -> np.ndarray:
    array = np.empty(len(items), dtype=object)
    for index, item in enumerate(items):
        array[index] = item
    return array


def decoded(
    codec: str, payload: bytes, count: int, data_type: DataType = TEXT, **configuration: Any
) -> np.ndarray:
    spec = CodecSpec("hdmf-zarr.objects", {"codec": {"name": codec}, **configuration})
    return Pipeline(Chain((spec,)), (count,), data_type).decode(payload)


@given(st.sampled_from(sorted(CODECS)), st.lists(references, min_size=1, max_size=10))
def test_references_become_their_paths(codec: str, stored: list[Any]) -> None:
    payload = CODECS[codec].encode(objects(stored))
    found = decoded(codec, payload, len(stored), values="references")
    assert found.tolist() == [reference["path"] for reference in stored]


@given(st.sampled_from(sorted(CODECS)), st.lists(rows, min_size=1, max_size=10))
def test_rows_become_structs(codec: str, stored: list[Any]) -> None:
    payload = CODECS[codec].encode(objects(stored))
    found = decoded(codec, payload, len(stored), ROW, values="rows", fields=FIELDS)
    assert found.dtype == ROW.numpy
    assert found.tolist() == [(n, text, to["path"]) for n, text, to in stored]


@given(st.lists(st.one_of(texts, texts.map(str.encode)), min_size=1, max_size=10))
def test_bytes_become_text(stored: list[Any]) -> None:
    payload = CODECS["numcodecs.pickle"].encode(objects(stored))
    found = decoded("numcodecs.pickle", payload, len(stored), values="text")
    assert found.tolist() == [item if isinstance(item, str) else item.decode() for item in stored]


def test_what_was_never_written_is_empty() -> None:
    payload = CODECS["numcodecs.pickle"].encode(objects([0, 0]))
    for values in ("text", "references"):
        assert decoded("numcodecs.pickle", payload, 2, values=values).tolist() == ["", ""]
    found = decoded("numcodecs.pickle", payload, 2, ROW, values="rows", fields=FIELDS)
    assert found.tolist() == [(0, "", "")] * 2


def test_sources_that_mean_the_file_itself_are_named() -> None:
    payload = CODECS["numcodecs.pickle"].encode(objects([{"source": "a.zarr", "path": "/x"}]))
    found = decoded("numcodecs.pickle", payload, 1, values="references", own=[".", "a.zarr"])
    assert found.tolist() == ["/x"]
    with pytest.raises(CastError, match="leads out of the file"):
        decoded("numcodecs.pickle", payload, 1, values="references")


WRONG: dict[str, tuple[Any, dict[str, Any], str]] = {
    "a text that is too long": ((1, "t" * 21, 0), {"values": "rows"}, "does not fit its field"),
    "a text whose end numpy drops": ((1, "t\0", 0), {"values": "rows"}, "does not fit its field"),
    "a number that is too large": ((2**31, "", 0), {"values": "rows"}, "number does not fit"),
    "a number with a fraction": ((0.5, "", 0), {"values": "rows"}, "number does not fit"),
    "another number of fields": ((1, ""), {"values": "rows"}, "another number of fields"),
    "bytes that are no text": (b"\xff", {"values": "text"}, "not UTF-8"),
    "a number for a text": (1.5, {"values": "text"}, "not text"),
    "a text for a reference": ("/x", {"values": "references"}, "not a reference"),
    "a region": ({"source": ".", "path": "/x", "region": 1}, {"values": "references"}, "region"),
}


@pytest.mark.parametrize("name", WRONG)
def test_an_item_that_means_nothing_there_is_told_with_its_place(name: str) -> None:
    item, configuration, words = WRONG[name]
    payload = CODECS["numcodecs.pickle"].encode(objects([0, item]))
    rows = configuration["values"] == "rows"
    more = {"data_type": ROW, "fields": FIELDS} if rows else {}
    with pytest.raises(CastError, match=words) as caught:
        decoded("numcodecs.pickle", payload, 2, **configuration, **more)
    assert "at (1,) of the chunk" in str(caught.value)


def test_it_is_only_read() -> None:
    spec = CodecSpec("hdmf-zarr.objects", {"codec": {"name": "vlen-bytes"}, "values": "text"})
    pipeline = Pipeline(Chain((spec,)), (1,), DataType("string"))
    with pytest.raises(UnsupportedError, match="is read, but not written"):
        pipeline.encode(objects(["a"]))
    with pytest.raises(ChunkError):
        pipeline.decode(b"\1\0\0\0")


@pytest.mark.parametrize(
    "configuration",
    [
        {"codec": {"name": "numcodecs.pickle"}, "values": "anything"},
        {"codec": {"name": "numcodecs.pickle", "configuration": {"buffers": 1}}, "values": "text"},
        {"codec": {"name": "numcodecs.pickle"}, "values": "rows", "fields": ["value"]},
        {"codec": 7, "values": "text"},
        {"values": "text"},
    ],
)
def test_a_configuration_that_makes_no_sense_is_told(configuration: dict[str, Any]) -> None:
    with pytest.raises(MetadataError):
        Pipeline(Chain((CodecSpec("hdmf-zarr.objects", configuration),)), (1,), ROW)

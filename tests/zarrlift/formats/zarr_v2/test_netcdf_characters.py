"""`<U1` over characters of one byte, as netcdf-c 4.9.0 writes them: what a chunk's length tells, no more."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.fixtures_index import archive
from tests.support.v2_trees import array, messages, node, read

import zarrlift
from zarrlift.archive.nodes import ArrayNode
from zarrlift.core.data_types.v2_fill import v2_fill_to_scalar
from zarrlift.formats.describe import describe
from zarrlift.storage.local.storage import LocalStorage
from zarrstack.core.errors import MetadataError

TEXT = array(dtype="<U1", fill_value="")
"""Chunks of 2 x 3: 24 bytes of text, or 6 characters of one byte."""
BYTES = "null_terminated_bytes"


def found(root: Path, document: dict[str, Any], **chunks: bytes) -> ArrayNode:
    """The array at the root with these chunks, by key with `_` for `.`."""
    entries = {".zarray": document} | {key.strip("k").replace("_", "."): data for key, data in chunks.items()}
    result = node(read(root, entries))
    assert isinstance(result, ArrayNode)
    return result


@pytest.mark.parametrize("mode", ["nczarr", "zarr"])
@pytest.mark.parametrize("path", ["plane", "line", "filled", "letter"])
def test_with_the_mark_and_without_it_netcdf_characters_are_bytes(mode: str, path: str) -> None:
    one = archive(f"netcdf-4.9.0/{mode}")
    seen = node(describe(LocalStorage(one.path)), path)
    assert isinstance(seen, ArrayNode)
    assert seen.layout is not None
    assert seen.layout.data_type.name == BYTES
    assert "text-of-bytes" in messages(seen, "note" if mode == "nczarr" else "warning")


@pytest.mark.parametrize("key", ["k1_1", "k0_0"])
def test_the_chunk_that_is_there_tells(key: str, tmp_path: Path) -> None:
    seen = found(tmp_path, TEXT, **{key: b"abcdef"})
    assert seen.layout is not None
    assert seen.layout.data_type.name == BYTES
    assert "6 bytes" in messages(seen, "warning")


def test_a_chunk_below_folders_tells_too(tmp_path: Path) -> None:
    seen = node(read(tmp_path, {".zarray": {**TEXT, "dimension_separator": "/"}, "1/0": b"abcdef"}))
    assert isinstance(seen, ArrayNode)
    assert seen.layout is not None
    assert seen.layout.data_type.name == BYTES


@pytest.mark.parametrize(
    ("document", "chunk"),
    [
        (TEXT, bytes(24)),
        (TEXT, b"abcde"),
        (TEXT, b""),
        (TEXT, b"a\0\0\0b\0"),  # text, cut to its first quarter
        ({**TEXT, "dtype": ">U1"}, b"abcdef"),
        ({**TEXT, "dtype": "<U2"}, b"abcdef"),
        ({**TEXT, "compressor": {"id": "zlib", "level": 1}}, b"abcdef"),
        ({**TEXT, "filters": [{"id": "shuffle", "elementsize": 2}]}, b"abcdef"),
    ],
)
def test_everything_else_stays_what_it_says(document: dict[str, Any], chunk: bytes, tmp_path: Path) -> None:
    seen = found(tmp_path, document, k0_0=chunk)
    assert seen.layout is not None
    assert seen.layout.data_type.name == "fixed_length_utf32"
    assert "text-of-bytes" not in messages(seen, "warning")


def test_without_a_chunk_it_is_text(tmp_path: Path) -> None:
    seen = found(tmp_path, TEXT)
    assert seen.layout is not None
    assert seen.layout.data_type.name == "fixed_length_utf32"


def test_where_a_compressor_hides_the_length_the_error_says_what_to_do(tmp_path: Path) -> None:
    document = {**TEXT, "compressor": {"id": "zlib", "level": 1}}
    source = tmp_path / "source.zarr"
    found(source, document, k0_0=zlib.compress(b"abcdef"), k0_1=zlib.compress(b"abcde"))
    outcome = zarrlift.migrate(source, tmp_path / "out.zarr")
    advice = {p.key: p.advice or "" for p in outcome.problems if p.kind == "chunk"}
    assert "set dtype to |S1" in advice["0.0"]
    assert "backup" in advice["0.1"]


@pytest.mark.parametrize("text", ["-", "x", " ", "="])
def test_a_character_is_its_own_fill_value(text: str) -> None:
    """netcdf-c writes it so; base64 of one byte has four characters."""
    assert v2_fill_to_scalar(text, np.dtype("S1")) == text.encode()


def test_what_may_be_base64_is_still_no_guess() -> None:
    assert v2_fill_to_scalar("LQ==", np.dtype("S1")) == b"-"
    with pytest.raises(MetadataError):
        v2_fill_to_scalar("--", np.dtype("S1"))

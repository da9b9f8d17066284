"""Each row of the table of codecs is read, kept or re-encoded, and refused without its package."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest

import zarrlift
from zarrlift.core.chain.chain import Chain
from zarrlift.core.chain.unchanged_bytes import keep_problems
from zarrlift.core.codec_spec import CodecSpec
from zarrlift.core.codec_table import TABLE, is_registered
from zarrlift.core.codecs import registry
from zarrlift.core.codecs.base import InnerChunk
from zarrlift.core.codecs.pipeline import Pipeline
from zarrlift.core.codecs.registry import compile_array_codec, compile_bytes_codec
from zarrlift.core.data_types.v3 import DataType
from zarrlift.planning.portable_codecs import portable_tail
from zarrstack.core.errors import UnsupportedError, ZarrstackError

NUMBERS = np.arange(-6, 18, dtype="<i4").reshape(4, 6)
FLOATS = NUMBERS.astype("<f4")
TEXT = np.array(["a", "b", "", "a"], "<U1")
CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "cast_value": {"data_type": "int16"},
    "numcodecs.astype": {"encode_dtype": "<i2", "decode_dtype": "<i4"},
    "numcodecs.bitround": {"keepbits": 20},
    "numcodecs.categorize": {"labels": ["a", "b"], "dtype": "<U1"},
    "numcodecs.delta": {"dtype": "<i4"},
    "numcodecs.fixedscaleoffset": {"offset": -1, "scale": 2, "dtype": "<i4", "astype": "<i4"},
    "numcodecs.object-categorize": {"labels": ["a", "b"]},
    "numcodecs.quantize": {"digits": 1, "dtype": "<f4"},
    "numcodecs.vlen-array": {"dtype": "<i4"},
    "imagecodecs_zfp": {"header": True},
    "numpy_bytes": {"dtype": "<i4"},
    "hdmf-zarr.objects": {"codec": "vlen-utf8", "values": "items"},
}
"""Members that have no default."""
ARRAYS = {
    "numcodecs.bitround": FLOATS,
    "numcodecs.quantize": FLOATS,
    "numcodecs.packbits": NUMBERS > 3,
    "numcodecs.categorize": TEXT,
}
MADE = {name: row for name, row in TABLE.items() if row.made_by is not None}
BUFFERS = {name: row for name, row in MADE.items() if row.kind != "serializer"}
HERE = [name for name, row in BUFFERS.items() if row.v2_id and row.extra is None]
IN_NUMCODECS = {*numcodecs.registry.codec_registry, *numcodecs.registry.entries}
"""Others have a class of their own; what their writers wrote is in `codecs/test_golden.py`."""


def spec_of(name: str) -> CodecSpec:
    return CodecSpec(name, CONFIGURATIONS.get(name, {}))


def compiled(name: str) -> Any:
    if TABLE[name].kind == "serializer":
        data_type = DataType("int32" if name in ("bytes", "numpy_bytes") else "object")
        return compile_array_codec(spec_of(name), InnerChunk((4,), data_type))
    return compile_bytes_codec(spec_of(name), ARRAYS.get(name, FLOATS).dtype)


@pytest.mark.parametrize("name", MADE)
def test_a_row_names_a_class_and_is_compiled_by_it(name: str) -> None:
    module, _, cls = str(MADE[name].made_by).partition(":")
    expected = getattr(import_module(module, "zarrlift.core.codecs"), cls)
    if name == "numcodecs.pickle":
        with pytest.raises(UnsupportedError, match="--allow-pickle"):
            compiled(name)
        return
    assert type(compiled(name)) is expected


@pytest.mark.parametrize("name", HERE)
def test_what_a_filter_or_compressor_of_zarr_v2_wrote_is_read_and_kept_or_encoded_again(name: str) -> None:
    row, array = TABLE[name], ARRAYS.get(name, NUMBERS)
    data_type = DataType.from_numpy(array.dtype)
    little = CodecSpec("bytes", {"endian": "little"} if array.itemsize > 1 else {})
    chain = Chain((little, spec_of(name)))
    pipeline = Pipeline(chain, array.shape, data_type)
    if row.v2_id in IN_NUMCODECS:
        codec = numcodecs.get_codec({"id": row.v2_id, **CONFIGURATIONS.get(name, {})})
        payload = numcodecs.compat.ensure_bytes(codec.encode(array))
        assert np.array_equal(pipeline.decode(payload), array)
    assert np.array_equal(pipeline.decode(pipeline.encode(array)), array)

    portable, _ = portable_tail(chain.codecs[1:], data_type)
    assert all(is_registered(codec.name) for codec in portable)
    again = Pipeline(Chain((little, *portable)), array.shape, data_type)
    assert np.array_equal(again.decode(again.encode(array)), array)

    assert row.readers is not None
    is_kept = not list(keep_problems(chain, data_type))
    assert is_kept is ("zarr-python" not in row.readers.refused_by.split()), name
    if is_kept:
        assert Chain.from_json(chain.to_json()) == chain


@pytest.mark.parametrize("name", [name for name, row in MADE.items() if row.package is not None])
def test_without_its_package_a_codec_is_refused_by_the_package(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "find_spec", lambda _: None)
    row = MADE[name]
    with pytest.raises(UnsupportedError, match=rf"pip install {row.package} \(the extra {row.extra}\)"):
        compiled(name)


@pytest.mark.parametrize("name", [name for name, row in MADE.items() if row.members is not None])
def test_an_unknown_member_is_refused_by_name(name: str) -> None:
    spec = CodecSpec(name, {**CONFIGURATIONS.get(name, {}), "surprise": 1})
    with pytest.raises(ZarrstackError, match=r"unknown members in its configuration; found surprise"):
        MADE[name].read(spec)


def test_what_is_named_here_and_the_registered_codec_of_the_same_bytes_have_a_row() -> None:
    assert (CONFIGURATIONS.keys() | ARRAYS.keys()) - TABLE.keys() == set()
    likes = [row.like.name for row in TABLE.values() if row.like is not None]
    assert sorted({*likes}) == ["blosc", "crc32c", "gzip", "zstd"]
    assert all(is_registered(name) for name in likes)


# ----- codecs that an installed package registers

ADDS_ONE = """
import numpy as np
from numcodecs.abc import Codec
from numcodecs.compat import ensure_ndarray

class AddsOne(Codec):
    codec_id = "adds_one"

    def __init__(self, cut=False, typed=None):
        self.cut, self.typed = cut, typed

    def encode(self, buf):
        return (ensure_ndarray(buf).reshape(-1).view("u1") + 1).tobytes()

    def decode(self, buf, out=None):
        values = ensure_ndarray(buf).reshape(-1).view("u1") - 1
        values = values[1:] if self.cut else values
        return values.view(self.typed) if self.typed else values.tobytes()
"""
MOVE = """
import json, sys
import zarr, zarrlift

for source in sys.argv[1:]:
    outcome = zarrlift.migrate(source, source + ".new")
    print(zarr.open(source + ".new")[:].tolist() if outcome.ok else json.dumps(outcome.to_json()))
"""


def moved(*sources: Path, package: Path) -> list[str]:
    """What a process that finds the package makes of each archive."""
    found = os.pathsep.join(filter(None, [str(package), os.environ.get("PYTHONPATH", "")]))
    environment = {**os.environ, "PYTHONPATH": found}
    command = [sys.executable, "-c", MOVE, *sources]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A folder with an installed package that registers a codec with numcodecs."""
    folder = tmp_path / "installed"
    metadata = folder / "adds_one-1.0.dist-info"
    metadata.mkdir(parents=True)
    (folder / "adds_one.py").write_text(ADDS_ONE)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: adds-one\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[numcodecs.codecs]\nadds_one = adds_one:AddsOne\n")
    return folder


def archive(root: Path, **configuration: Any) -> Path:
    """A Zarr v2 array whose chunk that codec encoded."""
    root.mkdir()
    document = {
        "zarr_format": 2, "shape": [4], "chunks": [4], "dtype": "<i4", "order": "C", "fill_value": 0,
        "filters": None, "compressor": {"id": "adds_one", **configuration},
    }  # fmt: skip
    (root / ".zarray").write_text(json.dumps(document))
    values = np.array([5, 6, 7, 8], "<i4")
    (root / "0").write_bytes((values.view("u1") + 1).tobytes())
    return root


PROBLEMS: dict[str, dict[str, Any]] = {
    "unpacks to the wrong size": {"cut": True},
    "decodes to another data type": {"typed": "<f4"},
    "invalid configuration": {"surprise": 1},
}


def test_a_codec_that_an_entry_point_names_decodes_and_what_it_decodes_to_is_checked(
    package: Path, tmp_path: Path
) -> None:
    sources = [archive(tmp_path / str(n), **options) for n, options in enumerate(({}, *PROBLEMS.values()))]
    good, *bad = moved(*sources, package=package)
    assert "[5, 6, 7, 8]" in good
    for problem, found in zip(PROBLEMS, bad, strict=True):
        assert problem in found


def test_without_the_package_it_is_unknown(tmp_path: Path) -> None:
    (refused,) = zarrlift.plan(archive(tmp_path / "a")).refusals
    assert "unknown codec 'adds_one'" in str(refused.problems)

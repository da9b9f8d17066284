"""Random Zarr v2 arrays, written by zarr-python, and random wishes about what becomes of them."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import zarr
from hypothesis import strategies as st

from zarrlift import ArrayRecipe

NUMBERS = tuple(
    f"{order}{kind}" for kind in ("i2", "i4", "u4", "i8", "f2", "f4", "f8", "c8", "c16") for order in "<>"
)
DTYPES = (*NUMBERS, "|b1", "|i1", "|u1", "|S3", "|V5", "<U2", ">U2", "<M8[s]", ">M8[ns]", "<m8[D]")
COMPRESSORS = (
    None,
    numcodecs.Zlib(1),
    numcodecs.GZip(1),
    numcodecs.BZ2(1),
    numcodecs.LZMA(preset=0),
    numcodecs.LZ4(),
    numcodecs.Zstd(1),
    numcodecs.Blosc("lz4", shuffle=numcodecs.Blosc.SHUFFLE),
    numcodecs.Blosc("zstd", shuffle=numcodecs.Blosc.BITSHUFFLE),
    numcodecs.Blosc("zlib", shuffle=numcodecs.Blosc.AUTOSHUFFLE),
)
WIDER = {"i2": "int32", "i4": "int64", "u4": "int64", "f2": "float32", "f4": "float64", "c8": "complex128"}
"""Kinds of numbers -> a data type that holds every one of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """An array that is to be written."""

    dtype: str
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    order: str
    separator: str
    fill: Any
    """As a Python value; None is null."""
    compressor: Any
    filters: tuple[Any, ...]
    seed: int
    written: float
    """About which part of the chunks is written."""
    empties: bool
    """Whether chunks that hold nothing but the fill value are stored."""
    attributes: dict[str, Any] = field(default_factory=dict)


def _filters(dtype: str) -> st.SearchStrategy[tuple[Any, ...]]:
    """Filters that give every bit back."""
    kind, size = np.dtype(dtype).kind, np.dtype(dtype).itemsize
    choices: list[tuple[Any, ...]] = [(), (), (numcodecs.Shuffle(size),), (numcodecs.CRC32(),)]
    choices += [(numcodecs.Zlib(1), numcodecs.Adler32())]
    if kind in "iu":
        other = dtype.replace("<", "?").replace(">", "<").replace("?", ">")
        choices += [
            (numcodecs.Delta(dtype),),
            (numcodecs.Delta(dtype, other),),
            (numcodecs.Delta(dtype), numcodecs.Shuffle(size)),
            (numcodecs.AsType(other, dtype), numcodecs.Delta(other)),
        ]
    if kind == "b":
        choices.append((numcodecs.PackBits(),))
    return st.sampled_from(choices)


def _fill(dtype: str) -> st.SearchStrategy[Any]:
    kind = np.dtype(dtype).kind
    values: dict[str, list[Any]] = {
        "b": [True, False],
        "f": [0.0, -0.0, 1.5, float("nan"), float("inf"), float("-inf")],
        "c": [0j, 1 - 2j, complex("nan")],
        "S": [b"", b"a"],
        "U": ["", "é"],
        "V": [b"\0" * 5, b"abcde"],
        "M": [np.datetime64("NaT", "s"), np.datetime64(7, "s")],
        "m": [np.timedelta64("NaT", "D"), np.timedelta64(7, "D")],
    }
    found: list[Any] = values.get(kind, [0, 7])
    # zarr-python 3.1.6 does not read the null fill it writes for these.
    return st.sampled_from(found if kind in "VMmU" else [*found, None])


@st.composite
def wanted(draw: st.DrawFn, dtypes: tuple[str, ...] = DTYPES, filtered: bool = True) -> Wanted:
    """Any array: 0-d, without elements, chunks larger than it, whole or with holes."""
    dtype = draw(st.sampled_from(dtypes))
    shape = tuple(draw(st.lists(st.integers(0, 7), max_size=3)))
    return Wanted(
        dtype=dtype,
        shape=shape,
        chunks=tuple(draw(st.integers(1, 9)) for _ in shape),
        order=draw(st.sampled_from("CF")),
        separator=draw(st.sampled_from("./")),
        fill=draw(_fill(dtype)),
        compressor=draw(st.sampled_from(COMPRESSORS)),
        filters=draw(_filters(dtype)) if filtered else (),
        seed=draw(st.integers(0, 999)),
        written=draw(st.sampled_from([0, 0.5, 1])),
        empties=draw(st.booleans()),
        attributes=draw(
            st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=3), max_size=2)
        ),
    )


@st.composite
def recipes(draw: st.DrawFn, array: Wanted) -> ArrayRecipe:
    """Any wish that loses nothing."""
    keys = {
        "key_encoding": draw(st.sampled_from([None, "default", "v2"])),
        "separator": draw(st.sampled_from([None, ".", "/"])),
    }
    codecs = draw(
        st.sampled_from(["portable", "keep", "none", "zstd:1", "gzip:1+crc32c", "blosc:lz4:1:bitshuffle"])
    )
    if codecs == "keep":
        return ArrayRecipe(codecs=codecs, **keys)
    wider = WIDER.get(array.dtype[1:])
    return ArrayRecipe(
        codecs=codecs,
        endian=draw(st.sampled_from(["keep", "little", "big"])),
        order=draw(st.sampled_from(["keep", "C", "F"])),
        dtype=draw(st.sampled_from([None, None, wider])),
        drop_empty=array.fill is not None and draw(st.booleans()),
        **keys,
    )


def values_of(array: Wanted) -> np.ndarray[Any, Any]:
    """Random bits as values; fill values here and there."""
    rng = np.random.default_rng(array.seed)
    dtype = np.dtype(array.dtype)
    count = int(np.prod(array.shape, dtype=int))
    if dtype.kind == "b":
        values = rng.integers(0, 2, count).astype(bool)
    elif dtype.kind == "U":
        values = np.array(["", "a", "äb", "\U0001f600"], dtype)[rng.integers(0, 4, count)]
    elif dtype.kind == "S":
        values = np.array([b"", b"a", b"a\0b", b"\xff\xfe\x01"], dtype)[rng.integers(0, 4, count)]
    else:
        values = np.frombuffer(rng.bytes(count * dtype.itemsize), dtype).copy()
    if array.fill is not None and dtype.kind != "V":
        values[rng.random(count) < 0.3] = array.fill
    return values.reshape(array.shape)


def write(place: Path, array: Wanted, path: str = "a") -> None:
    """Write an array with zarr-python, as Zarr v2; some chunks stay away."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        group = zarr.open_group(place, mode="a", zarr_format=2)
        made = group.create_array(
            path,
            shape=array.shape,
            chunks=array.chunks,
            dtype=array.dtype,
            order=array.order,
            fill_value=array.fill,
            filters=list(array.filters) or None,
            compressors=array.compressor,
            chunk_key_encoding={"name": "v2", "separator": array.separator},
            attributes=array.attributes,
            config={"write_empty_chunks": array.empties},
        )
        values = values_of(array)
        rng = np.random.default_rng(array.seed + 1)
        counts = [-(-size // length) for size, length in zip(array.shape, array.chunks, strict=True)]
        for index in np.ndindex(*counts):
            if rng.random() < array.written:
                where = tuple(
                    slice(i * length, min((i + 1) * length, size))
                    for i, length, size in zip(index, array.chunks, array.shape, strict=True)
                )
                made[where] = values[where]


def bits(place: Path, path: str, version: int, dtype: str) -> tuple[tuple[int, ...], bytes]:
    """Shape and bits, in native byte order, of what zarr-python reads."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = zarr.open_array(place / path, mode="r", zarr_format=version)
        values = np.asarray(found[...], dtype=found.dtype)
    native = np.dtype(dtype).newbyteorder("=")
    assert values.dtype.newbyteorder("=") == native, (values.dtype, native)
    return values.shape, np.ascontiguousarray(values.astype(native)).tobytes()


def tree(path: Path) -> dict[str, bytes]:
    """Every file below a path, by relative name."""
    found = (file for file in path.rglob("*") if file.is_file())
    return {file.relative_to(path).as_posix(): file.read_bytes() for file in found}

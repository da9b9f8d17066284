"""Recognizes valid `.zarray` documents of the common form without zarr-metadata.

zarr-metadata, which checks all others, takes longer to load than a small archive takes to move (90 ms,
against 50 for numpy, Python 3.11): without this module, one small array takes 1.27 times the processor time
(docs/design/speed.md). It accepts every document accepted here, as a property test verifies
(`tests/zarrlift/formats/zarr_v2/test_fast_path.py`); a document not accepted here may still be valid.

Specification: https://zarr-specs.readthedocs.io/en/latest/v2/v2.0.html#metadata; members of codecs as written
by numcodecs 0.16 and before.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Final

from zarrstack.core.json_text import JSON, JSONObject

_NEEDED: Final = frozenset(
    {"zarr_format", "shape", "chunks", "dtype", "compressor", "fill_value", "order", "filters"}
)
_MAY: Final = _NEEDED | {"dimension_separator"}
_ONE_BYTE: Final = frozenset({"|b1", "|i1", "|u1"})
_KINDS: Final = frozenset({"i2", "i4", "i8", "u2", "u4", "u8", "f2", "f4", "f8"})
_TEXT: Final = re.compile(r"(\|S|[<>]U)[1-9][0-9]{0,3}")
_TIME: Final = re.compile(r"[<>][mM]8\[(ns|us|ms|[smhDWMY])\]")
_OBJECT: Final = "|O"
_CNAMES: Final = frozenset({"blosclz", "lz4", "lz4hc", "zlib", "zstd"})


def plainly_right(document: JSONObject) -> bool:
    """Whether a `.zarray` is certainly valid; `shape` and `chunks` are checked elsewhere."""
    return (
        _NEEDED <= document.keys() <= _MAY
        and _is(document["zarr_format"], 2, 2)
        and document["order"] in ("C", "F")
        and document.get("dimension_separator", ".") in (".", "/")
        and _typed(document["dtype"], document["filters"], document["fill_value"])
        and _compressor(document["compressor"])
    )


def _typed(dtype: JSON, filters: JSON, fill: JSON) -> bool:
    """Whether a dtype, the codec of its objects if any, and its fill value are certainly valid."""
    if not isinstance(dtype, str):
        return False
    if dtype == _OBJECT:
        return _objects(filters) and (fill is None or fill == "" or _is(fill, 0, 0))
    if filters is not None:
        return False
    if _TEXT.fullmatch(dtype):
        return fill is None or fill == ""
    if _TIME.fullmatch(dtype):
        return fill is None or fill == "NaT" or _is(fill, -(2**63), 2**63 - 1)
    return _numbers(dtype) and _fill(fill, dtype)


def _objects(filters: JSON) -> bool:
    """Whether the filters are exactly one object codec, as numcodecs writes it."""
    if not isinstance(filters, list) or len(filters) != 1 or not isinstance(filters[0], dict):
        return False
    members = _OF_OBJECTS.get(str(filters[0].get("id")))
    return members is not None and filters[0].keys() - {"id"} <= members


def _is(value: JSON, low: int, high: int) -> bool:
    return type(value) is int and low <= value <= high


def _numbers(dtype: str) -> bool:
    return dtype in _ONE_BYTE or (dtype[:1] in ("<", ">") and dtype[1:] in _KINDS)


def _fill(fill: JSON, dtype: str) -> bool:
    """Whether a fill value is a value of the dtype, or null."""
    if fill is None:
        return True
    kind, bits = dtype[1], 8 * int(dtype[2:])
    if kind == "b":
        return type(fill) is bool
    if kind == "f":
        return fill in ("NaN", "Infinity", "-Infinity") if type(fill) is str else _small(fill)
    return _is(fill, 0, 2**bits - 1) if kind == "u" else _is(fill, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _small(fill: JSON) -> bool:
    """Whether a number is a float within the range of every floating-point type."""
    return type(fill) is float and isfinite(fill) and abs(fill) < 65504.0  # the maximum of 16 bits


def _compressor(compressor: JSON) -> bool:
    if compressor is None:
        return True
    if not isinstance(compressor, dict) or not isinstance(compressor.get("id"), str):
        return False
    checks = _COMPRESSORS.get(compressor["id"])
    if checks is None or compressor.keys() - {"id"} - _LATER != checks.keys() - _LATER:
        return False
    return all(name in checks and checks[name](value) for name, value in compressor.items() if name != "id")


def _level(low: int, high: int) -> Callable[[JSON], bool]:
    return lambda value: _is(value, low, high)


_COMPRESSORS: Final[Mapping[str, Mapping[str, Callable[[JSON], bool]]]] = {
    "blosc": {
        "cname": lambda value: isinstance(value, str) and value in _CNAMES,
        "clevel": _level(0, 9),
        "shuffle": _level(0, 2),
        "blocksize": _level(0, 0),
    },
    "bz2": {"level": _level(1, 9)},
    "gzip": {"level": _level(0, 9)},
    "lz4": {"acceleration": _level(1, 1)},
    "zlib": {"level": _level(0, 9)},
    "zstd": {"level": _level(0, 22), "checksum": lambda value: type(value) is bool},
}
"""Name -> members, each with the test for certainly valid values."""
_OF_OBJECTS: Final[Mapping[str, frozenset[str]]] = {
    "vlen-utf8": frozenset(),
    "vlen-bytes": frozenset(),
    "pickle": frozenset({"protocol"}),
    "json2": frozenset(
        {
            *("encoding", "skipkeys", "ensure_ascii", "check_circular", "allow_nan"),
            *("sort_keys", "indent", "separators", "strict"),
        }
    ),
}
"""Name -> members; their values are checked when the codec is created."""
_LATER: Final = frozenset({"checksum"})
"""Members added by later versions of numcodecs."""

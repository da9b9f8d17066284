"""Converts the bytes codecs of a legacy chain to registered ones with equal values.

The rules of a portable copy: codecs known to every reader are unchanged; zlib becomes gzip, which contains
the same deflate stream; a shuffle and its compressor become blosc around the same stream; checksums become a
crc32c at the end; another filter that only helps compression is replaced by blosc-zstd with shuffle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from zarrstack.core.errors import Problem, UnsupportedError

from ..core.chain.codec_limits import limits_problem, within_limits
from ..core.chain.reader_table import codecs
from ..core.codec_members import MAX_TYPESIZE
from ..core.codec_spec import CodecSpec
from ..core.codec_table import REGISTERED_FILTERS, is_registered, registered, role_of
from ..core.data_types.v3 import DataType
from ..core.problems import note

_STREAMS: Final = {"numcodecs.zlib": "zlib", "numcodecs.lz4": "lz4", "zstd": "zstd"}
"""Codecs whose streams a blosc container may have -> its name for them."""
_ZLIB_DEFAULT: Final = 6
"""The meaning of zlib's level -1 (zlib.h, Z_DEFAULT_COMPRESSION)."""


def portable_tail(
    tail: tuple[CodecSpec, ...], data_type: DataType
) -> tuple[tuple[CodecSpec, ...], tuple[Problem, ...]]:
    """Equivalents, known to every reader, of the codecs after the array-to-bytes codec; a note per change.

    `data_type` is the destination's. Raises UnsupportedError for an unknown codec.
    """
    named = tuple(_registered(spec, data_type) for spec in tail)
    for spec in named:
        if role_of(spec.name) in (None, "items", "frame"):
            raise UnsupportedError(
                f"unknown codec {spec.name!r}",
                found=str(spec),
                expected="one of " + ", ".join(sorted(name for name in codecs() if "." in name)),
            )
    if all(_fits(spec) for spec in named):
        return named, ()
    filters = named[: sum(spec.name in REGISTERED_FILTERS for spec in named)]
    named, tail = named[len(filters) :], tail[len(filters) :]
    if filters and filters[-1].name == "cast_value":
        data_type = DataType(str(filters[-1].configuration["data_type"]))
    rest = [spec for spec in named if role_of(spec.name) != "checksum"]
    checked = len(rest) < len(named)
    notes = []
    if rest and rest[-1].name == "numcodecs.zlib" and all(_fits(spec) for spec in rest[:-1]):
        gzip = _gzip(rest[-1])
        notes.append(_note("zlib streams are rewrapped as gzip", tail, (*rest[:-1], gzip)))
        rest[-1] = gzip
    elif not checked and (frame := framed_form(rest)) is not None:
        notes.append(_note("shuffled streams are framed as blosc", tail, (frame,)))
        rest = [frame]
    elif not all(_fits(spec) for spec in rest):
        replaced = (blosc_zstd(data_type),)
        filtered = any(role_of(spec.name) == "filter" for spec in rest)
        words = "are decoded, and their values compressed again" if filtered else "are replaced"
        notes.append(_note(f"codecs without a registered name {words}", tuple(rest), replaced))
        rest = [*replaced]
    if checked:
        rest.append(CodecSpec("crc32c"))
        if any(role_of(spec.name) == "checksum" and spec.name != "crc32c" for spec in named):
            notes.append(_note("checksums are replaced by crc32c at the end", tail, tuple(rest)))
    return (*filters, *rest), tuple(notes)


def framed_form(codecs: Sequence[CodecSpec]) -> CodecSpec | None:
    """The blosc whose containers hold the streams of a shuffle and a compressor; None for other codecs."""
    if len(codecs) != 2 or codecs[0].name != "numcodecs.shuffle":
        return None
    cname = _STREAMS.get(codecs[1].name)
    size = codecs[0].configuration.get("elementsize")
    if cname is None or type(size) is not int or not 1 < size <= MAX_TYPESIZE:
        return None
    level = codecs[1].configuration.get("level", 1)
    level = min(max(level, 1), 9) if type(level) is int else 1
    configuration = {"cname": cname, "clevel": level, "shuffle": "shuffle", "typesize": size, "blocksize": 0}
    return CodecSpec("blosc", configuration)


def blosc_zstd(data_type: DataType) -> CodecSpec:
    """The replacement for a chain without a portable equivalent."""
    return complete(CodecSpec("blosc", {"cname": "zstd", "clevel": 5, "blocksize": 0}), data_type)


def complete(spec: CodecSpec, data_type: DataType) -> CodecSpec:
    """A codec with its open parameters set: blosc's shuffle and typesize.

    One-byte items are bit-shuffled, as by numcodecs' automatic shuffle; for variable-length text neither
    shuffle helps. tensorstore requires `typesize` with every shuffle (0.1.86).
    """
    if spec.name != "blosc":
        return spec
    size = data_type.itemsize
    configuration = dict(spec.configuration)
    if size is None or size > 255:
        fitting, size = "noshuffle", 1
    else:
        fitting = "bitshuffle" if size == 1 else "shuffle"
    shuffle = configuration.get("shuffle", fitting)
    configuration = {
        "cname": configuration["cname"],
        "clevel": configuration["clevel"],
        "shuffle": shuffle,
        "typesize": configuration.get("typesize", size),
        "blocksize": configuration.get("blocksize", 0),
    }
    return replace(spec, configuration=configuration)


def resize(spec: CodecSpec, data_type: DataType) -> CodecSpec:
    """A codec adapted from another data type to this one: blosc shuffles by the item size."""
    if spec.name != "blosc":
        return spec
    configuration = {name: value for name, value in spec.configuration.items() if name != "typesize"}
    if configuration.get("shuffle") != "noshuffle":
        configuration.pop("shuffle", None)
    return complete(CodecSpec("blosc", configuration), data_type)


def _registered(spec: CodecSpec, data_type: DataType) -> CodecSpec:
    """The zstd, gzip, blosc and crc32c of numcodecs under their v3 names."""
    renamed = registered(spec, data_type.itemsize or 1)
    return renamed if _fits(renamed) else spec


def _fits(spec: CodecSpec) -> bool:
    return is_registered(spec.name) and limits_problem(within_limits(spec)) is None


def _gzip(zlib: CodecSpec) -> CodecSpec:
    level = zlib.configuration.get("level", 1)  # numcodecs' default
    if type(level) is not int or level < 0:
        level = _ZLIB_DEFAULT
    return CodecSpec("gzip", {"level": min(level, 9)})


def _note(message: str, before: tuple[CodecSpec, ...], after: tuple[CodecSpec, ...]) -> Problem:
    return note(
        "codec",
        message,
        found=" > ".join(map(str, before)) or "none",
        expected=" > ".join(map(str, after)) or "none",
    )

"""Converts the bytes codecs of a legacy chain to registered ones with equal values.

The rules of a portable copy: codecs known to every reader are unchanged; zlib becomes gzip, which contains
the same deflate stream; checksums become a crc32c at the end; a filter that only helps compression is
replaced by blosc-zstd with shuffle.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from zarrstack.core.errors import Problem, UnsupportedError

from ..core.chain.array_filters import ARRAY_FILTERS
from ..core.chain.codec_limits import limits_problem, within_limits
from ..core.chain.optional_codecs import PACKAGES
from ..core.chain.reader_table import codecs
from ..core.codec_spec import CodecSpec
from ..core.data_types.v3 import DataType
from ..core.problems import note

CHECKSUMS: Final = frozenset(
    f"numcodecs.{name}" for name in ("crc32", "crc32c", "adler32", "fletcher32", "jenkins_lookup3")
)
FILTERS: Final = ARRAY_FILTERS | {"numcodecs.shuffle"}
COMPRESSORS: Final = frozenset(
    {
        *(f"numcodecs.{name}" for name in ("zlib", "lz4", "bz2", "lzma", "base64")),
        *("lz4_block", "lz4_bare"),
        *PACKAGES,
    }
)
"""Unregistered compressors of Zarr v2 and N5, and base64, which is removed in the same way."""
_REGISTERED: Final = frozenset({"gzip", "zstd", "blosc", "crc32c"})
_ZLIB_DEFAULT: Final = 6
"""The meaning of zlib's level -1 (zlib.h, Z_DEFAULT_COMPRESSION)."""


def portable_tail(
    tail: tuple[CodecSpec, ...], data_type: DataType
) -> tuple[tuple[CodecSpec, ...], tuple[Problem, ...]]:
    """Equivalents, known to every reader, of the codecs after the array-to-bytes codec; a note per change.

    `data_type` is the destination's. Raises UnsupportedError for an unknown codec.
    """
    named = tuple(_registered(spec) for spec in tail)
    for spec in named:
        if spec.name not in _REGISTERED | CHECKSUMS | FILTERS | COMPRESSORS:
            raise UnsupportedError(
                f"unknown codec {spec.name!r}",
                found=str(spec),
                expected="one of " + ", ".join(sorted(name for name in codecs() if "." in name)),
            )
    if all(_fits(spec) for spec in named):
        return named, ()
    rest = [spec for spec in named if spec.name not in CHECKSUMS and spec.name != "crc32c"]
    checked = len(rest) < len(named)
    notes = []
    if rest and rest[-1].name == "numcodecs.zlib" and all(_fits(spec) for spec in rest[:-1]):
        gzip = _gzip(rest[-1])
        notes.append(_note("zlib streams are rewrapped as gzip", tail, (*rest[:-1], gzip)))
        rest[-1] = gzip
    elif not all(_fits(spec) for spec in rest):
        replaced = (blosc_zstd(data_type),)
        words = "are decoded, and their values compressed again" if _has_filter(rest) else "are replaced"
        notes.append(_note(f"codecs without a registered name {words}", tuple(rest), replaced))
        rest = [*replaced]
    if checked:
        rest.append(CodecSpec("crc32c"))
        if any(spec.name in CHECKSUMS for spec in named):
            notes.append(_note("checksums are replaced by crc32c at the end", tail, tuple(rest)))
    return tuple(rest), tuple(notes)


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


def _registered(spec: CodecSpec) -> CodecSpec:
    """The zstd, gzip, blosc and crc32c of numcodecs under their v3 names."""
    short = spec.name.removeprefix("numcodecs.")
    if short == spec.name or short not in _REGISTERED:
        return spec
    if short == "crc32c":
        # numcodecs writes it at the end by default, which is its place in v3.
        return CodecSpec("crc32c") if spec.configuration.get("location", "end") == "end" else spec
    renamed = CodecSpec(short, dict(spec.configuration))
    return renamed if _fits(renamed) else spec


def _fits(spec: CodecSpec) -> bool:
    return spec.name in _REGISTERED and limits_problem(within_limits(spec)) is None


def _has_filter(specs: list[CodecSpec]) -> bool:
    return any(spec.name in FILTERS for spec in specs)


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

"""Members of the configurations of codecs, their registered equals, and sizes that are always the same.

The rows of `codec_table` use them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from zarrstack.core.json_text import JSON

from .codec_facts import Choice, Dtype, Flag, Integer, Member, Texts

C_INT: Final = (1 << 31) - 1
BLOSC_SHUFFLES: Final = ("noshuffle", "shuffle", "bitshuffle")
"""v3's names of blosc's shuffles, by their number in the other formats."""
BLOSC_COMPRESSORS: Final = ("blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd")
ZLIB_DEFAULT: Final = 6
"""The meaning of zlib's level -1 (zlib.h, Z_DEFAULT_COMPRESSION)."""
MAX_TYPESIZE: Final = 255
"""c-blosc treats larger items as single bytes (`BLOSC_MAX_TYPESIZE`); observed with V300."""


def words(*values: JSON) -> Mapping[JSON, JSON]:
    """Choices that the codec uses as they are."""
    return {value: value for value in values}


GZIP_LEVEL: Final = Integer(low=-1, high=9, default=1, needed=True, everywhere=(0, 9), below=ZLIB_DEFAULT)
ZSTD: Final[Mapping[str, Member]] = {
    # numcodecs treats a level above the maximum as the maximum.
    "level": Integer(low=-131072, high=C_INT, default=0, needed=True, everywhere=(-131072, 22)),
    "checksum": Flag(False),
}
_AUTOMATIC: Final = -1
_SHUFFLES: Final[Mapping[JSON, int]] = {
    **{name: number for number, name in enumerate(BLOSC_SHUFFLES)},
    **{number: number for number in range(len(BLOSC_SHUFFLES))},
    _AUTOMATIC: _AUTOMATIC,
    None: _AUTOMATIC,
}
BLOSC: Final[Mapping[str, Member]] = {
    # `snappy` is in the specification, but numcodecs' wheels are built without it.
    "cname": Choice(
        "lz4", True, values=words(*BLOSC_COMPRESSORS),
        everywhere=("lz4", "lz4hc", "blosclz", "zstd", "zlib"),
    ),
    "clevel": Integer(low=0, high=9, default=5, needed=True, everywhere=(0, 9)),
    "shuffle": Choice(1, values=_SHUFFLES, everywhere=BLOSC_SHUFFLES, flags=True),
    "typesize": Integer(
        low=1, high=C_INT, default=None, of_item=1, everywhere=(1, MAX_TYPESIZE), below=1, above=1,
    ),
    "blocksize": Integer(low=0, high=C_INT, default=0, everywhere=(0, C_INT)),
}  # fmt: skip
LABELS: Final[Mapping[str, Member]] = {
    "labels": Texts(), "dtype": Dtype(of_item=True), "astype": Dtype(default=None),
}  # fmt: skip
TYPES: Final[Mapping[str, Member]] = {"dtype": Dtype(of_item=True), "astype": Dtype(default=None)}
CAST_VALUE: Final[Mapping[str, Member]] = {
    "data_type": Member(),
    "rounding": Choice("nearest-even", values=words(
        "nearest-even", "towards-zero", "towards-positive", "towards-negative", "nearest-away",
    )),
    "out_of_range": Choice(None, values=words("clamp", "wrap")),
    "scalar_map": Member(None),
}  # fmt: skip
LOCATION: Final[Mapping[str, Member]] = {"location": Choice(None, values=words("start", "end"))}
JENKINS: Final[Mapping[str, Member]] = {
    "initval": Integer(low=0, high=(1 << 32) - 1, default=0),
    "prefix": Member(None),
}
JSON2: Final[Mapping[str, Member]] = {
    "encoding": Member("utf-8"),
    "skipkeys": Flag(False),
    **{name: Flag(True) for name in ("ensure_ascii", "check_circular", "allow_nan", "sort_keys", "strict")},
    "indent": Member(None),
    "separators": Member(None),
}
PCODEC: Final[Mapping[str, Member]] = {
    name: Member(None)
    for name in (
        "level",
        "mode_spec",
        "delta_spec",
        "paging_spec",
        "delta_encoding_order",
        "equal_pages_up_to",
    )
}
ZFPY: Final[Mapping[str, Member]] = {
    name: Member(None) for name in ("mode", "tolerance", "rate", "precision", "compression_kwargs")
}
"""Settings of the encoder; a payload of pcodec or zfpy has all that a decoder needs."""
HDMF: Final[Mapping[str, Member]] = {
    "codec": Member(),
    "values": Choice(values=words("text", "references", "rows", "items")),
    "own": Texts((".",)),
    "fields": Texts(()),
}
LZMA: Final[Mapping[str, Member]] = {
    "format": Choice(1, values=words(*range(4))),
    "check": Integer(low=-1, high=15, default=-1),
    "preset": Integer(low=0, high=(1 << 32) - 1, default=None),
    "filters": Member(None),
    "delta": Member(None),  # GDAL's
}


# ----- equal registered codecs


def as_gzip(configuration: Mapping[str, Any], _: int) -> Mapping[str, JSON]:
    """Level -1 is zlib's default."""
    level = configuration.get("level", 1)
    return {"level": ZLIB_DEFAULT if level == -1 else level}


def as_zstd(configuration: Mapping[str, Any], _: int) -> Mapping[str, JSON]:
    """v3 states both members."""
    return {"level": configuration.get("level", 0), "checksum": configuration.get("checksum", False)}


def as_blosc(configuration: Mapping[str, Any], itemsize: int) -> Mapping[str, JSON]:
    """v3 names the shuffle and states the size of an item."""
    size = configuration.get("typesize") or itemsize
    shuffle = configuration.get("shuffle", 1)
    if shuffle in (_AUTOMATIC, None):
        shuffle = 2 if itemsize == 1 else 1
    return {
        "cname": configuration.get("cname", "lz4"),
        "clevel": configuration.get("clevel", 5),
        "shuffle": shuffle if isinstance(shuffle, str) else BLOSC_SHUFFLES[int(shuffle)],
        "typesize": size if 0 < size <= MAX_TYPESIZE else 1,
        "blocksize": configuration.get("blocksize", 0),
    }


def as_crc32c(configuration: Mapping[str, Any], _: int) -> Mapping[str, JSON] | None:
    """v3's is at the end, and so is numcodecs' by default (0.16.6)."""
    return None if configuration.get("location") == "start" else {}


# ----- sizes


def same_size(count: int) -> int:
    """The encoded size of a permutation."""
    return count


def and_four(count: int) -> int:
    """The size with a checksum."""
    return count + 4


def packed_bits(count: int) -> int:
    """The size of eight booleans per byte after a count."""
    return 1 + -(-count // 8)


def base64_size(count: int) -> int:
    """Four characters per three bytes, rounded up."""
    return (count + 2) // 3 * 4

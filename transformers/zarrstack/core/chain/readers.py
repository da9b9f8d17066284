"""Support tables: the codecs and data types of v3 documents, by reader.

Each row states where a name is registered and which of three readers decode it: zarr-python 3.1.6,
zarr-python 3.4.2 and tensorstore 0.1.86, each observed by writing a tiny array and reading it back
(`tests/zarrstack/core/chain/test_readers.py` repeats this). Registers: the core specification,
https://zarr-specs.readthedocs.io/en/latest/v3/, and zarr-extensions,
https://github.com/zarr-developers/zarr-extensions (listing of 2026-07-14).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from ..json_text import JSON
from .codec_spec import CodecSpec

Register: TypeAlias = Literal["core", "zarr-extensions"]
Reader: TypeAlias = Literal["zarr-python 3.1.6", "zarr-python 3.4.2", "tensorstore 0.1.86"]

ZARR_OLD: Final[Reader] = "zarr-python 3.1.6"
ZARR_NEW: Final[Reader] = "zarr-python 3.4.2"
TENSORSTORE: Final[Reader] = "tensorstore 0.1.86"
READERS: Final[tuple[Reader, ...]] = (ZARR_OLD, ZARR_NEW, TENSORSTORE)
ZARRS: Final[tuple[Reader, ...]] = (ZARR_OLD, ZARR_NEW)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A name, its register, and the readers that support it."""

    name: str
    register: Register | None
    """None: in use, but not registered."""
    readers: tuple[Reader, ...]

    @property
    def portable(self) -> bool:
        """Whether it is registered and all readers support it."""
        return self.register is not None and self.readers == READERS

    @property
    def strangers(self) -> tuple[Reader, ...]:
        """The readers that do not support it."""
        return tuple(reader for reader in READERS if reader not in self.readers)


def _rows(register: Register | None, readers: tuple[Reader, ...], *names: str) -> dict[str, Row]:
    return {name: Row(name=name, register=register, readers=readers) for name in names}


CODECS: Final[Mapping[str, Row]] = MappingProxyType(
    {
        **_rows("core", READERS, "bytes", "transpose", "gzip", "blosc", "crc32c", "sharding_indexed"),
        **_rows("zarr-extensions", READERS, "zstd"),
        **_rows("zarr-extensions", ZARRS, "vlen-utf8", "vlen-bytes"),
        **_rows(
            None,
            ZARRS,
            *(f"numcodecs.{name}" for name in ("zlib", "gzip", "bz2", "lzma", "lz4", "zstd", "blosc")),
            *(f"numcodecs.{name}" for name in ("shuffle", "crc32", "crc32c", "adler32", "fletcher32")),
            "numcodecs.jenkins_lookup3",
        ),
        # Not with every data type: see `unchanged_bytes`.
        **_rows(
            None,
            ZARRS,
            *(f"numcodecs.{name}" for name in ("delta", "fixedscaleoffset", "quantize", "bitround")),
            *(f"numcodecs.{name}" for name in ("astype", "packbits")),
        ),
        # Zarr v2 only.
        **_rows(
            None,
            (),
            "numpy_bytes",
            *(f"numcodecs.{name}" for name in ("json2", "msgpack2", "vlen-array", "pickle")),
            *(f"numcodecs.{name}" for name in ("categorize", "object-categorize", "base64")),
        ),
        # zarr-python reads it if zarr-n5 is installed.
        **_rows("zarr-extensions", (), "n5_default"),
        # N5 only: LZ4 by lz4-java, and by z5.
        **_rows(None, (), "lz4_block", "lz4_bare"),
    }
)
"""Codec name -> row."""

DATA_TYPES: Final[Mapping[str, Row]] = MappingProxyType(
    {
        **_rows("core", READERS, "bool", "int8", "int16", "int32", "int64"),
        **_rows("core", READERS, "uint8", "uint16", "uint32", "uint64"),
        **_rows("core", READERS, "float16", "float32", "float64", "complex64", "complex128"),
        **_rows("zarr-extensions", ZARRS, "fixed_length_utf32", "numpy.datetime64", "numpy.timedelta64"),
        **_rows("zarr-extensions", ZARRS, "string", "bytes"),
        # Fields as [name, type] pairs; tensorstore opens one field at a time.
        **_rows("zarr-extensions", ZARRS, "structured"),
        **_rows("zarr-extensions", (ZARR_NEW,), "struct"),
        **_rows(None, ZARRS, "null_terminated_bytes", "variable_length_bytes"),
        # tensorstore returns single bytes along an additional axis.
        **_rows(None, READERS, "raw_bytes"),
    }
)
"""Data type name -> row."""

_LIMITS: Final[Mapping[str, tuple[str, int, int]]] = {
    "gzip": ("level", 0, 9),
    "zstd": ("level", -131072, 22),
    "blosc": ("clevel", 0, 9),
}
"""Codec -> its level and the range that all readers accept."""

_MEMBERS: Final[Mapping[str, frozenset[str]]] = {
    "bytes": frozenset({"endian"}),
    "transpose": frozenset({"order"}),
    "gzip": frozenset({"level"}),
    "zstd": frozenset({"level", "checksum"}),
    "blosc": frozenset({"cname", "clevel", "shuffle", "typesize", "blocksize"}),
    "crc32c": frozenset(),
    "vlen-utf8": frozenset(),
    "vlen-bytes": frozenset(),
}

_BLOSC_CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "cname": ("lz4", "lz4hc", "blosclz", "zstd", "zlib"),
    "shuffle": ("noshuffle", "shuffle", "bitshuffle"),
}
"""`snappy` is in the specification, but numcodecs' wheels are built without it."""


def misread_nan(fill: JSON) -> bool:
    """Whether zarr-python misreads a NaN in a v3 fill value.

    It converts the stated bits to a Python float first: every float16 NaN except the default one changes, and
    so do signalling NaNs of float32 and complex64 (3.1.6 and 3.4.2, observed).
    """
    parts = fill if isinstance(fill, list) else [fill]
    bits = [part.removeprefix("0x") for part in parts if isinstance(part, str) and part.startswith("0x")]
    return any(
        int(text, 16) & 0x3FF != 0x200 if len(text) == 4 else len(text) == 8 and not int(text, 16) & 0x400000
        for text in bits
    )


def limits_problem(spec: CodecSpec) -> tuple[str, str] | None:
    """The first problem that some reader has with a configuration, and the expected form; None if none.

    A blosc without `typesize` or `shuffle` is accepted: both are derived from the data type.
    """
    configuration = spec.configuration
    members = _MEMBERS.get(spec.name)
    if members is None:
        return None
    if unknown := sorted(set(configuration) - members):
        return f"unknown member {unknown[0]!r}", ", ".join(sorted(members)) or "no configuration"
    if spec.name in _LIMITS:
        name, low, high = _LIMITS[spec.name]
        level = configuration.get(name)
        if type(level) is not int or not low <= level <= high:
            return f"{name} is {level!r}", f"an integer from {low} to {high}"
    if spec.name == "zstd" and type(configuration.get("checksum", False)) is not bool:
        return f"checksum is {configuration['checksum']!r}", "true or false"
    if spec.name == "bytes" and configuration.get("endian", "little") not in ("little", "big"):
        return f"endian is {configuration['endian']!r}", "little or big"
    if spec.name == "blosc":
        for name, choices in _BLOSC_CHOICES.items():
            if configuration.get(name, None if name == "cname" else choices[0]) not in choices:
                return f"{name} is {configuration.get(name)!r}", ", ".join(choices)
        for name, low, high in (("typesize", 1, 255), ("blocksize", 0, 2**31 - 1)):
            value = configuration.get(name, low)
            if type(value) is not int or not low <= value <= high:
                return f"{name} is {value!r}", f"an integer from {low} to {high}"
    return None


def within_limits(spec: CodecSpec) -> CodecSpec:
    """Limit the codec's level, and blosc's typesize, to values that all readers accept.

    Levels and blosc's typesize affect the encoder only; a decoder finds all it needs in the stored bytes.
    Bytes written under `spec` therefore decode under the result.
    """
    configuration = dict(spec.configuration)
    if spec.name in _LIMITS:
        name, low, high = _LIMITS[spec.name]
        level = configuration.get(name)
        if spec.name == "gzip" and level == -1:
            configuration[name] = 6  # zlib's default
        elif type(level) is int:
            configuration[name] = min(max(level, low), high)
    if spec.name == "blosc":
        size = configuration.get("typesize", 1)
        if type(size) is int and not 1 <= size <= 255:
            configuration["typesize"] = 1  # as C-Blosc treats such a size
    return spec if configuration == dict(spec.configuration) else replace(spec, configuration=configuration)

"""Limits of configurations and of fill values that every copy respects, for the readers that it is made for.

A reader that supports a codec may refuse some of its configurations. Who supports which codec is in
`reader_table`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from zarrstack.core.json_text import JSON

from ..codec_spec import CodecSpec

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

    It converts the stated bits to a Python float first: every float16 NaN except the default one changes
    before Python 3.14, and so do signalling NaNs of float32 and complex64 (3.1.6 and 3.4.2, observed).
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

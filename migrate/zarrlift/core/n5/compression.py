"""`compression` of an N5 dataset -> codecs after `bytes` in a chain.

Sources: https://github.com/saalfeldlab/n5/blob/master/README.md#file-system-specification, point 4 (raw,
gzip, bzip2, lz4, xz); n5-blosc and n5-zstandard (Java classes `BloscCompression`, `ZstandardCompression`);
zarr-python 2.18's N5Store, z5py 3.0.2 and tensorstore 0.1.86 as observed. Defaults of missing parameters are
Java's.

Every stream here describes its own compression, so parameters matter only to writers; the exceptions are
`useZlib`, and for lz4 the parameters that identify its writer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from zarrstack.core.errors import MetadataError, Problem, UnsupportedError
from zarrstack.core.json_text import JSON, excerpt

from ..codec_facts import Choice, Flag, Integer, Member, read_members
from ..codec_members import BLOSC_COMPRESSORS
from ..codec_spec import CodecSpec
from ..codec_table import registered, require_facts
from ..codecs.registry import require_package
from ..problems import note, warning

_LARGEST: Final = (1 << 31) - 1
_SMALLEST_BLOCK: Final = 64
"""Of Java's lz4 stream; z5 states a level in its place."""


def read_compression(attributes: Mapping[str, JSON], itemsize: int) -> tuple[CodecSpec | None, list[Problem]]:
    """The codec of a dataset (None: raw) and any problems.

    `attributes` are the dataset's; `compression` takes precedence over `compressionType`, which Java's N5 1.5
    and earlier wrote, as in Java (`DatasetAttributesAdapter`). Raises MetadataError for invalid members,
    UnsupportedError, with the configuration, for unknown compressions.
    """
    if "codecs" in attributes:
        raise _list_of_codecs(attributes["codecs"])
    if "compression" not in attributes and "compressionType" in attributes:
        compression: JSON = {"type": attributes["compressionType"]}
    else:
        compression = attributes.get("compression")
    if not isinstance(compression, dict) or not isinstance(compression.get("type"), str):
        raise MetadataError(
            "compression must be an object with a type",
            found=excerpt(compression) if "compression" in attributes else "none",
            expected='{"type": "raw"}, {"type": "gzip", ...}, ...',
        )
    name = compression["type"]
    if name == "jpeg":
        # One writer is known, Java's n5-jpeg, which was never released: gray JPEGs, whose bytes it maps to
        # values by `dataType`, `min`, `max` and `gamma`. The result depends on the JPEG decoder, and without
        # sample files there is no way to verify that ours agrees.
        raise UnsupportedError(
            "N5 compression 'jpeg' loses values, and no v3 codec is registered for it",
            found=excerpt(compression),
            advice="Copy the dataset to another compression with the program that wrote it (Java, n5-jpeg).",
        )
    if name not in _KINDS:
        raise UnsupportedError(
            f"unknown N5 compression {name!r}", found=excerpt(compression), expected=", ".join(_KINDS)
        )
    kind = _KINDS[name]
    members = {member: value for member, value in compression.items() if member in kind.members}
    problems = []
    if unknown := sorted(compression.keys() - {"type", "id", *kind.members}):
        message = f"unknown members of N5 compression {name!r} are ignored"
        problems.append(warning("metadata", message, found=excerpt(unknown)))
    spec = kind.read(read_members(CodecSpec(name, members), kind.members), itemsize)
    if spec is not None:
        require_package(require_facts(spec.name), spec)
    if spec is not None and spec.name == "lz4_bare":
        message = "blockSize is too small for Java's lz4 stream: the blocks are z5's, without a frame"
        problems.append(note("deviation", message, found=excerpt(compression)))
    return spec, problems


def _list_of_codecs(codecs: JSON) -> UnsupportedError:
    """The error for `codecs`, which takes precedence in Java; shards are the only reason to write it.

    Unreleased versions of 2024 and 2025 wrote it. No release does, and 4.0.2 cannot open such a dataset: its
    `DatasetAttributesAdapter` looks for the list, but its readers register nothing that parses an entry.
    """
    entries = [item for item in codecs if isinstance(item, dict)] if isinstance(codecs, list) else []
    named = [item.get("name", item.get("type")) for item in entries]
    what = "shards" if "sharding_indexed" in named else "a list of codecs"
    return UnsupportedError(
        f"an N5 dataset with {what} is not supported, nor is it by any release of Java's n5",
        found=excerpt(codecs),
        advice="Copy it with the version of n5 that wrote it to a dataset with `compression`: "
        "docs/howto/n5.md, Shards. Or leave it out with --exclude.",
    )


class _Kind(NamedTuple):
    """A compression: its members, and a function from these and the item size to a codec."""

    members: Mapping[str, Member]
    read: Callable[[Mapping[str, Any], int], CodecSpec | None]


def _raw(_: Mapping[str, Any], __: int) -> None:
    return None


def _gzip(values: Mapping[str, Any], itemsize: int) -> CodecSpec:
    name = "numcodecs.zlib" if values["useZlib"] else "numcodecs.gzip"
    return registered(CodecSpec(name, {"level": values["level"]}), itemsize)


def _bzip2(values: Mapping[str, Any], _: int) -> CodecSpec:
    return CodecSpec("numcodecs.bz2", {"level": values["blockSize"]})


def _lzma(values: Mapping[str, Any], _: int) -> CodecSpec:
    return CodecSpec("numcodecs.lzma", {**_XZ, **values})


def _lz4(values: Mapping[str, Any], _: int) -> CodecSpec:
    if values["acceleration"] is not None:
        # zarr-python's N5Store writes numcodecs' own codec under N5's name.
        return CodecSpec("numcodecs.lz4", {"acceleration": values["acceleration"]})
    size = values["blockSize"]
    if size < _SMALLEST_BLOCK:
        return CodecSpec("lz4_bare")
    return CodecSpec("lz4_block", {"blockSize": size})


def _blosc(values: Mapping[str, Any], itemsize: int) -> CodecSpec:
    # Java compresses with an item size of 1 for every type, unless n5-blosc 2 records another one as
    # `typesize`; the container states it.
    used = {name: values[name] for name in ("cname", "clevel", "shuffle", "blocksize")}
    return registered(CodecSpec("numcodecs.blosc", used), itemsize)


def _zstd(values: Mapping[str, Any], _: int) -> CodecSpec:
    return CodecSpec("zstd", {name: values[name] for name in ("level", "checksum")})


# The container states its own check; Java's and liblzma's default is CRC64, numcodecs' -1.
_XZ: Final = {"format": 1, "check": -1, "preset": None, "filters": None}
_KINDS: Final[Mapping[str, _Kind]] = {
    "raw": _Kind({}, _raw),
    # z5 writes no useZlib, tensorstore false; zarr-python's zlib is true.
    "gzip": _Kind({"level": Integer(low=-1, high=9, default=-1), "useZlib": Flag(False)}, _gzip),
    "bzip2": _Kind({"blockSize": Integer(low=1, high=9, default=9)}, _bzip2),
    "xz": _Kind({"preset": Integer(low=0, high=(1 << 32) - 1, default=6)}, _lzma),
    "lz4": _Kind(
        {
            "blockSize": Integer(low=-_LARGEST, high=1 << 25, default=1 << 16),
            "acceleration": Member(None),
        },
        _lz4,
    ),
    "blosc": _Kind(
        {
            "cname": Choice("blosclz", values={name: name for name in BLOSC_COMPRESSORS}),
            "clevel": Integer(low=0, high=9, default=6),
            "shuffle": Choice(0, values={number: number for number in (-1, 0, 1, 2)}),
            "blocksize": Integer(low=0, high=_LARGEST, default=0),
            "nthreads": Member(None),
            "typesize": Member(None),
        },
        _blosc,
    ),
    "zstd": _Kind(
        {
            "level": Integer(low=-131072, high=22, default=3),
            "nbWorkers": Member(None),
            "checksum": Flag(False),
        },
        _zstd,
    ),
    "lzma": _Kind({name: Member(default) for name, default in _XZ.items()}, _lzma),
}
"""By N5's names; the last is zarr-python's, for anything but plain xz."""

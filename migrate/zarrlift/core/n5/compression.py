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
from typing import Final, NamedTuple

from zarrstack.core.errors import MetadataError, Problem, UnsupportedError
from zarrstack.core.json_text import JSON, excerpt

from ..chain.numcodecs_settings import blosc_shuffle, gzip_level
from ..codec_spec import CodecSpec
from ..codecs.config import Configuration
from ..problems import note, warning

_LARGEST: Final = (1 << 31) - 1


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
    spec = kind.read(Configuration(CodecSpec(name, members), kind.members), itemsize)
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
    """A compression: its permitted members, and a function from configuration and item size to a codec."""

    members: tuple[str, ...]
    read: Callable[[Configuration, int], CodecSpec | None]


def _raw(_: Configuration, __: int) -> None:
    return None


def _gzip(config: Configuration, _: int) -> CodecSpec:
    level = config.integer("level", -1, low=-1, high=9)
    # z5 writes no useZlib, tensorstore false; zarr-python's zlib is true.
    if config.boolean("useZlib", default=False):
        return CodecSpec("numcodecs.zlib", {"level": level})
    return CodecSpec("gzip", {"level": gzip_level(level)})


def _bzip2(config: Configuration, _: int) -> CodecSpec:
    return CodecSpec("numcodecs.bz2", {"level": config.integer("blockSize", 9, low=1, high=9)})


def _xz(config: Configuration, _: int) -> CodecSpec:
    # The container states its own check; Java's and liblzma's default is CRC64, numcodecs' -1.
    preset = config.integer("preset", 6, low=0, high=(1 << 32) - 1)
    return CodecSpec("numcodecs.lzma", {"format": 1, "check": -1, "preset": preset, "filters": None})


def _lzma(config: Configuration, _: int) -> CodecSpec:
    names = ("format", "check", "preset", "filters")
    defaults = {"format": 1, "check": -1, "preset": None, "filters": None}
    return CodecSpec("numcodecs.lzma", {name: config.value(name, defaults[name]) for name in names})


def _lz4(config: Configuration, _: int) -> CodecSpec:
    # Imported here: describing an archive does not require numcodecs.
    from ..codecs.lz4_block import DEFAULT_BLOCK, LARGEST_BLOCK, SMALLEST_BLOCK

    if config.value("acceleration", None) is not None:
        # zarr-python's N5Store writes numcodecs' own codec under N5's name.
        return CodecSpec("numcodecs.lz4", {"acceleration": config.value("acceleration")})
    size = config.integer("blockSize", DEFAULT_BLOCK, low=-_LARGEST, high=LARGEST_BLOCK)
    if size < SMALLEST_BLOCK:
        return CodecSpec("lz4_bare")
    return CodecSpec("lz4_block", {"blockSize": size})


def _blosc(config: Configuration, itemsize: int) -> CodecSpec:
    return CodecSpec(
        "blosc",
        {
            "cname": config.choice("cname", ("blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"), "blosclz"),
            "clevel": config.integer("clevel", 6, low=0, high=9),
            "shuffle": blosc_shuffle(config.choice("shuffle", (-1, 0, 1, 2), 0), itemsize),
            # Java compresses with an item size of 1 for every type, unless n5-blosc 2 records another one as
            # `typesize`; the container states it.
            "typesize": itemsize,
            "blocksize": config.integer("blocksize", 0, low=0, high=_LARGEST),
        },
    )


def _zstd(config: Configuration, _: int) -> CodecSpec:
    level = config.integer("level", 3, low=-131072, high=22)
    return CodecSpec("zstd", {"level": level, "checksum": config.boolean("checksum", default=False)})


_KINDS: Final[Mapping[str, _Kind]] = {
    "raw": _Kind((), _raw),
    "gzip": _Kind(("level", "useZlib"), _gzip),
    "bzip2": _Kind(("blockSize",), _bzip2),
    "xz": _Kind(("preset",), _xz),
    "lz4": _Kind(("blockSize", "acceleration"), _lz4),
    "blosc": _Kind(("cname", "clevel", "shuffle", "blocksize", "nthreads", "typesize"), _blosc),
    "zstd": _Kind(("level", "nbWorkers", "checksum"), _zstd),
    "lzma": _Kind(("format", "check", "preset", "filters"), _lzma),
}
"""By N5's names; the last is zarr-python's, for anything but plain xz."""

"""Arrays as N5 datasets: the reverse of `dataset` and `compression`. Pure.

Specification: https://github.com/saalfeldlab/n5/blob/master/README.md#file-system-specification, points 2 to
5; parameters as read by tensorstore 0.1.86, zarr-python 2.18.7 and Java's N5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Final

from zarrstack.core.errors import UnsupportedError
from zarrstack.core.json_text import JSON, JSONObject, excerpt

from ..chain.chain import Chain
from ..chain.numcodecs_settings import BLOSC_SHUFFLES
from ..codec_spec import CodecSpec
from ..data_types.v3 import DataType, fill_from_json, same_bits, zero_fill
from ..grid.chunk_keys_n5 import Axes, reverse_axes
from ..shapes import Shape
from .dataset import MAX_IN_BLOCK, MEMBERS, STANDARD, VERSION, is_dataset

WRITTEN_VERSION: Final = "2.0.0"
"""Version at the root. Readers refuse a later major version than their own; no later feature is used, and
zarr-python 2 writes the same.
"""

_XZ: Final = 1
"""`lzma.FORMAT_XZ`."""


def chain_for_n5(chain: Chain, data_type: DataType, ndim: int, axes: Axes) -> Chain:
    """The chain of a block's payload, for an array displayed with these axes.

    Big-endian values in N5's order, then at most one compression; `crc32c`, which N5 does not have, is
    dropped. UnsupportedError for data types and compressions that N5 does not have.
    """
    if data_type.name not in STANDARD:
        raise UnsupportedError(
            "N5 has no such data type", found=str(data_type), expected=", ".join(sorted(STANDARD))
        )
    middle = chain.codecs[chain.middle]
    if middle.name != "bytes":
        raise UnsupportedError(f"N5 has no codec {middle.name!r}", found=str(chain))
    tail = tuple(spec for spec in chain.codecs[chain.middle + 1 :] if spec.name != "crc32c")
    if len(tail) > 1:
        raise UnsupportedError("N5 has only one compression, and no filters", found=str(chain))
    compression_for_n5(tail)
    # Single bytes have no order, so their codec is kept unchanged.
    packing = middle if data_type.itemsize == 1 else CodecSpec("bytes", {"endian": "big"})
    order = list(reversed(range(ndim)))
    front = (CodecSpec("transpose", {"order": order}),) if axes == "kept" and ndim > 1 else ()
    return Chain((*front, packing, *tail))


def dataset_members(
    *, shape: Shape, chunks: Shape, data_type: DataType, chain: Chain, axes: Axes
) -> JSONObject:
    """A dataset's members of `attributes.json`; `chain` is a result of `chain_for_n5`.

    UnsupportedError for blocks with more elements than Java can hold.
    """
    if prod(chunks) > MAX_IN_BLOCK:
        raise UnsupportedError(
            "a block has more elements than N5 readers support",
            found=f"{prod(chunks)} elements",
            expected=f"at most {MAX_IN_BLOCK}",
        )
    return {
        "dimensions": list(reverse_axes(shape, axes)),
        "blockSize": list(reverse_axes(chunks, axes)),
        "dataType": data_type.name,
        "compression": compression_for_n5(chain.codecs[chain.middle + 1 :]),
    }


def require_zero_fill(fill: JSON, data_type: DataType) -> None:
    """Raise UnsupportedError if the fill value is not zero, the value of missing N5 blocks."""
    if not same_bits(fill_from_json(fill, data_type), zero_fill(data_type)):
        raise UnsupportedError(
            "N5 has no fill value: missing blocks are zero", found=excerpt(fill), expected="0"
        )


def require_own_names(attributes: Mapping[str, JSON], *, dataset: bool) -> None:
    """Raise UnsupportedError if readers would mistake attributes of the user for N5's."""
    reserved = sorted({*MEMBERS, VERSION} & attributes.keys()) if dataset else []
    if not dataset:
        reserved = [VERSION] if VERSION in attributes else []
        if is_dataset(attributes):
            reserved += sorted(MEMBERS & attributes.keys())
    if reserved:
        raise UnsupportedError(
            "attributes have names that N5 reserves",
            found=", ".join(reserved),
            advice="Rename them, or exclude the node.",
        )


def compression_for_n5(tail: tuple[CodecSpec, ...]) -> JSONObject:
    """The `compression` of a dataset, from the codecs after `bytes`; UnsupportedError if N5 has none."""
    if not tail:
        return {"type": "raw"}
    spec = tail[0]
    write = _COMPRESSIONS.get(spec.name)
    written = None if write is None else write(spec.configuration)
    if written is None:
        raise UnsupportedError(
            f"N5 has no compression {spec.name!r}",
            found=str(spec.to_json()),
            expected="none, gzip, zlib, bz2, xz, blosc or zstd",
        )
    return written


def _lzma(configuration: Mapping[str, JSON]) -> JSONObject | None:
    if configuration.get("format", _XZ) != _XZ or configuration.get("filters"):
        return None
    preset = configuration.get("preset")
    return {"type": "xz", "preset": 6 if preset is None else preset}


def _blosc(configuration: Mapping[str, JSON]) -> JSONObject:
    return {
        "type": "blosc",
        "cname": configuration.get("cname", "lz4"),
        "clevel": configuration.get("clevel", 5),
        "shuffle": BLOSC_SHUFFLES.index(configuration.get("shuffle", "noshuffle")),
        "blocksize": configuration.get("blocksize", 0),
    }


_COMPRESSIONS: Final[Mapping[str, Callable[[Mapping[str, JSON]], JSONObject | None]]] = {
    "gzip": lambda config: {"type": "gzip", "level": config.get("level", 6), "useZlib": False},
    "numcodecs.zlib": lambda config: {"type": "gzip", "level": config.get("level", 1), "useZlib": True},
    "numcodecs.bz2": lambda config: {"type": "bzip2", "blockSize": config.get("level", 1)},
    "numcodecs.lzma": _lzma,
    "blosc": _blosc,
    "zstd": lambda config: {"type": "zstd", "level": config.get("level", 0)},
}

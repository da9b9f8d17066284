"""Arrays as Zarr v2 documents: the reverse of `chain` and `data_types.v2`. Pure.

Facts: https://zarr-specs.readthedocs.io/en/latest/v2/v2.0.html; fill values as decoded by zarr-python 2.18.7
(`zarr.meta.Metadata2.decode_fill_value`), the intended reader.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from zarrstack.core.errors import UnsupportedError
from zarrstack.core.json_text import JSON, JSONObject

from ..chain.chain import Chain
from ..chain.numcodecs_settings import BLOSC_SHUFFLES
from ..codec_spec import CodecSpec
from ..codecs.pipeline import axes_order
from ..data_types.bits import same_bits
from ..data_types.fill_forms import fill_form
from ..data_types.v3 import DataType, fill_from_json
from ..shapes import Shape
from .chain import COMPRESSORS, FILTERS

_OBJECT_FILTERS: Final = {"vlen-utf8": "vlen-utf8", "vlen-bytes": "vlen-bytes"}
"""Array-to-bytes codec -> the filter with which v2 stores objects."""
_NUMCODECS: Final = "numcodecs."


def chain_for_v2(chain: Chain, ndim: int) -> Chain:
    """The nearest chain that a v2 document can express; unchanged if it can express all of it.

    A transpose other than the reversal of all axes is dropped: v2 has only orders C and F. So is `crc32c`:
    numcodecs has it only with an additional package (`numcodecs.checksum32`, 0.13 on), and tensorstore 0.1.86
    does not support it in v2. UnsupportedError for codecs that v2 readers do not have.
    """
    middle = chain.codecs[chain.middle]
    if middle.name != "bytes" and middle.name not in _OBJECT_FILTERS:
        raise UnsupportedError(f"Zarr v2 has no codec for {middle.name!r}", found=str(chain))
    tail = tuple(spec for spec in chain.codecs[chain.middle + 1 :] if spec.name != "crc32c")
    for spec in tail:
        _codec(spec)
    reverse = tuple(reversed(range(ndim)))
    turned = ndim > 1 and axes_order(chain, ndim) == reverse
    front: tuple[CodecSpec, ...] = ()
    if turned:
        # A single transpose keeps its spelling, so that the chunks need no conversion.
        single = chain.middle == 1
        front = chain.codecs[:1] if single else (CodecSpec("transpose", {"order": list(reverse)}),)
    return Chain((*front, middle, *tail))


def array_document(
    *, shape: Shape, chunks: Shape, data_type: DataType, chain: Chain, fill: JSON, separator: str
) -> JSONObject:
    """A `.zarray`; `chain` is a result of `chain_for_v2`, `fill` a result of `fill_for_v2` or null.

    Codecs have numcodecs' names. Encoder settings that older readers reject are omitted: blosc's typesize,
    zstd's checksum.
    """
    codecs = [_codec(spec) for spec in chain.codecs[chain.middle + 1 :]]
    # zarr-python accepts any codec as a filter, but tensorstore 0.1.86 supports only a compressor.
    compressor = codecs.pop() if codecs and not _is_filter(chain.codecs[-1]) else None
    middle = chain.codecs[chain.middle]
    if middle.name in _OBJECT_FILTERS:
        codecs.insert(0, {"id": _OBJECT_FILTERS[middle.name]})
    return {
        "zarr_format": 2,
        "shape": list(shape),
        "chunks": list(chunks),
        "dtype": dtype_for_v2(data_type, chain),
        "compressor": compressor,
        "fill_value": fill,
        "order": "F" if chain.middle else "C",
        "filters": codecs or None,
        "dimension_separator": separator,
    }


def dtype_for_v2(data_type: DataType, chain: Chain) -> JSON:
    """The `dtype`: a typestr, or for a struct a list of [name, dtype]."""
    return _described(_stored(data_type, chain))


def fill_for_v2(fill: JSON, data_type: DataType, chain: Chain) -> JSON:
    """Convert a v3 fill value to v2's form; UnsupportedError if zarr-python 2.18 would read another value.

    This applies to NaNs other than the usual one, to complex numbers that `real + 1j * imaginary` does not
    restore, and to bytes of variable length, whose empty value is displayed as text.
    """
    value = fill_from_json(fill, data_type)
    stored = _stored(data_type, chain)
    if stored.kind == "O":
        if data_type.name != "string":
            raise _unsayable(fill, data_type)
        return value
    if stored.kind == "M" and np.datetime_data(stored)[0] == "generic":
        return "NaT"  # numpy makes no datetime of a number without a unit; v3 has no other values

    def refused(_: np.ndarray[Any, Any]) -> JSON:
        raise _unsayable(fill, data_type)

    form = fill_form(value, stored, refused)
    if stored.kind == "c":
        with np.errstate(invalid="ignore"):
            read = np.array(value.real + 1j * value.imag, dtype=stored.newbyteorder("="))
        if not same_bits(read, np.asarray(value)):
            raise _unsayable(fill, data_type)
    return form


def consolidated(documents: dict[str, JSONObject]) -> JSONObject:
    """A `.zmetadata`, from every `.zgroup`, `.zarray` and `.zattrs` by key; zarr-python 2's convention."""
    return {"zarr_consolidated_format": 1, "metadata": dict(sorted(documents.items()))}


def _stored(data_type: DataType, chain: Chain) -> np.dtype[Any]:
    """The type with the byte order of the chain's `bytes`."""
    endian = chain.codecs[chain.middle].configuration.get("endian", "little")
    return data_type.numpy.newbyteorder(">" if endian == "big" else "<")


def _described(dtype: np.dtype[Any]) -> JSON:
    if dtype.names is None or dtype.fields is None:
        return dtype.str
    return [[name, _described(dtype.fields[name][0])] for name in dtype.names]


def _codec(spec: CodecSpec) -> JSONObject:
    """The numcodecs form of a codec."""
    configuration = dict(spec.configuration)
    if spec.name == "blosc":
        configuration.pop("typesize", None)
        configuration["shuffle"] = BLOSC_SHUFFLES.index(configuration.get("shuffle", "noshuffle"))
        return {"id": "blosc", **configuration}
    if spec.name in ("gzip", "zstd"):
        return {"id": spec.name, "level": configuration.get("level", 0)}
    if spec.name.startswith(_NUMCODECS):
        return {"id": spec.name.removeprefix(_NUMCODECS), **configuration}
    raise UnsupportedError(f"Zarr v2 readers have no codec {spec.name!r}", found=str(spec.to_json()))


def _is_filter(spec: CodecSpec) -> bool:
    """Whether a codec is a filter, for readers that distinguish filters from compressors."""
    return spec.name.removeprefix(_NUMCODECS) in FILTERS - COMPRESSORS


def _unsayable(fill: JSON, data_type: DataType) -> UnsupportedError:
    return UnsupportedError(
        "Zarr v2 cannot represent this fill value", found=f"{fill!r} of {data_type}"[:200]
    )

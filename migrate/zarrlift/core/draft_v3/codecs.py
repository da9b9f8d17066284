"""Codecs, memory layout and storage transformers of the 2022 draft -> a chain and shards of v3.

Sources: sections "codecs", "chunk_memory_layout" and "storage_transformers" of the text (nodes.py names it)
and its documents `codecs/{blosc,endian,gzip}/v1.0`; zarr-python 2.18.7's `compressor`, whose configuration is
numcodecs'. The sharding transformer:
https://github.com/zarr-developers/zarr-specs/blob/71b92bb/docs/extensions/storage-transformers/sharding/v1.0.rst
"""

from __future__ import annotations

import re
from typing import Final

from zarrstack.core.errors import MetadataError, UnsupportedError
from zarrstack.core.json_text import JSON, excerpt

from ..codec_spec import CodecSpec
from ..codec_table import facts_in_v2, registered
from ..shapes import Shape, read_lengths

_SHARDING: Final = re.compile(
    r"https://purl\.org/zarr/spec/(extensions/)?storage[-_]transformers/sharding/([0-9]+)\.[0-9]+"
)
"""zarr-python 2.18.7 writes `spec/storage_transformers/`; the text has `extensions/`, a hyphen in places."""
_CODEC: Final = re.compile(r"https?://purl\.org/zarr/spec/codecs?/([a-z0-9_-]+)(?:/([0-9]+)(?:\.[0-9]+)*)?")


def read_codec(data: JSON, *, member: str, itemsize: int) -> CodecSpec:
    """Parse one codec: of `codecs` (`member` is "type") or the `compressor` ("codec").

    UnsupportedError for an unknown URI, or another major version of its specification.
    """
    if not isinstance(data, dict) or not isinstance(data.get(member), str):
        raise MetadataError(
            "a codec must be an object with a URI", found=excerpt(data), expected=f'{{"{member}": ...}}'
        )
    configuration = data.get("configuration", {})
    if not isinstance(configuration, dict) or data.keys() - {member, "configuration"}:
        raise MetadataError(
            "malformed codec", found=excerpt(data), expected=f'{{"{member}": ..., "configuration": {{...}}}}'
        )
    match = _CODEC.fullmatch(data[member])
    if match is None or (match[2] or "1") != "1":
        raise UnsupportedError("unknown codec", found=excerpt(data))
    if match[1] == "endian":
        return CodecSpec("bytes", configuration)
    facts = facts_in_v2(match[1])
    if facts is None or facts.role != "compressor" or facts.package is not None:
        raise UnsupportedError("unknown codec", found=excerpt(data))
    spec = CodecSpec(facts.name, configuration)
    facts.read(spec)
    return registered(spec, itemsize)


def read_layout(data: JSON, ndim: int) -> list[CodecSpec]:
    """The transposes of a `chunk_memory_layout`: none for C, a reversal of all axes for F."""
    if isinstance(data, dict) and "extension" in data:
        raise UnsupportedError("unknown chunk memory layout", found=excerpt(data), expected="C or F")
    if data not in ("C", "F") or not isinstance(data, str):
        raise MetadataError("chunk_memory_layout must be C or F", found=excerpt(data), expected='"C" or "F"')
    if data == "C" or ndim < 2:
        return []
    return [CodecSpec("transpose", {"order": list(reversed(range(ndim)))})]


def read_shards(data: JSON, ndim: int) -> Shape | None:
    """Chunks per shard along each axis, from `storage_transformers`; None if there are none.

    UnsupportedError, by name, for every transformer except sharding, because its effect on bytes and keys is
    unknown. Like zarr-python 2.18.7: a list that is too short is padded with 1, a number is a list of one,
    and () is (1,).
    """
    if not isinstance(data, list):
        raise MetadataError("storage_transformers must be a list", found=excerpt(data), expected="[...]")
    if not data:
        return None
    for item in data:
        if not isinstance(item, dict) or not isinstance(item.get("extension"), str) or "type" not in item:
            raise MetadataError(
                "a storage transformer must be an object with a URI and a type",
                found=excerpt(item),
                expected='{"extension": ..., "type": ...}',
            )
        match = _SHARDING.fullmatch(item["extension"])
        if match is None or match[2] != "1" or item["type"] != "indexed":
            raise UnsupportedError(f"unknown storage transformer {item['extension']}", found=excerpt(item))
    if len(data) > 1:
        raise UnsupportedError("nested shards are not supported", found=excerpt(data))
    configuration = data[0].get("configuration")
    if (
        not isinstance(configuration, dict)
        or configuration.keys() != {"chunks_per_shard"}
        or data[0].keys() - {"extension", "type", "configuration"}
    ):
        raise MetadataError(
            "malformed sharding transformer", found=excerpt(data[0]), expected='{"chunks_per_shard": [...]}'
        )
    value = configuration["chunks_per_shard"]
    counts = read_lengths([value] if type(value) is int else value, "chunks_per_shard", least=1)
    if len(counts) > ndim and any(count != 1 for count in counts[ndim:]):
        raise MetadataError(
            "chunks_per_shard has more axes than shape", found=excerpt(value), expected=f"{ndim} at most"
        )
    return (*counts, *[1] * (ndim - len(counts)))[:ndim]

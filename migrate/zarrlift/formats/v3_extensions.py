"""Extensions that the document of an array of Zarr v3 names: which of them are unknown here.

What is known is checked, so that an array is passed through only if nothing is wrong with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from zarrstack.base.description import PREFIX
from zarrstack.core.chunk_keys_v3 import KeyEncoding
from zarrstack.core.errors import MetadataError, UnsupportedError
from zarrstack.core.json_text import JSON, Extension, excerpt
from zarrstack.core.shard_index import IndexFormat

from ..core.chain.chain import Chain
from ..core.codec_spec import CodecSpec
from ..core.codec_table import ALIASES, facts_of
from ..core.codecs.pipeline import axes_order
from ..core.shapes import Shape, read_lengths

SHARDING: Final = "sharding_indexed"


def transformers_of(data: JSON) -> tuple[str, ...]:
    """The names of the transformers; UnsupportedError if one is unknown to zarrstack, too."""
    if not data:
        return ()
    if not isinstance(data, list):
        raise MetadataError("storage_transformers must be a list", found=excerpt(data), expected="[...]")
    from zarrstack.base.registry import names as registered_layers  # slow to load, and rarely needed

    names = tuple(Extension.from_json(item, "storage transformer").name for item in data)
    if unknown := [name for name in names if name.removeprefix(PREFIX) not in registered_layers()]:
        raise UnsupportedError(f"unknown storage transformer {', '.join(map(repr, unknown))}")
    return names


def keys_of(data: JSON) -> KeyEncoding:
    """The key encoding; UnsupportedError for an unknown one."""
    name = Extension.from_json(data, "chunk key encoding").name
    if name not in ("default", "v2"):
        raise UnsupportedError(f"unknown chunk key encoding {name!r}", found=excerpt(data))
    return KeyEncoding.from_json(data)


def chain_of(data: JSON) -> Chain:
    """The codec chain; UnsupportedError for an unknown codec, in shards too."""
    if isinstance(data, list) and (unknown := sorted({*_unknown_codecs(data)})):
        names = ", ".join(map(repr, unknown))
        raise UnsupportedError(f"unknown codec {names}", found=excerpt(data))
    return Chain.from_json(data)


def _unknown_codecs(data: Iterable[JSON]) -> Iterator[str]:
    """Names of codecs that are in no table, in shards too."""
    for spec in map(CodecSpec.from_json, data):
        if facts_of(ALIASES.get(spec.name, spec.name)) is None:
            yield spec.name
        elif spec.name == SHARDING and isinstance(inner := spec.configuration.get("codecs"), list | tuple):
            yield from _unknown_codecs(inner)


def check_known(codecs: Iterable[JSON], shape: JSON) -> None:
    """Raise MetadataError for a wrong configuration of a codec whose name is known."""
    for spec in map(CodecSpec.from_json, codecs):
        facts = facts_of(ALIASES.get(spec.name, spec.name))
        if spec.name == SHARDING:
            inner_chunk_of(spec)
            check_known(spec.configuration["codecs"], shape)
            index_of(spec)
        elif spec.name == "transpose":
            axes_order(Chain((spec, CodecSpec("bytes"))), len(shape))
        elif facts is not None and facts.members is not None:
            facts.read(spec)


def inner_chunk_of(spec: CodecSpec) -> Shape:
    """The inner chunk of shards, from their configuration, whose members are checked."""
    configuration = spec.configuration
    if unknown := configuration.keys() - {"chunk_shape", "codecs", "index_codecs", "index_location"}:
        raise MetadataError("unknown members of sharding_indexed", found=excerpt(sorted(unknown)))
    inner_chunk = read_lengths(configuration.get("chunk_shape"), "chunk_shape", least=1)
    if not isinstance(configuration.get("codecs"), list | tuple):
        raise MetadataError("sharding_indexed needs a list of codecs", found=str(spec.to_json())[:200])
    return inner_chunk


def index_of(spec: CodecSpec) -> IndexFormat:
    """The index of shards; UnsupportedError if it has an unknown codec."""
    try:
        return IndexFormat.from_json(spec.configuration)
    except UnsupportedError as error:
        if any(_unknown_codecs(spec.configuration["index_codecs"])):
            raise
        raise MetadataError.of(error.problem) from error

"""Compilation of codecs: from a name and a configuration to functions on buffers and arrays.

The table of codecs names the class of each; its module is imported when a chain first names the codec.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, cast

from zarrstack.core.errors import UnsupportedError
from zarrstack.core.json_text import canonical

from ..codec_table import facts_of
from .base import DEFAULT_OPTIONS, ArrayCodec, BytesCodec, InnerChunk, Options, found

if TYPE_CHECKING:
    import numpy as np

    from ..chain.chain import Chain
    from ..codec_facts import CodecFacts
    from ..codec_spec import CodecSpec


def compile_bytes_codec(spec: CodecSpec, item: np.dtype[Any] | None = None) -> BytesCodec:
    """Compile a bytes-to-bytes codec.

    `item` is the type of the decoded buffer's items, if known; some codecs need it if their configuration
    does not state it. MetadataError for an invalid configuration, UnsupportedError for an unknown name or
    a package that is not installed.
    """
    return cast("type[BytesCodec]", _class_of(spec, serializer=False)).from_spec(spec, item)


def compile_array_codec(
    spec: CodecSpec, inner_chunk: InnerChunk, options: Options = DEFAULT_OPTIONS
) -> ArrayCodec:
    """Compile an array-to-bytes codec for one kind of inner chunk (its shape already transposed).

    Errors as in `compile_bytes_codec`.
    """
    return cast("type[ArrayCodec]", _class_of(spec, serializer=True)).from_spec(spec, inner_chunk, options)


def _class_of(spec: CodecSpec, *, serializer: bool) -> Any:
    facts = facts_of(spec.name)
    if facts is None or facts.made_by is None or (facts.kind == "serializer") is not serializer:
        kind = "array-to-bytes" if serializer else "bytes-to-bytes"
        raise UnsupportedError(
            f"no {kind} codec {spec.name!r} is known here", found=canonical(spec.to_json())
        )
    require_package(facts, spec)
    return found(facts.made_by)


def missing_packages(chain: Chain) -> list[str]:
    """The packages that the codecs of a chain need and that are not installed."""
    packages = [facts.package for spec in chain.codecs if (facts := facts_of(spec.name)) is not None]
    return [package for package in packages if package is not None and find_spec(package) is None]


def require_package(facts: CodecFacts, spec: CodecSpec) -> None:
    """Raise UnsupportedError unless a codec's package is installed; decoding a chunk imports it."""
    if facts.package is not None and find_spec(facts.package) is None:
        extra = "" if facts.extra is None else f" (the extra {facts.extra})"
        raise UnsupportedError(
            f"codec {spec.name.removeprefix('numcodecs.')!r} needs a package that is not installed",
            found=str(spec),
            expected=facts.package,
            advice=f"Install it: pip install {facts.package}{extra}.",
        )

"""The chunk key encodings of all formats: v3's, N5's, the 2022 draft's, and patterns for formats by others.

All share one interface: `key`, `keys`, `coordinates`, `depth` and `to_json`. A v3 document can only have a
`KeyEncoding`.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from zarrstack.core.chunk_keys_v3 import KeyEncoding, Separator
from zarrstack.core.errors import MetadataError
from zarrstack.core.json_text import JSON

from .chunk_keys_draft import DraftKeys
from .chunk_keys_n5 import N5Keys
from .chunk_keys_pattern import PatternKeys

ChunkKeys: TypeAlias = KeyEncoding | N5Keys | DraftKeys | PatternKeys
_SEPARATORS: Final[tuple[Separator, ...]] = ("/", ".")


def chunk_keys_from_json(data: JSON) -> ChunkKeys:
    """The inverse of `to_json`; MetadataError for an unknown encoding."""
    name = data.get("name") if isinstance(data, dict) else None
    if name == "n5":
        return N5Keys.from_json(data)
    if name == "draft":
        return DraftKeys.from_json(data)
    if name == "pattern":
        return PatternKeys.from_json(data)
    return KeyEncoding.from_json(data)


def chunk_keys_of(pattern: str, ndim: int) -> KeyEncoding | PatternKeys:
    """The keys that a pattern makes; the v3 encoding with the same keys, if there is one.

    MetadataError for an invalid pattern, or one for another number of axes.
    """
    keys = PatternKeys(pattern)
    if keys.ndim != ndim:
        raise MetadataError(
            "a pattern of chunk keys has one field for each axis", found=pattern, expected=f"{ndim} fields"
        )
    fields = [f"{{{axis}}}" for axis in range(ndim)]
    for separator in _SEPARATORS:
        if pattern == separator.join(["c", *fields]):
            return KeyEncoding("default", separator)
        if pattern == (separator.join(fields) or "0"):
            return KeyEncoding("v2", separator)
    return keys

"""The chunk key encodings of all formats: v3's, N5's and the 2022 draft's.

All share one interface: `key`, `keys`, `coordinates`, `depth` and `to_json`. A v3 document can only have a
`KeyEncoding`.
"""

from __future__ import annotations

from typing import TypeAlias

from ..json_text import JSON
from .chunk_keys_draft import DraftKeys
from .chunk_keys_n5 import N5Keys
from .chunk_keys_v3 import KeyEncoding

ChunkKeys: TypeAlias = KeyEncoding | N5Keys | DraftKeys


def chunk_keys_from_json(data: JSON) -> ChunkKeys:
    """The inverse of `to_json`; MetadataError for an unknown encoding."""
    name = data.get("name") if isinstance(data, dict) else None
    if name == "n5":
        return N5Keys.from_json(data)
    if name == "draft":
        return DraftKeys.from_json(data)
    return KeyEncoding.from_json(data)

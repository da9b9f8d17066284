"""Zarr v2 `order`, `filters` and `compressor` as a codec chain, under the name readers know.

The 2022 draft hides the same filters among its attributes, so the facts are in the core.
"""

from __future__ import annotations

from zarrstack.core.chain_v2 import FILTERS, OBJECT_CODECS, is_beyond_v3, read_chain, unknown_codecs

__all__ = ["FILTERS", "OBJECT_CODECS", "is_beyond_v3", "read_chain", "unknown_codecs"]

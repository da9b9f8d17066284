"""The errors that zarrstack raises, and the record that each carries; importing them loads nothing heavy."""

from __future__ import annotations

from .core.errors import (
    CastError,
    ChunkError,
    MetadataError,
    Problem,
    StorageError,
    UnsupportedError,
    UsageError,
    ZarrstackError,
)

__all__ = [
    "CastError", "ChunkError", "MetadataError", "Problem", "StorageError", "UnsupportedError", "UsageError",
    "ZarrstackError",
]  # fmt: skip

"""Encoder settings that numcodecs, N5 and the 2022 draft spell differently from Zarr v3."""

from __future__ import annotations

from typing import Final

from zarrstack.core.json_text import JSON

BLOSC_SHUFFLES: Final = ("noshuffle", "shuffle", "bitshuffle")
"""v3's names of blosc's shuffles, by their number in the other formats."""


def blosc_shuffle(number: int, itemsize: int) -> str:
    """v3's name of a shuffle; automatic (-1) depends on the items, as in numcodecs."""
    if number == -1:
        number = 2 if itemsize == 1 else 1
    return BLOSC_SHUFFLES[int(number)]


def gzip_level(level: JSON) -> JSON:
    """The level for v3, which allows only 0 to 9; -1 is zlib's default, 6."""
    return 6 if level == -1 else level

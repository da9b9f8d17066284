"""Sizes and rates as text: `512MB`, `50MB/s`, `2GiB`. Pure."""

from __future__ import annotations

import re
from typing import Final

UNITS: Final = {
    "": 1, "B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
    "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12,
    "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40,
}  # fmt: skip
"""Bytes; binary units as in IEC 80000-13. `KB` is accepted for `kB`, and a prefix alone (`10M`)."""
_SIZE: Final = re.compile(r"\s*(?P<number>\d+(\.\d+)?)\s*(?P<unit>[A-Za-z]*)\s*")


def parse_size(text: str) -> float | None:
    """Bytes of a text such as "512MB" or "10"; None if it is not a size."""
    match = _SIZE.fullmatch(text)
    if match is None or match["unit"] not in UNITS:
        return None
    size = float(match["number"]) * UNITS[match["unit"]]
    return int(size) if size.is_integer() else size


def parse_rate(text: str) -> float | None:
    """Units per second of a text such as "50MB/s" or "10"; None if it is not a rate."""
    return parse_size(re.sub(r"/\s*s\s*$", "", text))

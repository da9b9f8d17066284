"""Parses `--for`: names of readers in the table of `zarrlift list readers`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from zarrstack.core.errors import UsageError


def parse_readers(value: str | Sequence[str]) -> tuple[str, ...]:
    """The readers in a comma-separated text or a list, each once; UsageError for an unknown one.

    A name may have a version: "gdal 3.10", "gdal==3.10".
    """
    names: Any = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise UsageError("--for takes names of readers", found=repr(value), expected="such as gdal,xarray")
    parsed = tuple(dict.fromkeys(" ".join(name.split()) for name in names if name.strip()))
    if parsed:
        from ..core.chain.reader_table import table

        for name in parsed:
            table().named(name)
    elif names:
        raise UsageError("--for takes names of readers", found=repr(value), expected="such as gdal,xarray")
    return parsed

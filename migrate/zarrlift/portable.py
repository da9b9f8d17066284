"""Who reads what: the tables of `zarrstack.core.portable`, under the name the planning knows."""

from __future__ import annotations

from zarrstack.core.portable import (
    CODECS,
    DATA_TYPES,
    READERS,
    SHARDED_STRUCTS,
    TENSORSTORE,
    ZARR_NEW,
    ZARR_OLD,
    ZARRS,
    Reader,
    Register,
    Row,
    limits_problem,
    within_limits,
)

__all__ = [
    "CODECS",
    "DATA_TYPES",
    "READERS",
    "SHARDED_STRUCTS",
    "TENSORSTORE",
    "ZARRS",
    "ZARR_NEW",
    "ZARR_OLD",
    "Reader",
    "Register",
    "Row",
    "limits_problem",
    "within_limits",
]

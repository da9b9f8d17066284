"""A stack of storage transformers for zarr-python 3 arrays, above the facts of the formats (`core`)."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .arrays import create_array as create_array
    from .arrays import open as open  # noqa: A004
    from .transformer import StorageTransformer as StorageTransformer
    from .transformer import stack as stack

_HOMES = {
    "StorageTransformer": "transformer",
    "create_array": "arrays",
    "open": "arrays",
    "stack": "transformer",
    # The layers: one module each.
    "Cache": "cache",
    "Checksum": "checksum",
    "Draft": "draft",
    "Log": "log",
    "Overlay": "overlay",
    "PerArray": "per_array",
    "ReadOnly": "readonly",
    "Rekey": "rekey",
    "Retry": "retry",
    "Sharding": "sharding",
    "Throttle": "throttle",
}
"""Where each public name lives. They are imported when asked for: zarr takes a quarter of a second."""

__all__ = sorted(_HOMES)  # noqa: PLE0605 -- the table says it once


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})

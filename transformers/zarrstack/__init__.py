"""A stack of storage transformers for zarr-python 3 arrays, on top of the format definitions in `core`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .base.lazy import loader

if TYPE_CHECKING:
    from .arrays import create_array as create_array
    from .arrays import open as open  # noqa: A004
    from .base.stack import stack as stack
    from .base.transformer import StorageTransformer as StorageTransformer

_HOMES = {
    "StorageTransformer": "base.transformer",
    "create_array": "arrays",
    "open": "arrays",
    "stack": "base.stack",
    # The layers: one module each.
    "Cache": "layers.cache.layer",
    "Checksum": "layers.checksum.layer",
    "Draft": "layers.draft.layer",
    "Log": "layers.log.layer",
    "Overlay": "layers.overlay.layer",
    "PerArray": "layers.per_array",
    "ReadOnly": "layers.readonly",
    "Rekey": "layers.rekey.layer",
    "Retry": "layers.retry",
    "Sharding": "layers.sharding.layer",
    "Throttle": "layers.throttle",
}
"""Module of each public name. Imported on demand: importing zarr takes a quarter of a second."""

__all__ = sorted(_HOMES)  # noqa: PLE0605 - derived from the table


__getattr__ = loader(__name__, _HOMES, globals())


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})

"""A stack of storage transformers for zarr-python 3 arrays, on top of the format definitions in `core`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .base.lazy import loader
from .version import __version__ as __version__

if TYPE_CHECKING:
    from .arrays import create_array as create_array
    from .arrays import open as open  # noqa: A004
    from .arrays import open_array as open_array
    from .arrays import open_group as open_group
    from .base.byte_ranges import bounds as bounds
    from .base.byte_ranges import cut as cut
    from .base.intercept import Call as Call
    from .base.intercept import Intercept as Intercept
    from .base.registry import register as register
    from .base.stack import stack as stack
    from .base.stack import stack_to_json as stack_to_json
    from .base.transformer import StorageTransformer as StorageTransformer
    from .layers.cache.layer import Cache as Cache
    from .layers.log.layer import Log as Log
    from .layers.per_array.layer import PerArray as PerArray
    from .layers.readonly import ReadOnly as ReadOnly
    from .layers.rekey.layer import Rekey as Rekey
    from .layers.retry import Retry as Retry
    from .layers.sharding.layer import Sharding as Sharding
    from .layers.throttle import Throttle as Throttle
    from .layers.write_back.layer import WriteBack as WriteBack

_HOMES = {
    "StorageTransformer": "base.transformer",
    # What authors of layers need.
    "Call": "base.intercept",
    "Intercept": "base.intercept",
    "bounds": "base.byte_ranges",
    "cut": "base.byte_ranges",
    "create_array": "arrays",
    "open": "arrays",
    "open_array": "arrays",
    "open_group": "arrays",
    "register": "base.registry",
    "stack": "base.stack",
    "stack_to_json": "base.stack",
    # The layers: one module each.
    "Cache": "layers.cache.layer",
    "Log": "layers.log.layer",
    "PerArray": "layers.per_array.layer",
    "ReadOnly": "layers.readonly",
    "Rekey": "layers.rekey.layer",
    "Retry": "layers.retry",
    "Sharding": "layers.sharding.layer",
    "Throttle": "layers.throttle",
    "WriteBack": "layers.write_back.layer",
}
"""Module of each public name. Imported on demand: importing zarr takes a quarter of a second."""

__all__ = sorted(_HOMES)  # noqa: PLE0605 - derived from the table


__getattr__ = loader(__name__, _HOMES, globals())


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})

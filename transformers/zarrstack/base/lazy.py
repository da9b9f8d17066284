"""Lazy loading of a package's public names.

Source: https://peps.python.org/pep-0562/ (`__getattr__` of a module).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def loader(package: str, homes: Mapping[str, str], names: dict[str, Any]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package, which caches results in `names`, the package's globals.

    `homes` maps each public name to the module of the package that defines it. AttributeError for others.
    """

    def load(name: str) -> Any:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        from importlib import import_module

        value = names[name] = getattr(import_module(f"{package}.{home}"), name)
        return value

    return load

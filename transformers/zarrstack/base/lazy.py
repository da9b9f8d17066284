"""Packages whose public names are loaded when somebody first asks for them.

Source: https://peps.python.org/pep-0562/ (`__getattr__` of a module).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def loader(package: str, homes: Mapping[str, str], names: dict[str, Any]) -> Callable[[str], Any]:
    """The `__getattr__` of a package: what it gives, it also puts into `names`, the package's globals.

    `homes` says in which module of the package each public name is defined. AttributeError for others.
    """

    def load(name: str) -> Any:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        from importlib import import_module

        value = names[name] = getattr(import_module(f"{package}.{home}"), name)
        return value

    return load

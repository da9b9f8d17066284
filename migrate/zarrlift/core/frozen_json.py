"""JSON values that cannot be changed: configurations and fill values, which are hashed and shared.

They remain dicts and lists, so that encoders, comparisons and readers treat them like any other JSON.
"""

from __future__ import annotations

from typing import Any, NoReturn

from zarrstack.core.json_text import JSON


def frozen(value: JSON) -> JSON:
    """A JSON value, unchangeable at every level."""
    if type(value) is dict:
        return FrozenObject({name: frozen(item) for name, item in value.items()})
    if type(value) in (list, tuple):
        return FrozenList(map(frozen, value))
    return value


def thawed(value: JSON) -> JSON:
    """A copy of a JSON value that can be changed; some codecs of zarr-python change the JSON they read."""
    if isinstance(value, dict):
        return {name: thawed(item) for name, item in value.items()}
    return [thawed(item) for item in value] if isinstance(value, list) else value


class _Frozen:
    """Refuses every method that would change a dict or a list."""

    __slots__ = ()

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("this JSON value is part of a layout, which cannot be changed")

    __setitem__ = __delitem__ = __ior__ = __iadd__ = __imul__ = _refuse
    clear = pop = popitem = setdefault = update = append = extend = insert = remove = reverse = sort = _refuse


class FrozenObject(_Frozen, dict[str, Any]):
    """A JSON object."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenObject, (dict(self),)


class FrozenList(_Frozen, list[Any]):
    """A JSON array."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenList, (list(self),)

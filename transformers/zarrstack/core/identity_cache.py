"""What was made of some objects, for when the very same ones come again.

Thousands of arrays share a layout or a chain. To find that out by comparing costs about as much as
the work that is saved; by identity it costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")

MOST: Final = 1024
"""Results that are kept: more kinds of arrays than archives have that are worth it."""


class Remembered(Generic[T]):
    """A function that is called once for the same objects; none of them may change afterwards.

    The objects are kept with the results, so that none of another kind takes their place in memory.
    """

    def __init__(self, make: Callable[..., T]) -> None:
        """`make` gives what its arguments alone decide."""
        self._make = make
        self._known: dict[tuple[Any, ...], tuple[tuple[Any, ...], T]] = {}

    def __call__(self, *objects: Any) -> T:
        """What `make` gives for these; what it raises is not kept."""
        key = tuple(map(id, objects))
        known = self._known.get(key)
        return self._new(key, objects) if known is None else known[1]

    def _new(self, key: tuple[Any, ...], objects: tuple[Any, ...]) -> T:
        if len(self._known) >= MOST:
            self._known.clear()
        result = self._make(*objects)
        self._known[key] = (objects, result)
        return result


class RememberedMembers(Remembered[T]):
    """The same for a JSON object, which may be made anew of the very same values in the same order."""

    def __call__(self, value: dict[str, Any]) -> T:
        """What `make` gives for the object."""
        key = (*value, *map(id, value.values()))
        known = self._known.get(key)
        return self._new(key, (dict(value),)) if known is None else known[1]


class Seen:
    """Which objects came before: what comes once is better not divided into parts to be remembered."""

    def __init__(self) -> None:
        self._seen: dict[int, Any] = {}

    def __call__(self, item: Any) -> bool:
        """Whether the very same object was asked about before, and lately."""
        if id(item) in self._seen:
            return True
        if len(self._seen) >= MOST:
            self._seen.clear()
        self._seen[id(item)] = item
        return False

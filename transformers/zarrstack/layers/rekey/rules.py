"""Rules that map keys in both directions; the building blocks of `Rekey`.

A rule maps every key above to a distinct key below, so any sequence of rules is one-to-one. A rule that moves
keys (`a` to `b`) moves the keys in the way to the freed names (`b` to `a`): nothing is hidden or overwritten.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import ClassVar, TypeAlias

from ...base.chunks import check_path
from ...core.errors import UsageError
from ...core.json_text import JSON, JSONObject, excerpt

Arrays: TypeAlias = Mapping[str, int]
"""Number of axes by array path."""


class Rule:
    """Base class. Subclasses define `down` and `up`; the other methods only limit listings."""

    name: ClassVar[str]

    def down(self, key: str) -> str | None:
        """Map a key to the one below; None if it cannot be mapped."""
        raise NotImplementedError

    def up(self, key: str) -> str | None:
        """Map a key below to the one above; None if no key above is stored there."""
        raise NotImplementedError

    def cover(self, prefix: str) -> tuple[str, ...]:
        """Prefixes below that include all keys whose keys above start with `prefix`; they may include more.

        Either the prefix itself, if it has the same meaning below, or folders ("" or with a trailing slash):
        some stores list only folders.
        """
        return ("",)

    def image(self, folder: str) -> str | None:
        """The folder below that holds exactly the keys of this folder ("" or `a/`).

        None if there is none, or if it is unknown.
        """
        return None

    def renames(self, folder: str) -> bool:
        """Whether keys directly in a folder that has an image have other names there."""
        return False

    @property
    def configuration(self) -> JSONObject:
        raise NotImplementedError

    def to_json(self) -> JSONObject:
        """The rule as `{"name": ..., "configuration": {...}}`; UsageError if it has no JSON form."""
        return {"name": self.name, "configuration": self.configuration}

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        options = ", ".join(f"{name}={value!r}" for name, value in self.configuration.items())
        return f"{type(self).__name__}({options})"


class Exchange(Rule):
    """Moves the keys that `there` maps, and moves the keys in the way to the freed names.

    `back` is the inverse of `there`. If moved keys displace each other in a chain, the key at its end takes
    the name freed at its beginning.
    """

    def there(self, key: str) -> str | None:
        """The key that this key is moved to; None if it is not moved."""
        raise NotImplementedError

    def back(self, key: str) -> str | None:
        """The key that is moved here, if any."""
        raise NotImplementedError

    def down(self, key: str) -> str:
        return _swapped(key, self.there, self.back)

    def up(self, key: str) -> str:
        return _swapped(key, self.back, self.there)


def _swapped(key: str, forth: Callable[[str], str | None], back: Callable[[str], str | None]) -> str:
    moved = forth(key)
    if moved is not None:
        return moved
    while (before := back(key)) is not None:
        key = before
    return key


class Prefix(Rule):
    """Stores the contents of folder `above` in folder `below`; "" is the whole store.

    `Prefix(below="old")` shows only the contents of `old`; `Prefix(above="new")` shows the whole store in
    `new` and cannot map other keys; with both, the two folders are swapped.
    """

    name = "prefix"

    def __init__(self, *, above: str = "", below: str = "") -> None:
        self.above, self.below = (path + "/" if check_path(path) else "" for path in (above, below))
        nested = self.above.startswith(self.below) or self.below.startswith(self.above)
        # A folder cannot be swapped with part of itself: the remaining keys would have no place.
        self.swaps = not nested

    def down(self, key: str) -> str | None:
        return self._map(key, self.above, self.below)

    def up(self, key: str) -> str | None:
        return self._map(key, self.below, self.above)

    def _map(self, key: str, old: str, new: str) -> str | None:
        if key.startswith(old):
            return new + key[len(old) :]
        if key.startswith(new):
            return old + key[len(new) :] if self.swaps else None
        return key

    def cover(self, prefix: str) -> tuple[str, ...]:
        if prefix.startswith(self.above):
            return (self.below + prefix[len(self.above) :],)
        if self.swaps and prefix.startswith(self.below):
            return (self.above + prefix[len(self.below) :],)
        if self.above.startswith(prefix) or self.below.startswith(prefix):
            return (folder_of(prefix), self.above, self.below)
        return (prefix,)

    def image(self, folder: str) -> str | None:
        if folder.startswith((self.above, self.below)):
            return self.down(folder)
        return None if self.above.startswith(folder) or self.below.startswith(folder) else folder

    @property
    def configuration(self) -> JSONObject:
        return {"above": self.above[:-1], "below": self.below[:-1]}


class Keys(Exchange):
    """Renames the keys of a table, above to below; all others are unchanged.

    UsageError if the table maps two keys to the same one.
    """

    name = "keys"

    def __init__(self, *, keys: Mapping[str, str] | None = None) -> None:
        texts: list[JSON] = [*keys, *keys.values()] if isinstance(keys, Mapping) else []
        if not isinstance(keys, Mapping) or not all(isinstance(text, str) and text for text in texts):
            raise UsageError(
                "rule 'keys': a table is a JSON object of keys, from above to below", found=excerpt(keys)
            )
        self.moves = {key: place for key, place in keys.items() if key != place}
        self.comes_from: dict[str, str] = {}
        for key, place in keys.items():
            # A key that keeps its name occupies it too.
            other = self.comes_from.setdefault(place, key)
            if other != key:
                raise UsageError(
                    "rule 'keys': the table is not one-to-one",
                    key=place,
                    found=f"{other!r} and {key!r} both go there",
                )
        self.comes_from = {place: key for key, place in self.moves.items()}
        self.affected = sorted({*self.moves, *self.comes_from})

    def there(self, key: str) -> str | None:
        return self.moves.get(key)

    def back(self, key: str) -> str | None:
        return self.comes_from.get(key)

    def cover(self, prefix: str) -> tuple[str, ...]:
        prefixes = dict.fromkeys(folder_of(self.down(key)) for key in self._affected(prefix))
        return (folder_of(prefix), *prefixes) if prefixes else (prefix,)

    def _affected(self, prefix: str) -> Iterator[str]:
        for key in islice(self.affected, bisect_left(self.affected, prefix), None):
            if not key.startswith(prefix):
                return
            yield key

    def image(self, folder: str) -> str | None:
        return folder if next(self._affected(folder), None) is None else None

    @property
    def configuration(self) -> JSONObject:
        return {"keys": dict(self.moves)}


def folder_of(prefix: str) -> str:
    """The folder that contains all keys with this prefix: the part up to the last slash."""
    return prefix[: prefix.rfind("/") + 1]


def read_json(file: str) -> JSON:
    """Parse a JSON file; UsageError if it cannot be read."""
    import json

    try:
        with open(file, encoding="utf-8") as opened:
            return json.load(opened)
    except (OSError, ValueError) as error:
        raise UsageError("a file of rules cannot be read", found=f"{file}: {error}") from None

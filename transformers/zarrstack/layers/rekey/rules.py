"""Rules that map keys both ways: what `Rekey` is made of.

A rule maps every key above to a key below, and no two to the same one, so that a sequence of rules
is one-to-one whatever they are. A rule that moves some keys (`a` to `b`) gives the keys that lay in
the way the places that became free (`b` to `a`): nothing is hidden, nothing is overwritten.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import ClassVar, TypeAlias

from ...base.chunk_names import check_path
from ...core.errors import UsageError
from ...core.json_text import JSON, JSONObject, excerpt

Arrays: TypeAlias = Mapping[str, int]
"""Numbers of axes by the paths of arrays."""


class Rule:
    """One rule. Subclasses say where keys go; all but `down` and `up` only save listing too much."""

    name: ClassVar[str]

    def down(self, key: str) -> str | None:
        """The key below, or None if there is no place for this key below."""
        raise NotImplementedError

    def up(self, key: str) -> str | None:
        """The key above, or None if nothing above is kept under this key."""
        raise NotImplementedError

    def cover(self, prefix: str) -> tuple[str, ...]:
        """What the keys below begin with whose keys above begin with `prefix`; more is no harm.

        Either the prefix itself, which then means the same below, or folders ("" or with a slash at
        the end): some stores list folders only.
        """
        return ("",)

    def image(self, folder: str) -> str | None:
        """The folder below that holds just the keys of this folder ("" or `a/`).

        None where there is none, or where that is not known.
        """
        return None

    def renames(self, folder: str) -> bool:
        """Whether what lies right in a folder that has an image has other names there."""
        return False

    @property
    def configuration(self) -> JSONObject:
        """The rule's options as JSON."""
        raise NotImplementedError

    def to_json(self) -> JSONObject:
        """`{"name": ..., "configuration": {...}}`; UsageError for a rule that has no JSON form."""
        return {"name": self.name, "configuration": self.configuration}

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.configuration.items())
        return f"{type(self).__name__}({shown})"


class Exchange(Rule):
    """A rule that moves the keys that `there` knows, and gives those in the way the free places.

    `back` is the inverse of `there`. A key that is moved onto another moved key's old place makes a
    chain; the key at its end goes to the place at its beginning.
    """

    def there(self, key: str) -> str | None:
        """Where a key is moved to; None for keys that are not moved."""
        raise NotImplementedError

    def back(self, key: str) -> str | None:
        """The key that is moved here; None if none is."""
        raise NotImplementedError

    def down(self, key: str) -> str:
        """As `Rule.down`; every key has a place."""
        return _go(key, self.there, self.back)

    def up(self, key: str) -> str:
        """As `Rule.up`; every place has a key."""
        return _go(key, self.back, self.there)


def _go(key: str, there: Callable[[str], str | None], back: Callable[[str], str | None]) -> str:
    moved = there(key)
    if moved is not None:
        return moved
    while (before := back(key)) is not None:
        key = before
    return key


class Prefix(Rule):
    """Keeps what is in folder `above` in folder `below`; "" is the whole store.

    `Prefix(below="old")` shows only what lies in `old`; `Prefix(above="new")` shows the whole store
    in `new` and has no place for other keys; with both, the two folders change places.
    """

    name = "prefix"

    def __init__(self, *, above: str = "", below: str = "") -> None:
        self.above, self.below = (path + "/" if check_path(path) else "" for path in (above, below))
        nested = self.above.startswith(self.below) or self.below.startswith(self.above)
        # A folder cannot change places with a part of itself: what is left over has no place.
        self.swaps = not nested

    def down(self, key: str) -> str | None:
        """As `Rule.down`."""
        return self._map(key, self.above, self.below)

    def up(self, key: str) -> str | None:
        """As `Rule.up`."""
        return self._map(key, self.below, self.above)

    def _map(self, key: str, here: str, there: str) -> str | None:
        if key.startswith(here):
            return there + key[len(here) :]
        if key.startswith(there):
            return here + key[len(there) :] if self.swaps else None
        return key

    def cover(self, prefix: str) -> tuple[str, ...]:
        """As `Rule.cover`."""
        if prefix.startswith(self.above):
            return (self.below + prefix[len(self.above) :],)
        if self.swaps and prefix.startswith(self.below):
            return (self.above + prefix[len(self.below) :],)
        if self.above.startswith(prefix) or self.below.startswith(prefix):
            return (folder_of(prefix), self.above, self.below)
        return (prefix,)

    def image(self, folder: str) -> str | None:
        """As `Rule.image`."""
        if folder.startswith((self.above, self.below)):
            return self.down(folder)
        return None if self.above.startswith(folder) or self.below.startswith(folder) else folder

    @property
    def configuration(self) -> JSONObject:
        """`above` and `below`."""
        return {"above": self.above[:-1], "below": self.below[:-1]}


class Keys(Exchange):
    """Keeps each key of a table, above to below, under its own name; all others where they are.

    `file` names a JSON file with such a table, which is read once. UsageError for a table that gives
    two keys the same place.
    """

    name = "keys"

    def __init__(self, *, keys: Mapping[str, str] | None = None, file: str | None = None) -> None:
        if (keys is None) == (file is None):
            raise UsageError("rule 'keys': give either keys or a file")
        table = read_json(file) if file is not None else keys
        if not isinstance(table, Mapping) or not all(
            isinstance(text, str) and text for pair in table.items() for text in pair
        ):
            raise UsageError(
                "rule 'keys': a table is a JSON object of keys, from above to below", found=excerpt(table)
            )
        self.moves = {key: place for key, place in table.items() if key != place}
        self.comes_from: dict[str, str] = {}
        for key, place in table.items():
            # A key that keeps its name has its place too.
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
        """As `Exchange.there`."""
        return self.moves.get(key)

    def back(self, key: str) -> str | None:
        """As `Exchange.back`."""
        return self.comes_from.get(key)

    def cover(self, prefix: str) -> tuple[str, ...]:
        """As `Rule.cover`."""
        found = dict.fromkeys(folder_of(self.down(key)) for key in self._affected(prefix))
        return (folder_of(prefix), *found) if found else (prefix,)

    def _affected(self, prefix: str) -> Iterator[str]:
        for key in islice(self.affected, bisect_left(self.affected, prefix), None):
            if not key.startswith(prefix):
                return
            yield key

    def image(self, folder: str) -> str | None:
        """As `Rule.image`."""
        return folder if next(self._affected(folder), None) is None else None

    @property
    def configuration(self) -> JSONObject:
        """The table."""
        return {"keys": dict(self.moves)}


class Functions(Rule):
    """Maps keys by two functions, of which each undoes the other; None means 'no such key'.

    Each answer is held against the other function: UsageError where they do not agree. Listings go
    through the whole store below.
    """

    name = "functions"

    def __init__(self, down: Callable[[str], str | None], up: Callable[[str], str | None]) -> None:
        self.to_below, self.to_above = down, up

    def down(self, key: str) -> str | None:
        """As `Rule.down`."""
        place = self.to_below(key)
        if place is not None and (found := self.to_above(place)) != key:
            raise _not_inverse(key, place, found)
        return place

    def up(self, key: str) -> str | None:
        """As `Rule.up`."""
        name = self.to_above(key)
        if name is not None and (found := self.to_below(name)) != key:
            raise _not_inverse(name, key, found)
        return name

    @property
    def configuration(self) -> JSONObject:
        """The functions, which are no JSON."""
        return {"down": self.to_below, "up": self.to_above}


def folder_of(prefix: str) -> str:
    """The folder in which all keys with this prefix lie: what comes up to the last slash."""
    return prefix[: prefix.rfind("/") + 1]


def _not_inverse(above: str, below: str, found: str | None) -> UsageError:
    return UsageError(
        "rule 'functions': the functions are not the inverse of each other",
        key=above,
        found=f"kept as {below!r}, which leads to {found!r}",
    )


def read_json(file: str) -> JSON:
    """What a JSON file holds; UsageError if it cannot be read."""
    import json

    try:
        with open(file, encoding="utf-8") as opened:
            return json.load(opened)
    except (OSError, ValueError) as error:
        raise UsageError("a file of rules or keys cannot be read", found=f"{file}: {error}") from None

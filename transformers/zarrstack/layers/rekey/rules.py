"""Rules that map keys in both directions; the building blocks of `Rekey`.

A rule maps each key above to a distinct key below, or to none, so any sequence of rules is one-to-one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from ...base.chunks import ChunkNames, check_path
from ...core.chunk_keys_v3 import KeyEncoding
from ...core.errors import UsageError
from ...core.json_text import JSON, Extension, JSONObject, excerpt
from ...core.paths import ancestors, parents, prefix_of


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
        """The folder below that holds exactly the keys of this folder ("" or `a/`); None if it is unknown."""
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


class Prefix(Rule):
    """Stores the contents of folder `above` in folder `below`; "" is the whole store.

    Other keys keep their names, except those in folder `below`, which have no place: `Prefix(below="old")`
    shows only the contents of `old`, `Prefix(above="new")` the whole store in `new`.
    """

    name = "prefix"

    def __init__(self, *, above: str = "", below: str = "") -> None:
        self.above, self.below = prefix_of(check_path(above)), prefix_of(check_path(below))

    def down(self, key: str) -> str | None:
        return _moved(key, self.above, self.below)

    def up(self, key: str) -> str | None:
        return _moved(key, self.below, self.above)

    def cover(self, prefix: str) -> tuple[str, ...]:
        if prefix.startswith(self.above):
            return (self.below + prefix[len(self.above) :],)
        return (folder_of(prefix), self.below) if self.above.startswith(prefix) else (prefix,)

    def image(self, folder: str) -> str | None:
        if folder.startswith(self.above):
            return self.below + folder[len(self.above) :]
        mixed = self.above.startswith(folder) or self.below.startswith(folder)
        return None if mixed or folder.startswith(self.below) else folder

    @property
    def configuration(self) -> JSONObject:
        return {"above": self.above[:-1], "below": self.below[:-1]}


def _moved(key: str, old: str, new: str) -> str | None:
    if key.startswith(old):
        return new + key[len(old) :]
    return None if key.startswith(new) else key


class Chunks(Rule):
    """Translates chunk keys between two encodings: v2 or default, with either separator.

    Chunks are named `above` in the array and `below` in the store. `arrays` maps the path of each array to
    its number of axes. All other keys are unchanged, including chunk keys of unknown arrays and keys whose
    number of indexes differs from the array's number of axes, except those where a chunk is stored, which
    have no place. UsageError for an array within another, whose keys could be chunks of both.
    """

    name = "chunks"

    def __init__(self, *, arrays: Mapping[str, int], above: JSON = "default", below: JSON = "v2") -> None:
        if not isinstance(arrays, Mapping):
            raise UsageError(
                f"rule {self.name!r}: bad arrays", found=excerpt(arrays), expected='{"path": number of axes}'
            )
        self.arrays = dict(sorted(arrays.items()))
        self.above, self.below = (
            each if isinstance(each, KeyEncoding) else KeyEncoding.from_json(each) for each in (above, below)
        )
        self._names = {
            path: (ChunkNames(path, ndim, self.above), ChunkNames(path, ndim, self.below))
            for path, ndim in self.arrays.items()
        }
        for path in self.arrays:
            if (outer := next((each for each in parents(path) if each in self.arrays), None)) is not None:
                raise UsageError(
                    f"rule {self.name!r} is not one-to-one: an array is within another",
                    node=path,
                    found=f"an array at {outer or 'the root'!r}",
                )

    def down(self, key: str) -> str | None:
        return self._translated(key, 0)

    def up(self, key: str) -> str | None:
        return self._translated(key, 1)

    def _translated(self, key: str, side: int) -> str | None:
        names = next((self._names[path] for path in ancestors(key) if path in self._names), None)
        if names is None or self.above == self.below:
            return key
        if (chunk := names[side].coordinates(key)) is not None:
            return names[1 - side].key(chunk)
        return None if names[1 - side].coordinates(key) is not None else key

    def cover(self, prefix: str) -> tuple[str, ...]:
        array = next((path for path in ancestors(prefix) if path in self._names), None)
        return (prefix,) if array is None else (prefix_of(array),)

    def image(self, folder: str) -> str | None:
        return folder if self.cover(folder) == (folder,) else None

    def renames(self, folder: str) -> bool:
        return folder[:-1] in self._names

    @property
    def configuration(self) -> JSONObject:
        return {"above": self.above.to_json(), "below": self.below.to_json(), "arrays": self.arrays}


RULES: Final[dict[str, Any]] = {rule.name: rule for rule in (Prefix, Chunks)}
"""Rules by name, for JSON."""


def parse_rule(data: Rule | JSON) -> Rule:
    """Parse a rule; UsageError for an unknown name or option."""
    if isinstance(data, Rule):
        return data
    name, configuration, _ = Extension.from_json(data, "rule of layer 'rekey'", UsageError)
    if (make := RULES.get(name)) is None:
        raise UsageError("layer 'rekey': unknown rule", found=excerpt(data), expected=", ".join(RULES))
    try:
        rule: Rule = make(**configuration)
    except TypeError as error:
        raise UsageError(f"rule {name!r} has other options", found=str(error)) from None
    return rule


def folder_of(prefix: str) -> str:
    """The folder that contains all keys with this prefix: the part up to the last slash."""
    return prefix[: prefix.rfind("/") + 1]

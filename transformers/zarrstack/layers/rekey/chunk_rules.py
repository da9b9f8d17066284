"""The rule for the chunk keys of known arrays: another encoding or separator."""

from __future__ import annotations

import re
from typing import Final, TypeAlias

from ...base.chunks import ChunkNames
from ...core.chunk_keys_v3 import KeyEncoding
from ...core.errors import UsageError
from ...core.json_text import JSON, JSONObject, excerpt
from ...core.paths import ancestors, parents, prefix_of
from .rules import Arrays, Exchange

Part: TypeAlias = tuple[str, int]
"""Form of a path segment: this text, followed by this number of indexes joined with dots."""

_INDEXES: Final = re.compile(r"(?:0|[1-9][0-9]{0,18})(?:\.(?:0|[1-9][0-9]{0,18}))*")


class Chunks(Exchange):
    """Translates chunk keys between two encodings: v2 or default, with either separator.

    Chunks are named `above` in the array and `below` in the store. `arrays` maps the path of each array to
    its number of axes; None takes them from the store's metadata. All other keys are unchanged, including
    chunk keys of unknown arrays and keys whose number of indexes differs from the array's number of axes.
    UsageError for arrays whose chunk keys are ambiguous.
    """

    name = "chunks"

    def __init__(self, *, above: JSON = "default", below: JSON = "v2", arrays: Arrays | None = None) -> None:
        self.above, self.below = (
            each if isinstance(each, KeyEncoding) else KeyEncoding.from_json(each) for each in (above, below)
        )
        self.arrays: dict[str, int] | None = None
        self._names: dict[str, tuple[ChunkNames, ChunkNames]] = {}
        if arrays is None:
            return
        if not hasattr(arrays, "items"):
            raise UsageError(
                f"rule {self.name!r}: bad arrays", found=excerpt(arrays), expected='{"path": number of axes}'
            )
        self.arrays = dict(sorted(arrays.items()))
        self._names = {
            path: (ChunkNames(path, ndim, self.above), ChunkNames(path, ndim, self.below))
            for path, ndim in self.arrays.items()
        }
        for side in (0, 1):
            _require_disjoint([names[side] for names in self._names.values()], self.name)

    def there(self, key: str) -> str | None:
        return self._translate(key, 0)

    def back(self, key: str) -> str | None:
        return self._translate(key, 1)

    def _translate(self, key: str, side: int) -> str | None:
        if self.above == self.below:
            return None
        for path in parents(key):
            if (names := self._names.get(path)) is not None:
                chunk = names[side].coordinates(key)
                if chunk is not None:
                    return names[1 - side].key(chunk)
        return None

    def cover(self, prefix: str) -> tuple[str, ...]:
        """See `Rule.cover`: a chunk key changes only within its array's folder."""
        array = next((p for p in ancestors(prefix) if p in self._names), None)
        return (prefix,) if array is None else (prefix_of(array),)

    def image(self, folder: str) -> str | None:
        """See `Rule.image`: chunks stay in their array's folder."""
        return folder if self.cover(folder) == (folder,) else None

    def renames(self, folder: str) -> bool:
        """See `Rule.renames`: names change directly in an array's folder."""
        return folder[:-1] in self._names

    @property
    def configuration(self) -> JSONObject:
        return {"above": self.above.to_json(), "below": self.below.to_json(), "arrays": self.arrays}


def _require_disjoint(all_names: list[ChunkNames], rule: str) -> None:
    """Raise UsageError if a key could name a chunk of two arrays, one inside the other's chunk folder."""
    by_path = {names.path: names for names in all_names}
    for names in all_names:
        for path in parents(names.path):
            outer = by_path.get(path)
            if outer is not None and _meet(_parts(outer), _parts(names)):
                raise UsageError(
                    f"rule {rule!r} is not one-to-one: an array is stored where another has its chunks",
                    node=names.path,
                    found=f"chunk keys {names.encoding} of {outer.ndim} axes in {path or 'the root'!r}",
                )


def _parts(names: ChunkNames) -> list[Part]:
    """The form of an array's chunk keys, segment by segment."""
    folders: list[Part] = [(part, 0) for part in names.folder.split("/")[:-1]]
    if names.ndim == 0:
        return [*folders, (names.key(())[len(names.folder) :], 0)]
    head = names.region[len(names.folder) :]
    if names.encoding.separator == ".":
        return [*folders, (head, names.ndim)]
    return [*folders, (head, 1), *[("", 1)] * (names.ndim - 1)]


def _meet(one: list[Part], other: list[Part]) -> bool:
    """Whether some key matches both forms."""
    return len(one) == len(other) and all(map(_parts_meet, one, other))


def _parts_meet(one: Part, other: Part) -> bool:
    if one[1] and other[1]:
        return one == other
    if one[1]:
        one, other = other, one
    if not other[1]:
        return one[0] == other[0]
    text, (head, count) = one[0], other
    rest = text[len(head) :]
    return text.startswith(head) and bool(_INDEXES.fullmatch(rest)) and rest.count(".") == count - 1

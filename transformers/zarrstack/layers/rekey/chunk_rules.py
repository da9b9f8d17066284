"""Rules for the chunk keys of known arrays: another encoding or separator, and the draft's layout."""

from __future__ import annotations

import re
from typing import Final, Self, TypeAlias

from ...base.chunk_names import DRAFT_ROOT, ChunkEncoding, ChunkNames
from ...core.errors import UsageError
from ...core.json_text import JSON, JSONObject, excerpt
from ...core.paths import ancestors, join, parents
from .rules import Arrays, Exchange, folder_of

Part: TypeAlias = tuple[str, int]
"""Form of a path segment: this text, followed by this number of indexes joined with dots."""

_INDEXES: Final = re.compile(r"(?:0|[1-9][0-9]{0,18})(?:\.(?:0|[1-9][0-9]{0,18}))*")
META_ROOT: Final = "meta/root"
"""Metadata folder of a draft archive: `meta/root/<path>.array.json` and `.group.json`
(zarr-v3-core-draft-2022-05, "Storage keys"; zarr-python 2.18.7).
"""


class Chunks(Exchange):
    """Translates chunk keys between two encodings: v2, default or draft, with either separator.

    Chunks are named `above` in the array and `below` in the store. `arrays` maps the path of each array to
    its number of axes; None takes them from the store's metadata. All other keys are unchanged, including
    chunk keys of unknown arrays and keys whose number of indexes differs from the array's number of axes.
    """

    name = "chunks"

    def __init__(self, *, above: JSON = "default", below: JSON = "v2", arrays: Arrays | None = None) -> None:
        self.above, self.below = ChunkEncoding.from_json(above), ChunkEncoding.from_json(below)
        self.arrays: dict[str, int] | None = None
        self._names: dict[str, tuple[ChunkNames, ChunkNames]] = {}
        if arrays is not None:
            self.know(arrays)

    def know(self, arrays: Arrays) -> None:
        """Set the arrays, once; UsageError if their chunk keys are ambiguous."""
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
            _apart([names[side] for names in self._names.values()], self.name)

    @property
    def knows(self) -> bool:
        """Whether the arrays have been set."""
        return self.arrays is not None

    def with_arrays(self, arrays: Arrays) -> Self:
        """A copy of this rule for these arrays."""
        rule = type(self)(above=self.above, below=self.below)
        rule.know(arrays)
        return rule

    def there(self, key: str) -> str | None:
        """See `Exchange.there`."""
        return self._translate(key, self.above, 0)

    def back(self, key: str) -> str | None:
        """See `Exchange.back`."""
        return self._translate(key, self.below, 1)

    def _translate(self, key: str, encoding: ChunkEncoding, side: int) -> str | None:
        root = encoding.root + "/" if encoding.root else ""
        if self.above == self.below or not key.startswith(root):
            return None
        for path in parents(key[len(root) :]):
            if (names := self._names.get(path)) is not None:
                chunk = names[side].coordinates(key)
                if chunk is not None:
                    return names[1 - side].key(chunk)
        return None

    def cover(self, prefix: str) -> tuple[str, ...]:
        """See `Rule.cover`."""
        roots = {encoding.root for encoding in (self.above, self.below)} - {""}
        if not roots:
            # A chunk key changes only within its array's folder.
            array = next((p for p in ancestors(prefix) if p in self._names), None)
            return (prefix,) if array is None else (array + "/" if array else "",)
        return self._cover_with(prefix, {root + "/" for root in roots})

    def _cover_with(self, prefix: str, trees: set[str]) -> tuple[str, ...]:
        """The cover if chunks, or documents, are stored in separate trees."""
        tops = {tree.split("/", 1)[0] for tree in trees}
        mixed = any(path.split("/", 1)[0] in tops for path in self._names)
        if mixed or any(tree.startswith(prefix) or prefix.startswith(tree) for tree in trees):
            return ("",)
        array = next((p for p in ancestors(prefix) if p in self._names), None)
        folder = folder_of(prefix) if array is None else array + "/" if array else ""
        return (folder, *(tree + folder for tree in sorted(trees)))

    def image(self, folder: str) -> str | None:
        """See `Rule.image`: chunks stay in their array's folder."""
        plain = not self.above.root and not self.below.root
        return folder if plain and self.cover(folder) == (folder,) else None

    def renames(self, folder: str) -> bool:
        """See `Rule.renames`: names change directly in an array's folder."""
        return folder[:-1] in self._names

    @property
    def configuration(self) -> JSONObject:
        """The encodings and the arrays."""
        return {"above": self.above.to_json(), "below": self.below.to_json(), "arrays": self.arrays}


class Draft(Chunks):
    """Maps the 2022 draft's layout to keys of Zarr v3; documents are not translated.

    `a/c/0/1` is stored as `data/root/a/c0/1`, `a/zarr.json` as `meta/root/a.array.json` if `a` is one of
    `arrays`, otherwise as `meta/root/a.group.json`. `above` is the chunk key encoding above, `separator` the
    one below. With `reverse`, the draft's keys are above and those of Zarr v3 below.
    """

    name = "draft"

    def __init__(
        self,
        *,
        above: JSON = "default",
        separator: str = "/",
        reverse: bool = False,
        arrays: Arrays | None = None,
    ) -> None:
        self.reverse = reverse
        below = {"name": "draft", "configuration": {"separator": separator, "root": DRAFT_ROOT}}
        super().__init__(above=above, below=below, arrays=arrays)

    def with_arrays(self, arrays: Arrays) -> Self:
        """A copy of this rule for these arrays."""
        rule = type(self)(above=self.above, separator=self.below.separator, reverse=self.reverse)
        rule.know(arrays)
        return rule

    def there(self, key: str) -> str | None:
        """See `Exchange.there`."""
        return self._to_ratified(key) if self.reverse else self._to_draft(key)

    def back(self, key: str) -> str | None:
        """See `Exchange.back`."""
        return self._to_draft(key) if self.reverse else self._to_ratified(key)

    def _to_draft(self, key: str) -> str | None:
        path = "" if key == "zarr.json" else key.removesuffix("/zarr.json")
        if path == key or (not path and key != "zarr.json"):
            return super().there(key)
        kind = "array" if path in self._names else "group"
        return META_ROOT + (f"/{path}" if path else "") + f".{kind}.json"

    def _to_ratified(self, key: str) -> str | None:
        for kind in ("array", "group"):
            stem = key.removesuffix(f".{kind}.json")
            if stem == key or not stem.startswith(META_ROOT):
                continue
            path = stem[len(META_ROOT) + 1 :]
            known = stem == META_ROOT or (stem.startswith(META_ROOT + "/") and path != "")
            if known and (path in self._names) == (kind == "array"):
                return join(path, "zarr.json")
        return super().back(key)

    def cover(self, prefix: str) -> tuple[str, ...]:
        """See `Rule.cover`."""
        trees = {DRAFT_ROOT + "/", "meta/"}
        found = self._cover_with(prefix, trees)
        if found == ("",):
            return found
        # The document of `a` is stored beside the folder of its contents.
        beside = folder_of(found[0][:-1])
        documents = META_ROOT + "/" + beside if found[0] else "meta/"
        return (found[0], DRAFT_ROOT + "/" + found[0], documents)

    def image(self, folder: str) -> str | None:
        """See `Rule.image`: None, because documents are stored in another tree."""
        return None

    @property
    def configuration(self) -> JSONObject:
        """The options as JSON."""
        return {
            "above": self.above.to_json(),
            "separator": self.below.separator,
            "reverse": self.reverse,
            "arrays": self.arrays,
        }


def _apart(all_names: list[ChunkNames], rule: str) -> None:
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
    if names.encoding.separator == ".":
        return [*folders, (names.head, names.ndim)]
    return [*folders, (names.head, 1), *[("", 1)] * (names.ndim - 1)]


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

"""Keys of Zarr v3 <-> keys of a 2022-draft archive: documents in `meta/`, all else in `data/`.

Below `data/` (`data/root/` in zarr-python's dialect) a key is kept under its own name, but for chunk
keys: `a/c/0/1` is kept as `data/a/c0/1`, `a/c.0.1` as `data/a/c0.1`. A key that looks like the draft's
takes the place that this leaves free: `a/c0/1` is kept as `data/a/c/0/1`. So no two keys meet, and
nothing has to be known about arrays, but for

- keys with one index, `c/5` and `c.5`: the draft has `c5` for both, and the array says which it is;
- the one chunk of a 0-d array in zarr-python's dialect, `c`: the draft has `c0`, or, by zarrita, `c`.

Texts: zarr-v3-core-draft-2022-05, "Storage keys" and "Regular grids"; zarr-python 2.18.7 and zarrita as
observed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ...base.array_documents import DOCUMENT, key_of, node_of
from ...core.draft_v3.nodes import Dialect, NodeKey
from ...core.paths import join, prefix_of

GHOST: Final = "consolidated"
"""The group that zarr-python 2 makes for consolidated metadata; mostly no node of anyone's."""
_INDEX: Final = r"(?:0|[1-9][0-9]{0,18})"
_ABOVE: Final = re.compile(rf"(?:(.*)/)?c((?:/{_INDEX})+|(?:\.{_INDEX})+|)", re.DOTALL)
"""A chunk key of Zarr v3, in any array: the array's path, and what follows the `c`."""
_BELOW: Final = re.compile(rf"(?:(.*)/)?c({_INDEX}(?:(?:/{_INDEX})*|(?:\.{_INDEX})*))", re.DOTALL)
"""A chunk key of the draft, in any array."""
_TURNED: Final = re.compile(rf"(?:(.*)/)?c(?:{_INDEX})?(?:/{_INDEX})*", re.DOTALL)
"""A folder whose keys may lie in another folder below."""


class Axes(NamedTuple):
    """What chunk keys depend on."""

    ndim: int
    separator: str


def axes_of(content: bytes | None) -> Axes | None:
    """The axes of an array, from its document of the draft; None for what is none."""
    try:
        document = json.loads(content or b"null")
        return Axes(len(document["shape"]), document["chunk_grid"].get("separator", "/"))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def is_sharded(content: bytes) -> bool:
    """Whether an array's document of the draft names a storage transformer."""
    try:
        return bool(json.loads(content).get("storage_transformers"))
    except (ValueError, AttributeError, RecursionError):
        return False


def has_attributes(content: bytes) -> bool:
    """Whether a group's document of the draft says anything; one that cannot be read does."""
    try:
        return bool(json.loads(content).get("attributes"))
    except (ValueError, AttributeError, RecursionError):
        return True


@dataclass(frozen=True, slots=True)
class DraftArchive:
    """The keys of one archive. `arrays` has what is known of its arrays, by path."""

    dialect: Dialect
    arrays: dict[str, Axes] = field(default_factory=dict)
    data: str = field(init=False)
    """What all data keys begin with: `data/`, or `data/root/`."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "data", self.dialect.data(""))

    # -- data ---------------------------------------------------------------------------------

    def asks(self, key: str) -> str | None:
        """The path of the array that has to be known before `places` or `shown` says where this key goes."""
        match = _ABOVE.fullmatch(key) or _BELOW.fullmatch(key)
        if match is None:
            return None
        path, rest = match[1] or "", match[2].lstrip("/.")
        single = rest.isdigit() or (not rest and self.dialect.scalar_key != "c")
        return path if single and path not in self.arrays else None

    def array_of(self, key: str) -> str | None:
        """The path of the array that this may be a chunk key of; None for other keys."""
        match = _ABOVE.fullmatch(key)
        return None if match is None else match[1] or ""

    def only_place(self, key: str) -> str | None:
        """Where a chunk with two or more indexes is kept; None for all keys that need more thought."""
        match = _ABOVE.fullmatch(key)
        if match is None:
            return None
        path, rest = match.groups()
        if rest.count(rest[:1]) < 2:  # 1 for "/5", and for "" too
            return None
        return f"{self.data}c{rest[1:]}" if path is None else f"{self.data}{path}/c{rest[1:]}"

    def places(self, key: str) -> tuple[str, ...]:
        """Where a key that is no document is kept, the place to write first; () if there is none.

        More than one for the chunk of a 0-d array, which zarrita and zarr-python name differently.
        """
        if (path := self._scalar(key)) is not None:
            if key.endswith("0"):  # both its places are taken by the chunk
                return ()
            folder = self.data + prefix_of(path)
            return (folder + "c0", folder + "c")
        return (self.data + self._turn(key),)

    def shown(self, place: str) -> str | None:
        """The key that is kept in this place; None for what is not in the data of the archive."""
        if not place.startswith(self.data):
            return None
        key = place[len(self.data) :]
        path = self._scalar(key)
        return self._turn(key) if path is None else join(path, "c")

    def homeless(self, key: str) -> bool:
        """Whether a key would lose its value as soon as an array with points between indexes is made."""
        match = _ABOVE.fullmatch(key)
        return (
            match is not None
            and match[2].startswith(".")
            and match[2].count(".") == 1
            and (match[1] or "") not in self.arrays
        )

    def _scalar(self, key: str) -> str | None:
        """The path of the 0-d array that this is the chunk of, under either name; None mostly."""
        if self.dialect.scalar_key == "c" or not key.endswith(("c", "c0")):
            return None
        folder, _, name = key.rpartition("/")
        axes = self.arrays.get(folder)
        return folder if name in ("c", "c0") and axes is not None and axes.ndim == 0 else None

    def _turn(self, key: str) -> str:
        """The key on the other side; its own inverse."""
        if (match := _ABOVE.fullmatch(key)) is not None:
            path, rest = match[1], match[2]
            single = rest.count("/") + rest.count(".") == 1
            if single and self._pointed(path) != (rest[0] == "."):
                return key
            if rest == "/0" and self._scalar(_join(path, "c0")) is not None:
                return key
            return _join(path, "c" + rest[1:])
        if (match := _BELOW.fullmatch(key)) is not None:
            path, rest = match[1], match[2]
            point = "." in rest or (rest.isdigit() and self._pointed(path))
            return _join(path, ("c." if point else "c/") + rest)
        return key

    def _pointed(self, path: str | None) -> bool:
        """Whether an array with one axis has a point before its index."""
        return self.arrays.get(path or "") == (1, ".")

    def folders(self, prefix: str) -> list[str]:
        """The folders below, none within another, that hold every data key above with this prefix."""
        folder = prefix[: prefix.rfind("/") + 1]
        same, path = self.data + folder, folder.rstrip("/")
        match = _TURNED.fullmatch(path)
        if match is None:
            return [same]
        outer = "" if match[1] is None else f"{match[1]}/"
        if path == outer + "c":  # all chunks in `a/c/` are kept right in `a/`
            return [self.data + outer]
        return [same, self.data + DraftArchive(self.dialect)._turn(path) + "/"]  # noqa: SLF001

    def is_whole(self, path: str) -> bool:
        """Whether all data keys in a folder above, and no other, lie in the folder of that name below."""
        return path == "" or _TURNED.fullmatch(path) is None

    # -- documents ------------------------------------------------------------------------------

    def node(self, place: str) -> NodeKey | None:
        """The node that a metadata key names; None for keys that name none."""
        return self.dialect.node(place)

    def may_be_ghost(self, path: str) -> bool:
        """Whether this is the name under which zarr-python 2 keeps consolidated metadata."""
        return self.dialect.name == "zarr-python" and path == GHOST

    def raw(self, path: str) -> str:
        """Where the value of a node's `zarr.json` is kept if it is no document."""
        return self.data + key_of(path)

    def nodes_in(self, places: Iterable[str], folder: str) -> set[str]:
        """The paths of nodes at or below `folder` that metadata keys show, explicit and implied."""
        found: set[str] = set()
        for place in places:
            node = self.node(place)
            path = None if node is None else node.path
            while path is not None and path not in found:
                found.add(path)
                path = parent(path) if path not in ("", folder) else None
        return found


def parent(path: str) -> str:
    """The path of the group that a node lies in; the root's is its own."""
    return path.rpartition("/")[0]


def _join(path: str | None, rest: str) -> str:
    return rest if path is None else f"{path}/{rest}"


__all__ = ["DOCUMENT", "Axes", "DraftArchive", "axes_of", "key_of", "node_of", "parent"]

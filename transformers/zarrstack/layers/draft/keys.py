"""Keys of Zarr v3 <-> keys of a 2022-draft archive: documents in `meta/`, everything else in `data/`.

Below `data/` (`data/root/` in zarr-python's dialect) keys are unchanged, except chunk keys: `a/c/0/1` is
stored as `data/a/c0/1`, `a/c.0.1` as `data/a/c0.1`. A key that looks like a draft chunk key takes the name
that this frees: `a/c0/1` is stored as `data/a/c/0/1`. The mapping is therefore one-to-one, and needs no
knowledge of the arrays, with two exceptions:

- Keys with one index, `c/5` and `c.5`, are both `c5` in the draft; the array's separator decides.
- The only chunk of a 0-d array, `c`, is `c0` in zarr-python's dialect, or `c` if zarrita wrote it.

Texts: zarr-v3-core-draft-2022-05, "Storage keys" and "Regular grids"; zarr-python 2.18.7 and zarrita as
observed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ...base.array_documents import key_of
from ...core.draft_v3.nodes import Dialect
from ...core.paths import join, prefix_of

GHOST: Final = "consolidated"
"""The group that zarr-python 2 creates for consolidated metadata; usually not a node of the user's."""
_INDEX: Final = r"(?:0|[1-9][0-9]{0,18})"
_ABOVE: Final = re.compile(rf"(?:(.*)/)?c((?:/{_INDEX})+|(?:\.{_INDEX})+|)", re.DOTALL)
"""A chunk key of Zarr v3, in any array: the array's path, and the part after `c`."""
_BELOW: Final = re.compile(rf"(?:(.*)/)?c({_INDEX}(?:(?:/{_INDEX})*|(?:\.{_INDEX})*))", re.DOTALL)
"""A chunk key of the draft, in any array."""
_TURNED: Final = re.compile(rf"(?:(.*)/)?c(?:{_INDEX})?(?:/{_INDEX})*", re.DOTALL)
"""A folder whose keys may be stored in another folder below."""


class ChunkKeyAxes(NamedTuple):
    """The properties of an array that its chunk keys depend on."""

    ndim: int
    separator: str


def axes_of(content: bytes | None) -> ChunkKeyAxes | None:
    """Axes of an array, from its draft document; None if the document is invalid."""
    try:
        document = json.loads(content or b"null")
        return ChunkKeyAxes(len(document["shape"]), document["chunk_grid"].get("separator", "/"))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def is_sharded(content: bytes) -> bool:
    """Whether an array's draft document names a storage transformer."""
    try:
        return bool(json.loads(content).get("storage_transformers"))
    except (ValueError, AttributeError, RecursionError):
        return False


def has_attributes(content: bytes) -> bool:
    """Whether a group's draft document has attributes; an unreadable one counts as if it had."""
    try:
        return bool(json.loads(content).get("attributes"))
    except (ValueError, AttributeError, RecursionError):
        return True


@dataclass(frozen=True, slots=True)
class DraftArchive:
    """The key mapping of one archive; `arrays` holds its known arrays by path."""

    dialect: Dialect
    arrays: dict[str, ChunkKeyAxes] = field(default_factory=dict)
    data: str = field(init=False)
    """Prefix of all data keys: `data/`, or `data/root/`."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "data", self.dialect.data(""))

    # -- data ---------------------------------------------------------------------------------

    def asks(self, key: str) -> str | None:
        """Path of the array that must be known before `places` or `shown` can map this key; None if none."""
        match = _ABOVE.fullmatch(key) or _BELOW.fullmatch(key)
        if match is None:
            return None
        path, rest = match[1] or "", match[2].lstrip("/.")
        single = rest.isdigit() or (not rest and self.dialect.scalar_key != "c")
        return path if single and path not in self.arrays else None

    def array_of(self, key: str) -> str | None:
        """Path of the array that this could be a chunk key of; None for other keys."""
        match = _ABOVE.fullmatch(key)
        return None if match is None else match[1] or ""

    def only_place(self, key: str) -> str | None:
        """Location of a chunk with two or more indexes; None for keys that need the full mapping."""
        match = _ABOVE.fullmatch(key)
        if match is None:
            return None
        path, rest = match.groups()
        if rest.count(rest[:1]) < 2:  # 1 for "/5", and for "" too
            return None
        return f"{self.data}c{rest[1:]}" if path is None else f"{self.data}{path}/c{rest[1:]}"

    def places(self, key: str) -> tuple[str, ...]:
        """Locations of a key other than a document, the preferred one first; () if there is none.

        The chunk of a 0-d array has two, because zarrita and zarr-python name it differently.
        """
        if (path := self._scalar(key)) is not None:
            if key.endswith("0"):  # both its locations belong to the chunk
                return ()
            folder = self.data + prefix_of(path)
            return (folder + "c0", folder + "c")
        return (self.data + self._turn(key),)

    def shown(self, place: str) -> str | None:
        """The key stored at this location; None outside the archive's data."""
        if not place.startswith(self.data):
            return None
        key = place[len(self.data) :]
        path = self._scalar(key)
        return self._turn(key) if path is None else join(path, "c")

    def homeless(self, key: str) -> bool:
        """Whether a key would become unreachable once its folder is an array with "." as separator."""
        match = _ABOVE.fullmatch(key)
        return (
            match is not None
            and match[2].startswith(".")
            and match[2].count(".") == 1
            and (match[1] or "") not in self.arrays
        )

    def _scalar(self, key: str) -> str | None:
        """Path of the 0-d array that this is the chunk of, under either name; usually None."""
        if self.dialect.scalar_key == "c" or not key.endswith(("c", "c0")):
            return None
        folder, _, name = key.rpartition("/")
        axes = self.arrays.get(folder)
        return folder if name in ("c", "c0") and axes is not None and axes.ndim == 0 else None

    def _turn(self, key: str) -> str:
        """Map a key to the other side; its own inverse."""
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
        """Whether this is a one-axis array with "." as separator."""
        return self.arrays.get(path or "") == (1, ".")

    def folders(self, prefix: str) -> list[str]:
        """Disjoint folders below that hold every data key with this prefix above."""
        folder = prefix[: prefix.rfind("/") + 1]
        same, path = self.data + folder, folder.rstrip("/")
        match = _TURNED.fullmatch(path)
        if match is None:
            return [same]
        outer = "" if match[1] is None else f"{match[1]}/"
        if path == outer + "c":  # all chunks in `a/c/` are stored directly in `a/`
            return [self.data + outer]
        return [same, self.data + DraftArchive(self.dialect)._turn(path) + "/"]  # noqa: SLF001

    def is_whole(self, path: str) -> bool:
        """Whether the data keys in a folder above are exactly those in the same-named folder below."""
        return path == "" or _TURNED.fullmatch(path) is None

    # -- documents ------------------------------------------------------------------------------

    def raw(self, path: str) -> str:
        """Location of a node's `zarr.json` that is not a valid document."""
        return self.data + key_of(path)

    def nodes_in(self, places: Iterable[str], folder: str) -> set[str]:
        """Paths of the nodes at or below `folder`, explicit and implied, derived from metadata keys."""
        found: set[str] = set()
        for place in places:
            node = self.dialect.node(place)
            path = None if node is None else node.path
            while path is not None and path not in found:
                found.add(path)
                path = path.rpartition("/")[0] if path not in ("", folder) else None
        return found


def _join(path: str | None, rest: str) -> str:
    return rest if path is None else f"{path}/{rest}"

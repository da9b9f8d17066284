"""The result of `diff`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from zarrstack.core.errors import Problem
from zarrstack.core.json_text import JSONObject

from ..archive.notebook import NotebookResult
from ..core.json_fields import FieldsAsJSON, json_of_fields

State: TypeAlias = Literal["same", "different", "trouble"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueDifference(FieldsAsJSON):
    """One value that differs.

    Examples
    --------
    >>> zarrlift.migrate("ocean.zarr", "new.zarr").ok
    True
    >>> zarr.open_array("new.zarr", path="sst")[0, 0, 3] = 7
    >>> [found] = zarrlift.diff("ocean.zarr", "new.zarr", full=True).differences
    >>> found.values[0].index, found.values[0].second
    ((0, 0, 3), '7')
    """

    index: tuple[int, ...]
    """Its place in the array."""
    first: str
    second: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDifference(FieldsAsJSON):
    """A difference between two nodes with the same path.

    Examples
    --------
    >>> zarrlift.migrate("ocean.zarr", "new.zarr").ok
    True
    >>> found = zarrlift.diff("ocean.zarr", "new.zarr").stored
    >>> [(each.first, each.second) for each in found if each.node == "sst" and each.what == "codecs"]
    [('bytes:little > zlib:5', 'bytes:little > gzip:5')]
    """

    node: str
    """Path of the node."""
    what: str
    """Such as "node", "shape", "data type", "fill value", "attribute" or "values"."""
    place: str | None = None
    """Of an attribute: the JSON pointer of the value that differs."""
    first: str | None = None
    """What the first archive has; None for nothing."""
    second: str | None = None
    """What the second archive has; None for nothing."""
    count: int = 1
    """Of values: how many of those that were compared differ."""
    values: tuple[ValueDifference, ...] = ()
    """The first values that differ, at most one for each compared region."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ArchiveDiff(NotebookResult):
    """The differences between two archives, and the extent of the comparison.

    Examples
    --------
    >>> zarrlift.migrate("ocean.zarr", "new.zarr").ok
    True
    >>> zarr.open_array("new.zarr", path="lat")[3] = 7
    >>> found = zarrlift.diff("ocean.zarr", "new.zarr")
    >>> found.state, [(each.node, each.what, each.count) for each in found.differences]
    ('different', [('lat', 'values', 1)])
    """

    first: str
    second: str
    first_format: str
    second_format: str
    full: bool
    """Whether every value was compared, rather than a sample of chunks."""
    groups: int = 0
    """Groups that both archives have."""
    arrays: int = 0
    """Arrays that both archives have."""
    chunks: int = 0
    """Chunks, or blocks of them, whose values were compared."""
    bytes: int = 0
    """Decoded bytes compared."""
    share: float = 1.0
    """Compared values, of those in objects that are stored on either side; from 0 to 1."""
    differences: tuple[NodeDifference, ...] = ()
    """Differences in meaning."""
    stored: tuple[NodeDifference, ...] = ()
    """What is stored differently and means the same, such as chunks and codecs."""
    problems: tuple[Problem, ...] = ()
    """Why something could not be compared; of each node the first ones."""

    def __repr__(self) -> str:
        counts = f"{len(self.differences)} differences, {len(self.problems)} problems"
        return f"<ArchiveDiff {self.first!r} and {self.second!r}: {self.state}; {counts}>"

    @property
    def state(self) -> State:
        """Whether all that was compared is the same; "trouble" if something could not be compared."""
        return "trouble" if self.problems else "different" if self.differences else "same"

    @property
    def ok(self) -> bool:
        """Whether there are neither differences nor problems."""
        return self.state == "same"

    def to_json(self) -> JSONObject:
        """JSON for machines; member names are stable."""
        return {**json_of_fields(self), "state": self.state}

"""The source formats, one row each: the documents that show it, and the module of `formats` that reads them.

A new format is a row here and that module. `formats.tree.reader` reads the archives of every row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Final

V2_ARRAY: Final = ".zarray"
V2_GROUP: Final = ".zgroup"
V2_ATTRIBUTES: Final = ".zattrs"
V2_CONSOLIDATED: Final = ".zmetadata"
V3: Final = "zarr.json"
N5: Final = "attributes.json"
V1_ARRAY: Final = "meta"
DRAFT_CONSOLIDATED: Final = "meta/root/consolidated/.zmetadata"


@dataclass(kw_only=True, eq=False, repr=False)
class MarkerDocument:
    """A document that identifies a format."""

    format: str
    key: str
    what: str
    """Name of the format for people."""
    matches: Callable[[Mapping[str, Any] | None], bool]
    """Whether a document, or None if it is not a JSON object, is one of this format."""
    is_array: Callable[[Mapping[str, Any] | None], bool]
    """Whether such a document is that of an array."""
    certain: bool = True
    """False if other programs use the document's name too."""

    @property
    def by_name(self) -> bool:
        """Whether the name of a document identifies the format, whatever its content."""
        return self.matches is _always

    @property
    def of_arrays(self) -> bool:
        """Whether arrays may have such a document."""
        return self.is_array is not _never


@dataclass(kw_only=True, eq=False, repr=False)
class FormatRow:
    """A format: names of its documents, and where its nodes are read."""

    name: str
    title: str
    """Name of the format for people."""
    markers: tuple[MarkerDocument, ...]
    module: str
    """The module of `formats`, imported on first use, whose `reader` reads its nodes."""
    options: tuple[str, ...] = ()
    """Fields of `Reading` that this format alone has."""
    nodes: tuple[str, ...] = ()
    """Documents that make a directory a node, the array's first."""
    directories: bool = True
    """Whether nodes are directories that have these documents, under these names."""
    attributes: str | None = None
    """File that holds the attributes of a node; other programs may create it at any time."""
    more: tuple[str, ...] = ()
    """Further documents that may be in the directory of a node."""
    others: Mapping[str, str] = field(default_factory=dict)
    """Metadata documents of other formats."""
    no_strays: frozenset[str] = frozenset()
    """Further names of files that are not reported as strays."""
    listing: str | None = None
    """Name of the document that lists all nodes, for stores that cannot list."""
    every_directory: bool = False
    """Whether every directory is a group, without a document too."""
    words: tuple[str, str] = ("array", "chunks")
    """What the format calls an array and its chunks."""

    @cached_property
    def documents(self) -> tuple[str, ...]:
        """Names of all documents to request in a directory."""
        own = (*self.nodes, *((self.attributes,) if self.attributes else ()), *self.more)
        return tuple(dict.fromkeys((*own, *self.others)))

    @property
    def marker_names(self) -> tuple[str, ...]:
        """Names of the documents that show the format, each once."""
        return tuple(dict.fromkeys(marker.key for marker in self.markers))

    @cached_property
    def foreign(self) -> Mapping[str, MarkerDocument]:
        """The documents that show a node of another format."""
        markers = {marker.key: marker for marker in MARKERS}
        own = {*self.nodes, *self.more, V2_CONSOLIDATED}
        return {key: marker for key, marker in markers.items() if key not in own}

    @cached_property
    def own(self) -> tuple[str, ...]:
        """Names of the documents that make a directory a node of the format."""
        return (*self.nodes, *self.more)

    @cached_property
    def sources(self) -> frozenset[str]:
        """Names of the documents from which a node is made."""
        return frozenset({*self.nodes, *((self.attributes,) if self.attributes else ())})


def _always(_: Mapping[str, Any] | None) -> bool:
    return True


def _never(_: Mapping[str, Any] | None) -> bool:
    return False


def _is_v3(data: Mapping[str, Any] | None) -> bool:
    return not _is_draft(data)


def _is_draft(data: Mapping[str, Any] | None) -> bool:
    if data is None:
        return False
    from .draft_v3.nodes import is_entry

    return is_entry(data)


def _is_v3_array(data: Mapping[str, Any] | None) -> bool:
    return data is not None and data.get("node_type") == "array"


def _is_v1(data: Mapping[str, Any] | None) -> bool:
    return data is not None and data.get("zarr_format") == 1


def is_n5(data: Mapping[str, Any] | None) -> bool:
    """Whether an `attributes.json` is N5's: a root or a dataset (https://github.com/saalfeldlab/n5)."""
    return data is not None and ("n5" in data or _is_n5_dataset(data))


def _is_n5_dataset(data: Mapping[str, Any] | None) -> bool:
    from .n5.dataset import is_dataset

    return data is not None and is_dataset(data)


DRAFT: Final = MarkerDocument(
    format="zarr3-draft", key=V3, what="the 2022 draft of Zarr v3", matches=_is_draft, is_array=_never
)
_V2: Final = partial(MarkerDocument, format="zarr2", matches=_always)
_V2_NODES: Final = {V2_ARRAY: "zarr2", V2_GROUP: "zarr2"}
FORMATS: Final[Mapping[str, FormatRow]] = {
    "zarr2": FormatRow(
        name="zarr2",
        title="Zarr v2",
        markers=(
            _V2(key=V2_ARRAY, what="a Zarr v2 array", is_array=_always),
            _V2(key=V2_GROUP, what="a Zarr v2 group", is_array=_never),
            _V2(key=V2_CONSOLIDATED, what="consolidated Zarr v2 metadata", is_array=_never),
        ),
        module="zarr_v2.reader",
        nodes=(V2_ARRAY, V2_GROUP),
        attributes=V2_ATTRIBUTES,
        others={V3: "zarr3", N5: "n5"},
        no_strays=frozenset({V2_ATTRIBUTES, V3, V2_CONSOLIDATED}),
        listing=V2_CONSOLIDATED,
    ),
    "zarr3-draft": FormatRow(
        name="zarr3-draft",
        title="2022 draft of Zarr v3",
        markers=(DRAFT,),
        module="zarr_v3_draft.reader",
        options=("allow_fallback",),
        nodes=("array.json", "group.json"),
        directories=False,
        listing=DRAFT_CONSOLIDATED,
    ),
    "zarr3": FormatRow(
        name="zarr3",
        title="Zarr v3",
        markers=(
            MarkerDocument(
                format="zarr3", key=V3, what="Zarr v3 already", matches=_is_v3, is_array=_is_v3_array
            ),
        ),
        module="zarr_v3",
        nodes=(V3,),
        others=_V2_NODES,  # for the same node, as after in-place work
        no_strays=frozenset({*_V2_NODES, V2_ATTRIBUTES, V2_CONSOLIDATED}),
        listing="consolidated metadata",
    ),
    "n5": FormatRow(
        name="n5",
        title="N5",
        markers=(
            MarkerDocument(
                format="n5", key=N5, what="N5", matches=is_n5, is_array=_is_n5_dataset, certain=False
            ),
        ),
        module="n5",
        options=("axes",),
        nodes=(N5,),
        attributes=N5,
        others={**_V2_NODES, V3: "zarr3"},
        no_strays=frozenset({*_V2_NODES, V2_ATTRIBUTES, V3}),
        every_directory=True,
        words=("dataset", "blocks"),
    ),
    "zarr1": FormatRow(
        name="zarr1",
        title="Zarr v1",
        markers=(
            MarkerDocument(
                format="zarr1", key=V1_ARRAY, what="Zarr v1", matches=_is_v1, is_array=_always, certain=False
            ),
            MarkerDocument(
                format="zarr1",
                key="__zmeta__",
                what="an array of zarr 0.x",
                matches=_always,
                is_array=_always,
            ),
        ),
        module="zarr_v1",
        nodes=(V1_ARRAY,),
        attributes="attrs",
        more=("__zmeta__",),
        others={**_V2_NODES, V3: "zarr3"},
    ),
}
"""In the order in which two at one place are named."""
MARKERS: Final = tuple(marker for row in FORMATS.values() for marker in row.markers)
DOCUMENT_NAMES: Final = frozenset(
    name for row in FORMATS.values() if row.directories for name in row.sources | {*row.marker_names}
)
"""Names of metadata documents beside the chunks of an array or in a group, in all formats."""

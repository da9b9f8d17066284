"""The documents that identify the built-in formats."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from ..recipe.options import Format

V3: Final = "zarr.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkerDocument:
    """A document that identifies a format."""

    format: Format
    key: str
    what: str
    """Name of the format for people."""
    told_by: Callable[[Any], bool]
    """Whether a document, or None if it is not a JSON object, is one of this format."""
    is_array: Callable[[Any], bool]
    """Whether such a document is that of an array."""
    certain: bool = True
    """False if other programs use the document's name too."""
    parsed: bool = True
    """Whether these functions receive a parsed JSON object; otherwise, the bytes of the document."""

    @property
    def by_name(self) -> bool:
        """Whether the name of a document identifies the format, whatever its content."""
        return self.told_by is _always

    @property
    def of_arrays(self) -> bool:
        """Whether arrays may have such a document."""
        return self.is_array is not _never


def _always(_: Mapping[str, Any] | None) -> bool:
    return True


def _never(_: Mapping[str, Any] | None) -> bool:
    return False


def _is_v3(data: Mapping[str, Any] | None) -> bool:
    return not _is_draft(data)


def _is_draft(data: Mapping[str, Any] | None) -> bool:
    if data is None:
        return False
    from zarrstack.core.draft_v3.nodes import is_entry

    return is_entry(data)


def _is_v3_array(data: Mapping[str, Any] | None) -> bool:
    return data is not None and data.get("node_type") == "array"


def _is_v1(data: Mapping[str, Any] | None) -> bool:
    return data is not None and data.get("zarr_format") == 1


def is_n5(data: Mapping[str, Any] | None) -> bool:
    """Whether an `attributes.json` is N5's: a root or a dataset (https://github.com/saalfeldlab/n5)."""
    if data is None or "n5" in data:
        return data is not None
    from zarrstack.core.n5.dataset import is_dataset

    return is_dataset(data)


def _is_n5_dataset(data: Mapping[str, Any] | None) -> bool:
    from zarrstack.core.n5.dataset import is_dataset

    return data is not None and is_dataset(data)


DRAFT: Final = MarkerDocument(
    format="zarr3-draft", key=V3, what="the 2022 draft of Zarr v3", told_by=_is_draft, is_array=_never
)
_V2: Final = partial(MarkerDocument, format="zarr2", told_by=_always)
MARKERS: Final = (
    _V2(key=".zarray", what="a Zarr v2 array", is_array=_always),
    _V2(key=".zgroup", what="a Zarr v2 group", is_array=_never),
    _V2(key=".zmetadata", what="consolidated Zarr v2 metadata", is_array=_never),
    DRAFT,
    MarkerDocument(format="zarr3", key=V3, what="Zarr v3 already", told_by=_is_v3, is_array=_is_v3_array),
    MarkerDocument(
        format="n5", key="attributes.json", what="N5", told_by=is_n5, is_array=_is_n5_dataset, certain=False
    ),
    MarkerDocument(
        format="zarr1", key="meta", what="Zarr v1", told_by=_is_v1, is_array=_always, certain=False
    ),
    MarkerDocument(
        format="zarr1", key="__zmeta__", what="an array of zarr 0.x", told_by=_always, is_array=_always
    ),
)

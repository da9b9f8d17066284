"""Which format lies in a place: looked up by the documents at its root, or below an implicit one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from zarrstack.core.draft_v3 import is_entry
from zarrstack.core.errors import MetadataError, UsageError
from zarrstack.core.jsons import excerpt
from zarrstack.core.n5_dataset import is_dataset

from ..archive import Format
from ..storage import Storage
from .documents import parse_object
from .walk import join

_V3: Final = "zarr.json"
_MOST_LISTED: Final = 1000
"""Directories that are looked into for the first node below an implicit root."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """A document that gives a format away."""

    format: Format
    key: str
    what: str
    """The format's name for people."""
    told_by: Callable[[Mapping[str, Any] | None], bool]
    """Given the document, or None if it is no JSON object: whether it is one of this format."""
    certain: bool = True
    """False where the document's name is one that anything may have."""


def _always(_: Mapping[str, Any] | None) -> bool:
    return True


def _is_v3(data: Mapping[str, Any] | None) -> bool:
    return not _is_draft(data)


def _is_draft(data: Mapping[str, Any] | None) -> bool:
    return data is not None and is_entry(data)


def _is_v1(data: Mapping[str, Any] | None) -> bool:
    return data is not None and data.get("zarr_format") == 1


def is_n5(data: Mapping[str, Any] | None) -> bool:
    """Whether an `attributes.json` is N5's: a root, or a dataset (https://github.com/saalfeldlab/n5)."""
    return data is not None and ("n5" in data or is_dataset(data))


MARKERS: Final = (
    Marker(format="zarr2", key=".zarray", what="a Zarr v2 array", told_by=_always),
    Marker(format="zarr2", key=".zgroup", what="a Zarr v2 group", told_by=_always),
    Marker(format="zarr2", key=".zmetadata", what="consolidated Zarr v2 metadata", told_by=_always),
    Marker(format="zarr3-draft", key=_V3, what="the 2022 draft of Zarr v3", told_by=_is_draft),
    Marker(format="zarr3", key=_V3, what="Zarr v3 already", told_by=_is_v3),
    Marker(format="n5", key="attributes.json", what="N5", told_by=is_n5, certain=False),
    Marker(format="zarr1", key="meta", what="Zarr v1", told_by=_is_v1, certain=False),
)


@dataclass(frozen=True, slots=True)
class Reader:
    """Who describes archives of a format: a module of this package with

        def read(storage, *, follow_links: bool, only: bool, ...) -> Archive

    where `only` says that this format was asked for, so that other formats' documents beside its
    own are passed over.
    """

    module: str
    """Imported once it is needed."""
    options: tuple[str, ...] = ()
    """Further fields of `ReadOptions` that `read` takes, by the same names."""


READERS: Final[Mapping[Format, Reader]] = {
    "zarr1": Reader("zarr_v1"),
    "zarr2": Reader("zarr_v2"),
    "n5": Reader("n5", ("axes",)),
    "zarr3-draft": Reader("zarr_v3_draft", options=("allow_fallback",)),
}
READABLE: Final[tuple[Format, ...]] = tuple(READERS)
"""Formats that a reader describes."""
_KEYS: Final = tuple(dict.fromkeys(marker.key for marker in MARKERS))


def detect(storage: Storage, *, format: Format | None = None, beside_v3: bool = False) -> Format:
    """The format of the archive in a place; `format` decides where there are two.

    `beside_v3` says that it was migrated in place: of two formats the one that is not v3 is meant.

    Raises UsageError where nothing is found (and says what was looked for and what was seen
    instead), where another format than `format` is found, where two are found and `format` does
    not decide, and where the format is known but not readable here; MetadataError where there is
    nothing but a `zarr.json` that says no format.
    """
    seen = _look(storage)
    formats = tuple(dict.fromkeys(marker.format for marker in seen))
    if beside_v3 and len(formats) > 1:
        formats = tuple(name for name in formats if name != "zarr3")
    if format is not None:
        if format not in formats and formats:
            raise UsageError(
                f"no {format} archive is here", found=_found(storage, seen), expected=_documents(format)
            )
        formats = (format,) if formats else ()
    if not formats:
        raise _nothing(storage, format)
    if len(formats) > 1:
        raise UsageError(
            "an archive has the metadata of two formats",
            found=_found(storage, seen),
            advice="Say which one counts: " + " or ".join(f"--from {name}" for name in formats) + ".",
        )
    if formats[0] not in READABLE:
        what = next(marker for marker in seen if marker.format == formats[0])
        raise UsageError(f"this is {what.what}", found=_found(storage, seen), expected=" or ".join(READABLE))
    return formats[0]


def _look(storage: Storage) -> list[Marker]:
    """The markers at the root; below an implicit root, those of the first node that is found."""
    level = [""]
    looked = 0
    while level and looked < _MOST_LISTED:
        for path in level:
            seen = _at(storage, path)
            if seen:
                return seen
        if not storage.can_list:
            break
        level = level[: _MOST_LISTED - looked]
        looked += len(level)
        level = [
            join(path, entry.name)
            for path, entries in zip(level, storage.list_dirs(level), strict=True)
            for entry in sorted(entries, key=lambda entry: entry.name)
            # A link may lead anywhere, back here too; whoever walks judges it.
            if entry.is_dir and entry.link is None and entry.name not in ("", ".", "..")
        ]
    return []


def _at(storage: Storage, path: str) -> list[Marker]:
    contents = dict(zip(_KEYS, storage.get_many([join(path, key) for key in _KEYS]), strict=True))
    seen: list[Marker] = []
    for marker in MARKERS:
        content = contents[marker.key]
        if content is None:
            continue
        data = None
        if marker.told_by is not _always:
            try:
                data = parse_object(content, join(path, marker.key))
            except MetadataError:
                if not marker.certain:
                    continue
        if marker.told_by(data):
            seen.append(marker)
    if [marker.format for marker in seen] == ["zarr3"]:
        _check_v3(contents[_V3] or b"", join(path, _V3))
    return seen


def _check_v3(content: bytes, key: str) -> None:
    """MetadataError where a `zarr.json` on its own is one of Zarr v3 as little as of its draft."""
    data = parse_object(content, key)
    if type(data.get("zarr_format")) is not int:
        found = excerpt(data["zarr_format"]) if "zarr_format" in data else "none"
        raise MetadataError(
            "zarr_format names no format", key=key, found=found, expected="3, or a URI in the 2022 draft"
        )


def _found(storage: Storage, seen: list[Marker]) -> str:
    return f"{' and '.join(f'{marker.what} ({marker.key})' for marker in seen)} in {storage.url}"


def _documents(format: Format | None) -> str:
    return ", ".join(dict.fromkeys(marker.key for marker in MARKERS if format in (None, marker.format)))


def _nothing(storage: Storage, format: Format | None) -> UsageError:
    if storage.can_list:
        names = sorted(entry.name + "/" * entry.is_dir for entry in storage.list_dir(""))
        some = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
        found = f"{some} in {storage.url}" if names else f"nothing in {storage.url}"
    else:
        found = f"none of them in {storage.url}, which cannot list"
    return UsageError("no archive is here", found=found, expected=f"one of {_documents(format)}")

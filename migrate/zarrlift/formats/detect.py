"""Detects the format of an archive from the documents at its root, or below an implicit root."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from zarrstack.core.errors import MetadataError, UsageError
from zarrstack.core.json_text import excerpt
from zarrstack.core.paths import join

from ..core.format_table import DRAFT, FORMATS, MARKERS, V3, MarkerDocument
from ..core.format_table import V2_ARRAY as ARRAY
from ..core.git_pointers import pointer
from ..core.problems import command
from ..recipe.options import Format, require_format
from ..storage.base import Storage
from .tree.conflicts import format_of_chunks
from .tree.documents import documents_at, parse_object, parsed_or_none

_MAX_LISTED: Final = 1000
"""Maximum number of directories searched for the first node below an implicit root."""
_AT_ONCE: Final = 100
"""Number of places whose documents are requested together."""


Seen: TypeAlias = dict[str, "Marks"]
"""Markers by the path of their node."""


@dataclass(frozen=True, slots=True)
class Marks:
    """The markers of one node, of one format or of several."""

    markers: tuple[MarkerDocument, ...]
    array: bool
    """Whether one of them is that of an array."""

    @property
    def formats(self) -> frozenset[Format]:
        """The formats that the markers identify."""
        return frozenset(marker.format for marker in self.markers)


def detect(storage: Storage, *, format: Format | None = None, beside_v3: bool = False) -> Format:
    """The format of the archive in a storage; `format` selects one if two are present.

    With `beside_v3`, the archive was migrated in place: v3 metadata next to that of another format is
    ignored.

    Raises UsageError if nothing is found (with what was searched for and what was found instead), if a format
    other than `format` is found, or if two are found without `format`; MetadataError if there is only a
    `zarr.json` without a valid format.
    """
    require_format(format)
    seen = nearest(storage, format, beside_v3=beside_v3)
    if not seen:
        raise nothing(storage, format)
    return choose(storage, seen, format, beside_v3=beside_v3)


def nearest(storage: Storage, format: Format | None = None, *, beside_v3: bool = False) -> Seen:
    """The markers at the root of an archive; for an implicit root, those of the nearest nodes."""
    seen = _root_markers(storage, format, beside_v3=beside_v3)
    if format in (None, DRAFT.format) and all(path.split("/")[0] == "meta" for path in seen):
        # Nothing, or consolidated metadata of the draft, which has the same name as that of Zarr v2.
        from .zarr_v3_draft.places import without_entry

        if without_entry(storage) is not None:
            seen = {"": Marks((DRAFT,), array=False)}
    if {marker.format for marks in seen.values() for marker in marks.markers} == {"zarr3"}:
        _check_v3(storage, seen)
    return seen


def choose(storage: Storage, seen: Seen, format: Format | None = None, *, beside_v3: bool = False) -> Format:
    """The format of an archive with these markers; arguments and errors are those of `detect`."""
    formats = tuple(dict.fromkeys(marker.format for marks in seen.values() for marker in marks.markers))
    if beside_v3 and len(formats) > 1:
        formats = tuple(name for name in formats if name != "zarr3")
    if format is not None:
        if format not in formats:
            raise UsageError(
                f"no {format} archive found",
                found=_markers_text(storage, seen),
                expected=", ".join(_documents(format)),
            )
        formats = (format,)
    # A format present at every node is the archive's; its reader reports nodes that have another one too.
    present = [{marker.format for marker in marks.markers} for marks in seen.values()]
    everywhere = [name for name in formats if all(name in each for each in present)]
    if len(everywhere) == 1:
        formats = (everywhere[0],)
    if {*formats} == {"zarr2", "zarr3"} and seen.keys() == {""} and (stored := _stored_format(storage)):
        return stored
    if len(formats) > 1:
        advice = "Choose one: " + " or ".join(f"--from {name}" for name in formats) + "."
        if "" not in seen:  # it may be a folder of archives
            each = command("batch", "run", storage.url, "--to", "v3/{relative}.zarr")
            advice += f" To migrate each archive in it: {each}"
        raise UsageError(
            "the archive has metadata of two formats", found=_markers_text(storage, seen), advice=advice
        )
    return formats[0]


def _stored_format(storage: Storage) -> Format | None:
    """The format of a single array with documents of Zarr v2 and v3, by its chunks; None if undecided."""
    contents = zip((ARRAY, V3), documents_at(storage, (ARRAY, V3)), strict=True)
    return format_of_chunks(storage, "", {name: data for name, data in contents if data is not None})


def _root_markers(storage: Storage, format: Format | None, *, beside_v3: bool) -> Seen:
    """The markers of the root; for an implicit root, those of the nearest nodes, by path.

    If one format is requested (or, beside v3, any other), nodes with other formats only are used only if
    there are no others.
    """

    def meant(marker: MarkerDocument) -> bool:
        return marker.format == format if format is not None else not beside_v3 or marker.format != "zarr3"

    others: Seen = {}
    level = [""]
    looked = 0
    while level and looked < _MAX_LISTED:
        for start in range(0, len(level), _AT_ONCE):
            seen = marks_at(storage, level[start : start + _AT_ONCE])
            if any(meant(marker) for marks in seen.values() for marker in marks.markers):
                return seen
            others = others or seen
        if not storage.can_list:
            break
        level = level[: _MAX_LISTED - looked]
        looked += len(level)
        level = [
            join(path, entry.name)
            for path, entries in zip(level, storage.list_dirs(level), strict=True)
            for entry in sorted(entries, key=lambda entry: entry.name)
            # A link may lead anywhere, also back to this directory; the walk decides about links.
            if entry.is_dir and entry.link is None and entry.name not in ("", ".", "..")
        ]
    return others


def marks_at(storage: Storage, paths: Sequence[str], arrays_of: Format | None = None) -> Seen:
    """The markers at some places; places without markers are omitted. StorageError.

    `arrays_of`: only the documents that an array of this format may have are requested.
    """
    markers = MARKERS
    if arrays_of is not None:
        markers = tuple(marker for marker in FORMATS[arrays_of].markers if marker.of_arrays)
    names = dict.fromkeys(marker.key for marker in markers)
    keys = [(path, join(path, name)) for path in paths for name in names]
    contents = documents_at(storage, [key for _, key in keys])
    present = {key: content for (_, key), content in zip(keys, contents, strict=True) if content is not None}
    seen: Seen = {}
    for path in paths:
        documents = [
            # Consolidated metadata, which its name identifies, may be large.
            (marker, content, None if marker.by_name else parsed_or_none(content, key))
            for marker in markers
            if (content := present.get(key := join(path, marker.key))) is not None
        ]
        telling = [item for item in documents if _identifies(item[0], item[2])]
        # A document without content identifies a format by its name, if nothing else does.
        telling = [item for item in telling if item[0].by_name or item[1]] or telling
        if telling:
            array = any(marker.is_array(data) for marker, _, data in telling)
            seen[path] = Marks(tuple(marker for marker, _, _ in telling), array=array)
    return seen


def _identifies(marker: MarkerDocument, data: Mapping[str, Any] | None) -> bool:
    return (data is not None or marker.certain) and marker.matches(data)


def _check_v3(storage: Storage, seen: Seen) -> None:
    """Raise MetadataError if the root's `zarr.json` belongs neither to Zarr v3 nor to its draft.

    If there are nodes with a `zarr.json` below, these are Zarr v3 and can be read without it.
    """
    if "" not in seen:
        return
    try:
        _check_root(documents_at(storage, [V3])[0] or b"")
    except MetadataError:
        below = [entry.name for entry in storage.list_dir("") if entry.is_dir] if storage.can_list else []
        contents = documents_at(storage, [join(name, V3) for name in below[:_MAX_LISTED]])
        if all(content is None for content in contents):
            raise


def _check_root(content: bytes) -> None:
    """Raise MetadataError if a `zarr.json` is not a Zarr v3 document."""
    data = parse_object(content, V3)
    if type(data.get("zarr_format")) is not int:
        found = excerpt(data["zarr_format"]) if "zarr_format" in data else "none"
        expected = "3, or a URI in the 2022 draft"
        raise MetadataError("zarr_format is not a valid version", key=V3, found=found, expected=expected)
    if data.get("node_type") not in ("array", "group"):
        found = excerpt(data["node_type"]) if "node_type" in data else "none"
        raise MetadataError("node_type is neither array nor group", key=V3, found=found)


def _markers_text(storage: Storage, seen: Seen) -> str:
    """The markers found, each once, with its first key."""
    keys: dict[MarkerDocument, str] = {}
    for path, marks in seen.items():
        for marker in marks.markers:
            keys.setdefault(marker, join(path, marker.key))
    return f"{' and '.join(f'{marker.what} ({key})' for marker, key in keys.items())} in {storage.url}"


def _documents(format: Format | None) -> tuple[str, ...]:
    """The keys of the documents that identify a format, or any format."""
    return tuple(dict.fromkeys(marker.key for marker in MARKERS if format in (None, marker.format)))


def nothing(storage: Storage, format: Format | None = None) -> UsageError:
    """The error for a storage without an archive: what was found instead."""
    expected: str | None = f"one of {', '.join(_documents(format))}"
    names: list[str] | None = None
    if storage.can_list:
        names = sorted(entry.name + "/" * entry.is_dir for entry in storage.list_dir(""))
    if (foreign := foreign_place(storage, names)) is not None:
        return foreign
    if names is not None:
        some = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
        found = f"{some} in {storage.url}" if names else f"nothing in {storage.url}"
    else:
        found = f"none of them in {storage.url}, which cannot be listed"
    keys = _documents(None)
    contents = dict(zip(keys, documents_at(storage, keys), strict=True))
    present = {key: content for key, content in contents.items() if content is not None}
    unread = [key for key, content in present.items() if parsed_or_none(content, key) is None]
    advice = None
    if present and not unread:
        advice = f"{' and '.join(present)} belongs to a node below the root of an archive: give the root."
    if unread:
        advice = f"{' and '.join(unread)} would identify the format, but is not a JSON object."
        if (elsewhere := pointer(present[unread[0]])) is not None:
            advice = f"{unread[0]} would identify the format, but {elsewhere.what} is stored in its place."
            advice += f" {elsewhere.advice}"
    return UsageError("no archive found", found=found, expected=expected, advice=advice)


def foreign_place(storage: Storage, names: Sequence[str] | None) -> UsageError | None:
    """The error for a place of another known kind, else None.

    `names` are those in it, of directories with "/"; None if they are unknown. StorageError.
    """
    from ..storage.not_an_archive import DOCUMENTS, known_directory

    if names is None:
        contents = documents_at(storage, DOCUMENTS)
        names = [name for name, content in zip(DOCUMENTS, contents, strict=True) if content is not None]
    match = known_directory(names, lambda name: parsed_or_none(documents_at(storage, [name])[0] or b"", name))
    if match is not None:
        kind, advice = match
        advice = advice.replace("PLACE", repr(storage.url))
        return UsageError(f"{storage.url} is {kind}, not an archive", advice=advice)
    if storage.requests is None:
        return None

    from ..storage.containers.remote import file_in_place

    return file_in_place(storage)

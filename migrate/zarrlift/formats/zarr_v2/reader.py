"""Describes the nodes of a Zarr v2 archive.

Specification: https://zarr-specs.readthedocs.io/en/latest/v2/v2.0.html. All problems of the archive are
reported together; a node that cannot be described does not affect the others.

The separator in the chunk keys of an array follows from its document and its keys: `dimension_separator` was
added late (zarr-python 2.8): older nested archives lack it, and a reader that assumes the default "." finds
no chunks, that is, only fill values. https://zarr-specs.readthedocs.io/en/latest/v2/v2.0.html#metadata

netcdf-c writes metadata in other places than today's attributes, and wrong data types. NCZarr 2.0 stores
dimensions (used or not), the members of groups and each variable's references to dimensions in members that
the Zarr v2 specification does not define: in upper case in 4.9.0, in lower case in 4.9.1 and 4.9.2. Since
4.9.3 they are attributes, whose members have longer names; netcdf-c 4.10.1 reads either, the attribute first
(https://github.com/Unidata/netcdf-c/pull/2936, `libnczarr/zsync.c`, `getnczarrkey`, `dictgetalt`). Zarr v3
only allows attributes.

netcdf-c 4.9.0 declares one-byte characters as four-byte ones, `<U1`. In mode `nczarr` it also writes
`_NCZARR_ARRAY` (see `deviations`), in modes `zarr` and `xarray` nothing. The length of an uncompressed chunk
is then decisive: all chunks of an array have the same length, and one byte per item excludes four-byte
characters. Observed with netCDF4 1.6.2; 4.9.4 writes `>S1`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from math import prod
from typing import Any, Final

from zarrstack.core.chunk_keys_v3 import KeyEncoding, Separator
from zarrstack.core.errors import MetadataError, Problem, StorageError, UsageError
from zarrstack.core.json_text import JSON, JSONObject, canonical, excerpt
from zarrstack.core.paths import join

from ...archive.nodes import ArrayNode, Layout, SourceDocument
from ...core.format_table import V2_ARRAY as ARRAY
from ...core.format_table import V2_ATTRIBUTES as ATTRIBUTES
from ...core.format_table import V2_CONSOLIDATED
from ...core.format_table import V2_GROUP as GROUP
from ...core.identity_cache import IdentityCache
from ...core.problems import any_refusal, note, refusal, warning
from ...storage.base import DirectoryEntry, Storage
from ...storage.local.files import BadObjectError
from ..detect import foreign_place
from ..tree.conflicts import array_and_group
from ..tree.directory import CHUNK, NodeDirectory, unfollowed_link
from ..tree.documents import consolidated_entries, wrong_version
from ..tree.reader import ArchiveReader
from .array import NETCDF_MEMBERS, V2Array, V2ArrayDescriber
from .deviations import FORMAT_AS_TEXT, undo

_NUMBER: Final = re.compile(r"[0-9]+")
_DOTTED: Final = re.compile(r"[0-9]+(\.[0-9]+)+")


def separator(
    declared: Separator | None, ndim: int, entries: Iterable[DirectoryEntry]
) -> tuple[Separator, Problem | None]:
    """The separator, and a problem if any; `entries` are those of the array's directory.

    A declared separator is accepted if one key confirms it, or none contradicts it. Without a declaration,
    the keys decide. Refused are arrays that have only keys of the other kind than declared or, without a
    declaration, keys of both kinds, since no reading is certain. Entries are read only as far as needed.
    """
    if ndim < 2:
        return declared or ".", None
    names: dict[Separator, str] = {}
    for entry in entries:
        kind = _kind(entry, ndim)
        if kind is None or kind in names:
            continue
        if kind == declared:
            return declared, None
        names[kind] = entry.name + ("/" if kind == "/" else "")
        if len(names) == 2:
            break
    if declared is not None:
        if not names:
            return declared, None
        return declared, refusal(
            "separator",
            "the chunk keys do not match dimension_separator",
            found=f"keys such as {next(iter(names.values()))!r}",
            expected=f"keys with {declared!r}",
            advice="Correct dimension_separator in .zarray, or remove the stray files.",
        )
    if len(names) == 2:
        found = " and ".join(repr(name) for name in names.values())
        return ".", refusal(
            "separator",
            "dimension_separator is missing, and there are chunk keys of both kinds",
            found=found,
            expected="keys with '.' or with '/'",
            advice="Set dimension_separator in .zarray.",
        )
    if "/" not in names:
        return ".", None
    return "/", note(
        "separator", "dimension_separator is missing; '/' is used", found=f"keys such as {names['/']!r}"
    )


def _kind(entry: DirectoryEntry, ndim: int) -> Separator | None:
    if entry.is_dir:
        return "/" if _NUMBER.fullmatch(entry.name) else None
    return "." if _DOTTED.fullmatch(entry.name) and entry.name.count(".") == ndim - 1 else None


_KEYS: Final = {mark: KeyEncoding("v2", mark) for mark in (".", "/")}


class V2ArrayReader(ArchiveReader):
    """Reads arrays with the chunks of Zarr v2; `document` gives the `.zarray` that describes one."""

    def __init__(self, *archive: Any, only: bool) -> None:
        super().__init__(*archive, only=only)
        describe = V2ArrayDescriber().describe
        self._alike: IdentityCache[tuple[V2Array, dict[str, Layout | None]]]
        self._alike = IdentityCache(lambda data: (describe(data), {}))
        """What equal documents describe, and the layouts with each separator of keys."""

    def read_array(
        self, place: NodeDirectory, entries: Iterable[DirectoryEntry], problems: list[Problem]
    ) -> ArrayNode:
        """The array of the `.zarray` that `document` gives."""
        assert self.row.attributes is not None
        attributes = self.parse(place, self.row.attributes, problems) or {}
        data = self.document(place, problems)
        if data is None:
            return self.array(place, problems, attributes=attributes)
        key = join(place.path, self.row.nodes[0])
        facts, layouts = self._alike(data)
        problems.extend(problem.at(key=key) for problem in facts.problems)
        attributes = with_netcdf_members(attributes, data, key, problems)
        keys = self.keys(place, facts, entries, problems)
        if keys.separator not in layouts:
            layouts[keys.separator] = facts.layout(keys)
        return self.array(
            place,
            problems,
            layouts[keys.separator],
            attributes=attributes,
            fill_is_null=facts.fill_is_null,
            number_as_text=facts.number_as_text,
            extra=facts.extra,
        )

    def document(self, place: NodeDirectory, problems: list[Problem]) -> JSONObject | None:
        """The `.zarray` that describes an array; None, after adding a problem, if there is none."""
        raise NotImplementedError

    def keys(
        self,
        place: NodeDirectory,
        facts: V2Array,
        entries: Iterable[DirectoryEntry],
        problems: list[Problem],
    ) -> KeyEncoding:
        """The encoding of an array's chunk keys."""
        return _KEYS[facts.separator or "."]


class _Reader(V2ArrayReader):
    """Arrays have `.zarray`, groups `.zgroup`, and both may have `.zattrs`."""

    _consolidated: bytes | None = None

    def __init__(self, *archive: Any, only: bool) -> None:
        super().__init__(*archive, only=only)
        self._separator = IdentityCache(separator)

    # ----- consolidated metadata

    def list_documents(self) -> None:
        storage = self.storage
        target = storage.link(V2_CONSOLIDATED)
        if target is not None and storage.leaves_root(target) and not self.reading.follow_links:
            problem = unfollowed_link("", V2_CONSOLIDATED, target)
            self.problems.append(replace(problem, severity="warning", kind="consolidated"))
            return
        try:
            content = self._consolidated = storage.get(V2_CONSOLIDATED)
            if content is not None:
                self.sources.append(SourceDocument(key=V2_CONSOLIDATED, content=content))
                self.listed, problems = consolidated_entries(content)
                self.problems.extend(problems)
        except (MetadataError, BadObjectError) as error:
            if (foreign := foreign_place(storage, [V2_CONSOLIDATED])) is not None:
                raise foreign from error
            if not storage.can_list and storage.get(ARRAY) is None:
                error.problem = replace(error.problem, advice=self.unlisted_advice())
                raise
            self.problems.append(replace(error.problem, severity="warning", kind="consolidated"))

    def nothing(self) -> UsageError:
        content = self._consolidated
        found, advice = self.storage.url, None
        if content is not None:
            why = self.problems[0] if self.listed is None and self.problems else None
            reason = "it lists no node" if why is None else why.message
            detail = "" if why is None or why.found is None else f" ({why.found})"
            found = f"only {V2_CONSOLIDATED} in {found}, but {reason}{detail}"
            advice = f"Restore {V2_CONSOLIDATED}, or {ARRAY} and {GROUP} next to the chunks."
        return UsageError(
            "no Zarr v2 archive found", found=found, expected=f"{ARRAY} or {GROUP}", advice=advice
        )

    # ----- arrays

    def needs_entries(self, place: NodeDirectory) -> bool:
        """Chunk keys with a separator may show which one it is."""
        data = self.parsed(place, ARRAY)
        shape = data.get("shape") if isinstance(data, dict) else None
        return isinstance(shape, list) and len(shape) > 1

    def document(self, place: NodeDirectory, problems: list[Problem]) -> JSONObject | None:
        if GROUP in place.documents:
            self.parsed(place, GROUP)  # to compare consolidated ones
            problems.append(array_and_group(self.storage, place.path, self.directories))
        data = self.parse(place, ARRAY, problems)
        if data is None or (warning := shown_by_a_chunk(self.storage, place.path, data)) is None:
            return data
        problems.append(warning.at(key=join(place.path, ARRAY)))
        return {**data, "dtype": "|S1"}

    def keys(
        self,
        place: NodeDirectory,
        facts: V2Array,
        entries: Iterable[DirectoryEntry],
        problems: list[Problem],
    ) -> KeyEncoding:
        mark, problem = facts.separator or ".", None
        if facts.shape is not None and len(facts.shape) > 1:
            try:
                if not self.storage.can_list and facts.separator is None:
                    entries = _probed(self.storage, place.path, len(facts.shape))
                # The walk has the same entries for arrays with the same names of chunks.
                separator_of = self._separator if entries is place.key_samples else separator
                mark, problem = separator_of(facts.separator, len(facts.shape), entries)
            except StorageError as error:
                mark, problem = ".", error.problem
        if problem is not None:
            problems.append(problem.at(key=join(place.path, self.row.nodes[0])))
        return _KEYS[mark]

    # ----- groups

    def read_group(self, place: NodeDirectory, problems: list[Problem]) -> JSONObject:
        attributes = self.parse(place, ATTRIBUTES, problems) or {}
        data = self.parse(place, GROUP, problems)
        if data is not None:
            key = join(place.path, GROUP)
            _check_group(data, key, problems)
            attributes = with_netcdf_members(attributes, data, key, problems)
        elif GROUP not in place.documents and ATTRIBUTES in place.documents and not any_refusal(problems):
            problems.append(
                warning(
                    "metadata",
                    "attributes without array or group metadata; the node is read as a group",
                    key=join(place.path, ATTRIBUTES),
                    expected=f"{GROUP} or {ARRAY} next to it",
                )
            )
        return attributes


def _check_group(data: JSONObject, key: str, problems: list[Problem]) -> None:
    if notes := undo(data, None, (FORMAT_AS_TEXT,))[1]:
        problems.extend(each.at(key=key) for each in notes.values())
    elif (wrong := wrong_version(data, 2, key)) is not None:
        problems.append(wrong)
    if extra := sorted(data.keys() - {"zarr_format"} - NETCDF_MEMBERS.keys()):
        message = "members that the specification does not define are dropped"
        problems.append(warning("metadata", message, key=key, found=excerpt(extra)))


def _probed(storage: Storage, path: str, ndim: int) -> list[DirectoryEntry]:
    """The entries shown by a request for the first chunk, in a store that cannot list."""
    keys = [join(path, mark.join(["0"] * ndim)) for mark in (".", "/")]
    dotted, nested = storage.get_many(keys)
    entries = [DirectoryEntry(".".join(["0"] * ndim), is_dir=False)] if dotted is not None else []
    return [*entries, DirectoryEntry("0", is_dir=True)] if nested is not None else entries


_UCS4: Final = 4
"""Bytes of a character in `<U1`."""
_LOOKED_AT: Final = 4096
"""Number of bytes read from the start of a chunk."""


def shown_by_a_chunk(storage: Storage, path: str, document: JSONObject) -> Problem | None:
    """A warning if the array at `path` must be read as `|S1`; None for every other array.

    Reads only the length and the first bytes of the first stored chunk of uncompressed `<U1` arrays; the
    bytes exclude a real `<U1` chunk truncated to a quarter.
    """
    if document.get("dtype") != "<U1" or document.get("compressor") or document.get("filters"):
        return None
    chunks = document.get("chunks")
    if (
        "_NCZARR_ARRAY" in document
        or not isinstance(chunks, list)
        or not all(type(length) is int and length > 0 for length in chunks)
    ):
        return None
    items = prod(chunks)
    try:
        key = _first_key(storage, path, len(chunks))
        if key is None or storage.size(key) != items or _of_four(storage.get_part(key, 0, _LOOKED_AT)):
            return None
    except StorageError:
        return None  # reported when the chunks are listed
    return warning(
        "deviation",
        'text-of-bytes: "dtype": "<U1" for one-byte characters, as written by netcdf-c 4.9.0',
        found=f"a chunk of {items} bytes",
        expected=f'{items * _UCS4} bytes; "dtype": "|S1" is used',
    )


def _of_four(data: bytes | None) -> bool:
    """Whether bytes look like four-byte ASCII: of each four, only the lowest byte is ever set."""
    if data is None:
        return False
    return len(data[::_UCS4].replace(b"\0", b"")) > 1 and not any(any(data[at::_UCS4]) for at in (1, 2, 3))


def _first_key(storage: Storage, path: str, ndim: int) -> str | None:
    """The key of a stored chunk; None if there is none."""
    if not storage.can_list:
        zeros = ["0"] * (ndim or 1)
        keys = [join(path, mark.join(zeros)) for mark in (".", "/")]
        return next((key for key in keys if storage.size(key) is not None), None)
    for _ in range(ndim or 1):
        entries = (entry for entry in storage.list_dir(path) if CHUNK.fullmatch(entry.name))
        first = next(entries, None)
        if first is None:
            return None
        path = join(path, first.name)
        if not first.is_dir:
            return path
    return None


_RENAMED: Final = {"dims": "dimensions", "vars": "arrays", "dimrefs": "dimension_references"}


def with_netcdf_members(
    attributes: JSONObject, document: JSONObject, key: str, problems: list[Problem]
) -> JSONObject:
    """The attributes of a node with netcdf-c's members of its other document, at `key`."""
    if NETCDF_MEMBERS.keys().isdisjoint(document):
        return attributes
    result = dict(attributes)
    moved = []
    for spelled in [spelled for spelled in NETCDF_MEMBERS if spelled in document]:
        name, value = NETCDF_MEMBERS[spelled], _renamed(document[spelled])
        if name not in result:
            result[name] = value
            moved.append(spelled)
        elif canonical(result[name]) != canonical(value):
            message = f"the attribute {name!r} differs from this member; netcdf-c reads the attribute"
            problems.append(
                warning("metadata", message, key=key, found=excerpt(value), expected=excerpt(result[name]))
            )
    if moved:
        message = "metadata of netcdf-c is moved to attributes, as written by netcdf-c since 4.9.3"
        problems.append(note("metadata", message, key=key, found=excerpt(moved)))
    return result


def _renamed(value: JSON) -> JSON:
    """The value with its members renamed to the names that netcdf-c writes today."""
    if not isinstance(value, dict):
        return value
    pairs = ((_RENAMED.get(name, name), name) for name in value)
    return {(old if new in value else new): value[old] for new, old in pairs}


reader = _Reader

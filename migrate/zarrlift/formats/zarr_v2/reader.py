"""Reads a Zarr v2 archive from any storage as `Archive`.

Specification: https://zarr-specs.readthedocs.io/en/latest/v2/v2.0.html. All problems of the archive are
reported together; a node that cannot be described does not affect the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final, TypeAlias

from zarrstack.core.errors import MetadataError, Problem, StorageError, UsageError, any_refusal, warning
from zarrstack.core.grid.chunk_keys_v3 import KeyEncoding
from zarrstack.core.identity_cache import IdentityCache
from zarrstack.core.json_text import JSONObject, excerpt
from zarrstack.core.paths import join

from ...archive.nodes import Archive, ArrayNode, GroupNode, Layout, Node, SourceDocument
from ...storage.base import DirectoryEntry, Storage
from ...storage.local.files import BadObjectError
from ...storage.local.storage import LocalStorage
from ..markers import is_n5
from ..tree import consolidated
from ..tree.directory import NodeDirectory
from ..tree.documents import parsed_or_none
from ..tree.links import unfollowed_link
from ..tree.reader import NativeFormat, TreeReader, wrong_version
from ..tree.two_documents import array_and_group
from ..tree.unlisted import listed_places, root_alone, unknown_nodes, unlisted_advice
from ..tree.walk import walk
from .array import V2Array, V2ArrayDescriber
from .deviations import FORMAT_AS_TEXT
from .netcdf_characters import shown_by_a_chunk
from .netcdf_members import MEMBERS as NETCDF
from .netcdf_members import with_netcdf_members
from .separators import separator

ARRAY: Final = ".zarray"
GROUP: Final = ".zgroup"
ATTRIBUTES: Final = ".zattrs"
_V3: Final = "zarr.json"
_N5: Final = "attributes.json"
"""Other programs use this name too."""
_NATIVE: Final = NativeFormat(
    format="zarr2",
    archive="a Zarr v2 archive",
    documents=(ARRAY, GROUP),
    sources=frozenset({ARRAY, GROUP, ATTRIBUTES}),
    others={_V3: "zarr3", _N5: "n5"},
    known=frozenset({ARRAY, GROUP, ATTRIBUTES, _V3, consolidated.KEY}),
)
_FLAT: Final = KeyEncoding("v2", ".")
_NESTED: Final = KeyEncoding("v2", "/")


_NOTHING_ELSE: Final = warning(
    "consolidated",
    "the only document is the consolidated metadata, which is read instead of the others",
    key=consolidated.KEY,
    expected=f"{ARRAY} and {GROUP} next to the chunks",
)


def read(storage: Storage, *, follow_links: bool = False, only: bool = False) -> Archive:
    """Describe the archive.

    With `only`, Zarr v2 was requested: a `zarr.json` next to v2 documents is ignored instead of refused.
    `follow_links` allows links to leave the archive.

    Raises UsageError if there is no v2 archive or its nodes cannot be found, StorageError if the root cannot
    be read; all other errors are problems of the archive or of a node.
    """
    content: bytes | None = None
    listed: dict[str, JSONObject] | None = None
    problems: list[Problem] = []
    target = storage.link(consolidated.KEY)
    if target is not None and storage.leaves_root(target) and not follow_links:
        told = unfollowed_link("", consolidated.KEY, target)
        problems.append(replace(told, severity="warning", kind="consolidated"))
    try:
        content = None if problems else storage.get(consolidated.KEY)
        if content is not None:
            listed, problems = consolidated.entries(content)
    except (MetadataError, BadObjectError) as error:
        if not storage.can_list and storage.get(ARRAY) is None:
            error.problem = replace(error.problem, advice=unlisted_advice(storage))
            raise
        problems.append(replace(error.problem, severity="warning", kind="consolidated"))
    reader = _Reader(storage=storage, only=only)
    if storage.can_list:
        names = (ARRAY, GROUP, ATTRIBUTES, *_NATIVE.others)
        found = walk(storage, documents=names, is_array=_is_array, follow_links=follow_links)
        if listed and _no_documents(found, frozenset(names[:3] if only else names)):
            found = _unlisted(storage, listed)
            problems.append(_NOTHING_ELSE)
    else:
        found = _unlisted(storage, listed)
    nodes = reader.nodes(found)
    if not nodes:
        raise _nothing(storage, content, listed, problems)
    if listed is not None and storage.can_list:
        known = reader.documents
        problems.extend(consolidated.differences(listed, known.parsed, frozenset(known.unread)))
    return Archive(
        url=storage.url,
        format="zarr2",
        nodes=nodes,
        consolidated=listed is not None,
        documents=() if content is None else (SourceDocument(key=consolidated.KEY, content=content),),
        problems=(*problems, *reader.problems),
    )


def _nothing(
    storage: Storage, content: bytes | None, listed: dict[str, JSONObject] | None, problems: list[Problem]
) -> UsageError:
    """The error for an archive without a node."""
    found, advice = storage.url, None
    if content is not None and b'"record_size"' in content:
        advice = f"If these are references in Parquet, name them reference://::{storage.url}"
    elif content is not None:
        why = problems[0] if listed is None and problems else None
        reason = "it lists no node" if why is None else why.message
        detail = "" if why is None or why.found is None else f" ({why.found})"
        found = f"only {consolidated.KEY} in {storage.url}, but {reason}{detail}"
        advice = f"Restore {consolidated.KEY}, or {ARRAY} and {GROUP} next to the chunks."
    return UsageError("no Zarr v2 archive found", found=found, expected=f"{ARRAY} or {GROUP}", advice=advice)


def _no_documents(found: dict[str, NodeDirectory], names: frozenset[str]) -> bool:
    """Whether there is no document of these names, and no problem that could hide one."""
    return not any(names & place.documents.keys() or place.problems for place in found.values())


def _unlisted(storage: Storage, listed: dict[str, JSONObject] | None) -> dict[str, NodeDirectory]:
    """The directories of an archive in a store that cannot list."""
    if listed is None:
        root = root_alone(storage, (ARRAY, GROUP, ATTRIBUTES))
        if ARRAY not in root.documents:
            raise unknown_nodes(
                lacking=consolidated.KEY,
                expected=f"{consolidated.KEY}, or an array at the root",
                advice=unlisted_advice(storage),
            )
        return {"": root}
    return listed_places(listed)


_Array: TypeAlias = tuple[NodeDirectory, V2Array, JSONObject, list[Problem]]
"""An array whose chunk keys are not checked yet: directory, content, attributes, problems."""


@dataclass(slots=True, kw_only=True)
class _Reader(TreeReader):
    native: ClassVar[NativeFormat] = _NATIVE
    places: tuple[str, ...] = ()
    """Paths of all directories found."""
    describe: IdentityCache[V2Array] = field(
        default_factory=lambda: IdentityCache(V2ArrayDescriber().describe)
    )
    layout: IdentityCache[Layout | None] = field(default_factory=lambda: IdentityCache(V2Array.layout))

    def nodes(self, found: dict[str, NodeDirectory]) -> tuple[Node, ...]:
        """All nodes, sorted, including implicit groups."""
        nodes: dict[str, Node] = {}
        arrays: dict[str, _Array] = {}
        self.places = tuple(found)
        for path, place in found.items():
            if place.problems:
                unread = {p.key: p for p in place.problems if p.kind == "storage" and p.key is not None}
                self.documents.unread.update(unread)
            if ARRAY in place.documents:
                arrays[path] = self._array(place)
            elif _is_node(place) or place.refused:
                nodes[path] = self._group(place)
        separators = self._separators(arrays, found)
        for path, (place, facts, attributes, problems) in arrays.items():
            nodes[path] = self._finish(place, facts, attributes, problems, separators.get(path))
        self.refuse_lone_chunks(nodes, found)
        return self.complete(nodes, found, arrays)

    # ----- arrays

    def _array(self, place: NodeDirectory) -> _Array:
        problems = self.problems_at(place)
        if GROUP in place.documents:
            self.documents.read(
                place.documents[GROUP], join(place.path, GROUP)
            )  # to compare consolidated ones
            problems.append(array_and_group(self.storage, place.path, self.places))
        attributes = self.parse(place, ATTRIBUTES, problems) or {}
        data = self.parse(place, ARRAY, problems)
        if data is not None and (told := shown_by_a_chunk(self.storage, place.path, data)) is not None:
            problems.append(told.at(key=join(place.path, ARRAY)))
            data = {**data, "dtype": "|S1"}
        facts = V2Array(extra={}) if data is None else self.describe(data)
        key = join(place.path, ARRAY)
        problems.extend(problem.at(key=key) for problem in facts.problems)
        if data is not None:
            attributes = with_netcdf_members(attributes, data, key, problems)
        return place, facts, attributes, problems

    def _separators(
        self, arrays: dict[str, _Array], found: Mapping[str, NodeDirectory]
    ) -> dict[str, tuple[str, Problem | None]]:
        """The separator of each array whose keys depend on one."""
        wanted = [path for path, item in arrays.items() if len(item[1].shape or ()) > 1]
        listings: Iterable[Iterable[DirectoryEntry]] = ([] for _ in wanted)
        if self.storage.can_list:
            listings = _listings(self.storage, [found[path] for path in wanted])
        result: dict[str, tuple[str, Problem | None]] = {}
        for path, entries in zip(wanted, listings, strict=True):
            facts = arrays[path][1]
            assert facts.shape is not None
            try:
                if not self.storage.can_list and facts.separator is None:
                    entries = _probed(self.storage, path, len(facts.shape))  # noqa: PLW2901
                result[path] = separator(facts.separator, len(facts.shape), entries)
            except StorageError as error:
                result[path] = (".", error.problem)
        return result

    def _finish(
        self,
        place: NodeDirectory,
        facts: V2Array,
        attributes: JSONObject,
        problems: list[Problem],
        separated: tuple[str, Problem | None] | None,
    ) -> ArrayNode:
        chosen, problem = separated or (facts.separator or ".", None)
        if problem is not None:
            problems.append(problem.at(key=join(place.path, ARRAY)))
        keys = _NESTED if chosen == "/" else _FLAT
        return self.array(
            place,
            problems,
            attributes=attributes,
            layout=self.layout(facts, keys),
            fill_is_null=facts.fill_is_null,
            fill_is_zero=facts.fill_is_zero,
            extra=facts.extra,
        )

    # ----- groups

    def _group(self, place: NodeDirectory) -> GroupNode:
        problems = self.problems_at(place)
        attributes = self.parse(place, ATTRIBUTES, problems) or {}
        data = self.parse(place, GROUP, problems)
        if data is not None:
            _check_group(data, join(place.path, GROUP), problems)
            attributes = with_netcdf_members(attributes, data, join(place.path, GROUP), problems)
        elif GROUP not in place.documents and ATTRIBUTES in place.documents and not any_refusal(problems):
            problems.append(
                warning(
                    "metadata",
                    "attributes without array or group metadata; the node is read as a group",
                    key=join(place.path, ATTRIBUTES),
                    expected=f"{GROUP} or {ARRAY} next to it",
                )
            )
        return self.group(place, problems, attributes)

    def has_other(self, place: NodeDirectory, name: str) -> bool:
        """Whether a directory has a document of another format, with that format's content."""
        return name in place.documents and (name != _N5 or _holds_n5(place))


def _is_array(place: NodeDirectory) -> bool:
    return ARRAY in place.documents


def _is_node(place: NodeDirectory) -> bool:
    """Whether a directory is a node by more than a file with a common name."""
    return bool(place.documents.keys() - {_N5}) or _holds_n5(place)


def _holds_n5(place: NodeDirectory) -> bool:
    """Whether a file with the name of N5's document is one."""
    return _N5 in place.documents and is_n5(parsed_or_none(place.documents[_N5], _N5))


def _check_group(data: JSONObject, key: str, problems: list[Problem]) -> None:
    if FORMAT_AS_TEXT.apply(data, None):
        problems.append(FORMAT_AS_TEXT.problem.at(key=key))
    elif (wrong := wrong_version(data, 2, key)) is not None:
        problems.append(wrong)
    if extra := sorted(data.keys() - {"zarr_format"} - NETCDF):
        message = "members that the specification does not define are dropped"
        problems.append(warning("metadata", message, key=key, found=excerpt(extra)))


def _listings(storage: Storage, places: list[NodeDirectory]) -> Iterable[Iterable[DirectoryEntry]]:
    """The entries of directories, local ones from the walk.

    Others are listed lazily, because the first key is mostly decisive.
    """
    if isinstance(storage, LocalStorage):
        return (storage.list_dir(place.path) if place.shown is None else place.shown for place in places)
    return storage.list_dirs([place.path for place in places])


def _probed(storage: Storage, path: str, ndim: int) -> list[DirectoryEntry]:
    """The entries shown by a request for the first chunk, in a store that cannot list."""
    keys = [join(path, mark.join(["0"] * ndim)) for mark in (".", "/")]
    dotted, nested = storage.get_many(keys)
    entries = [DirectoryEntry(".".join(["0"] * ndim), is_dir=False)] if dotted is not None else []
    return [*entries, DirectoryEntry("0", is_dir=True)] if nested is not None else entries

"""A Zarr v2 archive, from any storage, as `Archive`.

Specification: https://zarr-specs.readthedocs.io/en/latest/v2/v2.0.html. Every problem of the
whole archive comes at once; a node that cannot be described never stops the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from zarrstack.core.errors import MetadataError, Problem, StorageError, UsageError
from zarrstack.core.jsons import JSONObject, document, excerpt
from zarrstack.core.keys import KeyEncoding

from ..archive import Archive, ArrayNode, Document, GroupNode, Layout, Node
from ..storage import Entry, LocalStorage, Storage
from . import consolidated
from .detection import is_n5
from .documents import parse_object
from .separators import separator
from .walk import Found, chunk_root, inside, join, name_problems, walk
from .zarr_v2_array import Described, Describer

ARRAY: Final = ".zarray"
GROUP: Final = ".zgroup"
ATTRIBUTES: Final = ".zattrs"
_V3: Final = "zarr.json"
_N5: Final = "attributes.json"
_OTHERS: Final = (_V3, _N5)
"""Where other formats keep metadata; the second is a name that anything may have."""
_STRAYS_NAMED: Final = 20
_SILENT: Final = frozenset(
    {ARRAY, GROUP, ATTRIBUTES, _V3, consolidated.KEY, ".DS_Store", "Thumbs.db", "desktop.ini"}
)


_NOTHING_ELSE: Final = Problem(
    kind="consolidated",
    severity="warning",
    message="there are no documents but the consolidated metadata, which is what is read",
    key=consolidated.KEY,
    expected=f"{ARRAY} and {GROUP} beside the chunks",
)


def read(storage: Storage, *, follow_links: bool = False, only: bool = False) -> Archive:
    """Describe the archive.

    `only` says that Zarr v2 was asked for: a `zarr.json` beside v2 documents is then passed over
    instead of refused. `follow_links` lets links lead out of the archive.

    Raises UsageError where there is no v2 archive or its nodes cannot be found, StorageError where
    the root cannot be read; everything else is a problem of the archive or of a node.
    """
    content = storage.get(consolidated.KEY)
    listed: dict[str, JSONObject] | None = None
    problems: list[Problem] = []
    if content is not None:
        try:
            listed, problems = consolidated.entries(content)
        except MetadataError as error:
            if not storage.can_list:
                raise
            problems.append(replace(error.problem, severity="warning", kind="consolidated"))
    reader = _Reader(storage=storage, only=only)
    if storage.can_list:
        names = (ARRAY, GROUP, ATTRIBUTES, *_OTHERS)
        found = walk(storage, documents=names, leaves=frozenset({ARRAY}), follow_links=follow_links)
        if listed and _chunks_alone(found):
            found = _unlisted(storage, listed)
            problems.append(_NOTHING_ELSE)
    else:
        found = _unlisted(storage, listed)
    nodes = reader.nodes(found)
    if not nodes:
        raise UsageError("no Zarr v2 archive is here", found=storage.url, expected=f"{ARRAY} or {GROUP}")
    if listed is not None and storage.can_list:
        problems.extend(consolidated.differences(listed, reader.parsed, frozenset(reader.unread)))
    return Archive(
        url=storage.url,
        format="zarr2",
        nodes=nodes,
        consolidated=listed is not None,
        documents=() if content is None else (Document(key=consolidated.KEY, content=content),),
        problems=(*problems, *reader.strays),
    )


def _chunks_alone(found: Mapping[str, Found]) -> bool:
    """Whether chunks are there and no document at all, nor anything that kept one from being seen."""
    places = found.values()
    seen = any(place.documents or place.problems for place in places)
    return not seen and any(place.chunk is not None for place in places)


def _unlisted(storage: Storage, listed: dict[str, JSONObject] | None) -> dict[str, Found]:
    """What there is, over a store that cannot list."""
    if listed is None:
        names = (ARRAY, GROUP, ATTRIBUTES)
        there = {
            name: content
            for name, content in zip(names, storage.get_many(names), strict=True)
            if content is not None
        }
        if ARRAY not in there:
            raise UsageError(
                "the nodes of this archive cannot be found",
                found="a store that cannot list, and no .zmetadata",
                expected=".zmetadata, or an array at the root",
                advice="Copy the archive to a place that can list, or consolidate its metadata.",
            )
        return {"": Found(path="", documents=there)}
    found: dict[str, Found] = {}
    for key, entry in listed.items():
        path, _, name = key.rpartition("/")
        place = found.setdefault(path, Found(path=path, problems=name_problems(path)))
        place.documents[name] = document(entry)
    return found


_Array: TypeAlias = tuple[Found, Described, JSONObject, list[Problem]]
"""An array before its chunk keys have been looked at: place, facts, attributes, problems."""


@dataclass(slots=True, kw_only=True)
class _Reader:
    """Turns places into nodes, and keeps what concerns the archive as a whole."""

    storage: Storage
    only: bool
    parsed: dict[str, JSONObject] = field(default_factory=dict)
    unread: set[str] = field(default_factory=set)
    strays: list[Problem] = field(default_factory=list)
    describer: Describer = field(default_factory=Describer)

    def nodes(self, found: dict[str, Found]) -> tuple[Node, ...]:
        """Every node, sorted, implicit groups too."""
        described: dict[str, Node | _Array] = {}
        for path, place in found.items():
            if ARRAY in place.documents:
                described[path] = self._array(place)
            elif _is_node(place) or any(problem.severity == "refusal" for problem in place.problems):
                described[path] = self._group(place)
        self._chunks_without_array(found, described)
        self._nodes_in_arrays(described)
        arrays = {path: item for path, item in described.items() if isinstance(item, tuple)}
        separators = self._separators(arrays)
        nodes: dict[str, Node] = {
            path: item for path, item in described.items() if not isinstance(item, tuple)
        }
        for path, (place, facts, attributes, problems) in arrays.items():
            nodes[path] = self._finish(place, facts, attributes, problems, separators.get(path))
        for path in list(nodes):
            for above in _above(path):
                if above not in nodes:
                    problems = found[above].problems if above in found else name_problems(above)
                    nodes[above] = GroupNode(path=above, implicit=True, problems=tuple(problems))
        self._note_strays(found, nodes)
        return tuple(nodes[path] for path in sorted(nodes))

    # ----- arrays

    def _array(self, place: Found) -> _Array:
        problems = [*place.problems, *self._other_format(place)]
        if GROUP in place.documents:
            message = "a node is both an array and a group"
            problems.append(
                Problem(
                    kind="metadata", message=message, found=f"{ARRAY} and {GROUP}", expected="one of them"
                )
            )
        attributes = self._attributes(place, problems)
        data = self._parse(place, ARRAY, problems)
        facts = Described(extra={}) if data is None else self.describer.describe(data)
        key = join(place.path, ARRAY)
        problems.extend(problem.at(key=key) for problem in facts.problems)
        return place, facts, attributes, problems

    def _separators(self, arrays: dict[str, _Array]) -> dict[str, tuple[str, Problem | None]]:
        """The separator of each array whose keys depend on one."""
        wanted = [path for path, item in arrays.items() if len(item[1].shape or ()) > 1]
        listings = _listings(self.storage, wanted) if self.storage.can_list else ([] for _ in wanted)
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
        place: Found,
        facts: Described,
        attributes: JSONObject,
        problems: list[Problem],
        separated: tuple[str, Problem | None] | None,
    ) -> ArrayNode:
        chosen, problem = separated or (facts.separator or ".", None)
        if problem is not None:
            problems.append(problem.at(key=join(place.path, ARRAY)))
        layout = None
        if not any(problem.severity == "refusal" for problem in problems):
            assert facts.shape is not None
            assert facts.chunk_shape is not None
            assert facts.data_type is not None
            assert facts.chain is not None
            layout = Layout(
                shape=facts.shape,
                data_type=facts.data_type,
                fill_value=facts.fill_value,
                chunk_shape=facts.chunk_shape,
                chain=facts.chain,
                keys=KeyEncoding("v2", "/" if chosen == "/" else "."),
            )
        return ArrayNode(
            path=place.path,
            attributes=attributes,
            layout=layout,
            fill_is_null=facts.fill_is_null,
            documents=_documents(place),
            extra=facts.extra,
            problems=_placed(problems, place),
        )

    # ----- groups

    def _group(self, place: Found) -> GroupNode:
        problems = [*place.problems, *self._other_format(place)]
        attributes = self._attributes(place, problems)
        data = self._parse(place, GROUP, problems) if GROUP in place.documents else None
        if data is not None:
            _check_group(data, join(place.path, GROUP), problems)
        elif GROUP not in place.documents and ATTRIBUTES in place.documents:
            problems.append(
                Problem(
                    kind="metadata",
                    severity="warning",
                    message="attributes without a node; it is taken for a group",
                    key=join(place.path, ATTRIBUTES),
                    expected=f"{GROUP} or {ARRAY} beside it",
                )
            )
        return GroupNode(
            path=place.path,
            attributes=attributes,
            documents=_documents(place),
            implicit=GROUP not in place.documents,
            problems=_placed(problems, place),
        )

    # ----- both

    def _other_format(self, place: Found) -> Iterator[Problem]:
        others = [] if self.only else [name for name in _OTHERS if name in place.documents]
        own = [name for name in (ARRAY, GROUP) if name in place.documents]
        for name in others:
            key = join(place.path, name)
            format_ = "zarr3" if name == _V3 else "n5"
            if name == _N5 and not _is_n5(place.documents[name], key):
                continue
            if own:
                yield Problem(
                    kind="format",
                    message="a node has the metadata of two formats",
                    key=key,
                    found=f"zarr2 ({own[0]}) and {format_} ({name})",
                    advice="Say which one counts with --from.",
                )
            else:
                message = f"a node of another format, {format_}, lies in a Zarr v2 archive"
                yield Problem(kind="format", message=message, key=key, advice="Move or exclude it.")

    def _parse(self, place: Found, name: str, problems: list[Problem]) -> JSONObject | None:
        key = join(place.path, name)
        try:
            data = self.parsed[key] = parse_object(place.documents[name], key)
        except MetadataError as error:
            self.unread.add(key)
            problems.append(error.problem)
            return None
        return data

    def _attributes(self, place: Found, problems: list[Problem]) -> JSONObject:
        if ATTRIBUTES not in place.documents:
            return {}
        return self._parse(place, ATTRIBUTES, problems) or {}

    # ----- what belongs to no node

    def _chunks_without_array(self, found: dict[str, Found], described: dict[str, Node | _Array]) -> None:
        """Chunks say that an array was there; without its document its values are lost on us."""
        for path, place in found.items():
            if place.chunk is None or not path or GROUP in place.documents:
                continue
            root = chunk_root(path, found)
            if root not in described:
                described[root] = ArrayNode(
                    path=root,
                    problems=(
                        Problem(
                            kind="metadata",
                            message="chunks without an array",
                            node=root,
                            found=f"the key {join(path, place.chunk)!r}",
                            expected=f"a document {join(root, ARRAY)!r}",
                            advice="Restore the document, or exclude the node.",
                        ),
                    ),
                )

    def _nodes_in_arrays(self, described: dict[str, Node | _Array]) -> None:
        """An array has no children; what lies in one all the same is not left behind unsaid."""
        for path in [path for path, item in described.items() if isinstance(item, tuple)]:
            try:
                inner = inside(self.storage, path, (ARRAY, GROUP))
            except StorageError as error:
                described[path][3].append(error.problem)  # type: ignore[index]
                continue
            for key in inner:
                message = "a node lies inside an array"
                place = key.rpartition("/")[0]
                found = f"/{path} is an array"
                problem = Problem(kind="metadata", message=message, node=place, key=key, found=found)
                described[place] = ArrayNode(path=place, problems=(problem,))

    def _note_strays(self, found: dict[str, Found], nodes: dict[str, Node]) -> None:
        strays = [
            join(path, name)
            for path, place in found.items()
            for name in (*place.files, *((place.chunk,) if place.chunk and path in nodes else ()))
            if name not in _SILENT and not name.startswith("._")
        ]
        for key in strays[:_STRAYS_NAMED]:
            message = "a file that belongs to no node stays behind"
            self.strays.append(Problem(kind="stray", severity="note", message=message, key=key))
        if len(strays) > _STRAYS_NAMED:
            message = f"{len(strays) - _STRAYS_NAMED} more files that belong to no node stay behind"
            self.strays.append(Problem(kind="stray", severity="note", message=message))


def _is_node(place: Found) -> bool:
    """Whether anything but a file of a common name says that a node is here."""
    n5 = place.documents.get(_N5)
    return bool(place.documents.keys() - {_N5}) or (n5 is not None and _is_n5(n5, _N5))


def _is_n5(content: bytes, key: str) -> bool:
    try:
        return is_n5(parse_object(content, key))
    except MetadataError:
        return False


def _check_group(data: JSONObject, key: str, problems: list[Problem]) -> None:
    version = data.get("zarr_format")
    if type(version) is not int or version != 2:
        found = excerpt(version) if "zarr_format" in data else "none"
        problems.append(
            Problem(kind="metadata", message="zarr_format is not 2", key=key, found=found, expected="2")
        )
    if extra := sorted(data.keys() - {"zarr_format"}):
        # NCZarr keeps dimensions and types here, netCDF's own view of what arrays say themselves.
        message = "members the specification does not define are not carried over"
        problems.append(
            Problem(kind="metadata", severity="warning", message=message, key=key, found=excerpt(extra))
        )


def _placed(problems: Iterable[Problem], place: Found) -> tuple[Problem, ...]:
    """Problems with their node; a refusal about no key in particular is about the node's document."""
    name = next((name for name in (ARRAY, GROUP) if name in place.documents), None)
    key = None if name is None else join(place.path, name)
    return tuple(
        problem.at(node=place.path, key=key if problem.severity == "refusal" else None)
        for problem in problems
    )


def _documents(place: Found) -> tuple[Document, ...]:
    return tuple(
        Document(key=join(place.path, name), content=content)
        for name, content in place.documents.items()
        if name not in _OTHERS
    )


def _above(path: str) -> Iterator[str]:
    while path:
        path = path.rpartition("/")[0]
        yield path


def _listings(storage: Storage, paths: list[str]) -> Iterable[Iterable[Entry]]:
    """Local directories lazily, since the first key mostly tells; remote ones all at once."""
    if isinstance(storage, LocalStorage):
        return map(storage.list_dir, paths)
    return storage.list_dirs(paths)


def _probed(storage: Storage, path: str, ndim: int) -> list[Entry]:
    """What the first chunk shows, over a store that cannot list."""
    keys = [join(path, mark.join(["0"] * ndim)) for mark in (".", "/")]
    dotted, nested = storage.get_many(keys)
    entries = [Entry(".".join(["0"] * ndim), is_dir=False)] if dotted is not None else []
    return [*entries, Entry("0", is_dir=True)] if nested is not None else entries

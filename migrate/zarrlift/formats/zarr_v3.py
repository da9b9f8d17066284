"""Describes the nodes of a Zarr v3 archive, for a copy with other chunks, codecs or shards.

https://zarr-specs.readthedocs.io/en/latest/v3/core/ ("Array metadata"). Strict: an unknown member is refused
unless it states that it need not be understood. Shards are described as a frame around inner chunks, so that
these can be moved without being decoded.

The documents have priority; consolidated metadata, which zarr-python stores in a group's document, is
compared with them. In a store that cannot list, it is the only source of node names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from zarrstack.base.array_documents import GUARD
from zarrstack.core.errors import MetadataError, Problem, UnsupportedError, ZarrstackError
from zarrstack.core.json_text import JSON, Extension, JSONObject, canonical, excerpt
from zarrstack.core.paths import join

from ..archive.nodes import ArrayNode, Layout, PassedThrough, SourceDocument
from ..core.chain.chain import Chain
from ..core.codecs.pipeline import Pipeline
from ..core.codecs.registry import missing_packages
from ..core.data_types.v3 import DataType, fill_from_json, fill_to_json
from ..core.format_table import V3 as NAME
from ..core.grid.frames import Shards
from ..core.grid.grid import Grid
from ..core.problems import any_refusal, attempt, note, refusal, warning
from ..core.shapes import Shape, read_lengths, whole_chunks
from ..storage.base import DirectoryEntry
from .tree.directory import NodeDirectory
from .tree.documents import EntryProblems, wrong_version
from .tree.reader import ArchiveReader
from .v3_extensions import SHARDING, chain_of, check_known, index_of, inner_chunk_of, keys_of, transformers_of

_NEEDED: Final = ("shape", "data_type", "chunk_grid", "chunk_key_encoding", "fill_value")
_OPTIONAL: Final = ("attributes", "codecs", "dimension_names", "storage_transformers")
_COMMON: Final = ("zarr_format", "node_type")


@dataclass(slots=True, kw_only=True)
class V3Array:
    """The content of a document; without `layout` and `passed`, a problem refuses it."""

    layout: Layout | None = None
    passed: PassedThrough | None = None
    """Of an array that has no layout because a part of it is unknown, and is valid otherwise."""
    attributes: JSONObject = field(default_factory=dict)
    extra: JSONObject = field(default_factory=dict)
    """Members that need not be understood."""
    problems: list[Problem] = field(default_factory=list)


class V3ArrayDescriber:
    """Describes arrays; caches results for codec chains, which rarely vary."""

    def __init__(self) -> None:
        self._chains: dict[str, Problem | None] = {}

    def describe(self, document: Mapping[str, JSON]) -> V3Array:
        """Describe a document; raises nothing because of its content."""
        result = V3Array()
        reading = _Reading(document, result.problems)
        transformers = document.get("storage_transformers")
        # The guard adds nothing to the field next to it, which is refused below.
        guard = (GUARD,) if transformers else ()
        result.extra = reading.other((*_COMMON, *_NEEDED, *_OPTIONAL, *guard))
        result.attributes = reading.attempt(lambda: read_attributes(document)) or {}
        if reading.attempt(lambda: transformers_of(transformers)):
            attempt(result.problems, lambda: _no_transformers(transformers))
        for name in _NEEDED:
            if name not in document:
                result.problems.append(refusal("metadata", f"{name} is missing"))
        shape = reading.member("shape", lambda value: read_lengths(value, "shape"))
        data_type = reading.member("data_type", lambda value: DataType.from_json(value).known)
        keys = reading.member("chunk_key_encoding", keys_of)
        chain = reading.attempt(lambda: chain_of(document.get("codecs", [])))
        outer = reading.member("chunk_grid", _grid)
        fill = chunks = names = None
        if data_type is not None:
            fill = reading.member(
                "fill_value", lambda value: (fill_to_json(fill_from_json(value, data_type), data_type),)
            )
        if shape is not None:
            names = reading.attempt(lambda: (_names(document.get("dimension_names"), len(shape)),))
        if shape is not None and outer is not None:
            chunks = reading.attempt(lambda: whole_chunks(outer, shape, "chunk_shape"))
        inside = None
        if chain is not None and chunks is not None:
            inside = reading.attempt(lambda: _unframed(chain, chunks))
        known = None not in (shape, fill, names, keys)
        if known and inside is not None:
            chunk_shape, inner, frame = inside
            inner = _with_permutations(inner, len(shape))
            if (problem := self._wrong(inner, chunk_shape, data_type)) is not None:
                result.problems.append(problem)
                if problem.kind == UnsupportedError.kind and not missing_packages(inner):
                    reading.unknown.append(problem)
        if not known or inside is None or reading.unknown:
            objects = None
            if shape is not None and chunks is not None and keys is not None and not transformers:
                objects = Layout.of_objects(keys, Grid(shape, chunks).counts)
            _pass_through(result, reading, objects)
            return result
        assert fill is not None
        assert names is not None
        if any_refusal(result.problems):
            return result
        result.layout = Layout(
            shape=shape,
            data_type=data_type,
            fill_value=fill[0],
            chunk_shape=chunk_shape,
            chain=inner,
            keys=keys,
            frame=frame,
            dimension_names=names[0],
        )
        return result

    def _wrong(self, chain: Chain, chunk_shape: Shape, data_type: DataType) -> Problem | None:
        """Problems that the codecs' own readers find in their configurations."""
        key = canonical([chain.to_json(), data_type.to_json(), len(chunk_shape)])
        if key not in self._chains:
            self._chains[key] = None
            try:
                Pipeline(chain, chunk_shape, data_type, allow_pickle=True)
            except ZarrstackError as error:
                self._chains[key] = error.problem
        return self._chains[key]


class _Reading:
    """One document and its problems."""

    def __init__(self, document: Mapping[str, JSON], problems: list[Problem]) -> None:
        self.document = document
        self.problems = problems
        self.unknown: list[Problem] = []
        """Those of the problems that are about something valid that is unknown here."""

    def attempt(self, step: Callable[[], Any]) -> Any:
        """The result of a step, or None if it fails; the problem is recorded."""
        before = len(self.problems)
        result = attempt(self.problems, step)
        self.unknown += [p for p in self.problems[before:] if p.kind == UnsupportedError.kind]
        return result

    def member(self, name: str, read: Callable[[JSON], Any]) -> Any:
        """The parsed value of a member that must exist."""
        return self.attempt(lambda: read(self.document[name])) if name in self.document else None

    def other(self, names: tuple[str, ...]) -> JSONObject:
        """The other members; a refusal for those that must be understood, a warning for the rest."""
        result = {name: value for name, value in self.document.items() if name not in names}
        for name, value in result.items():
            optional = isinstance(value, dict) and value.get("must_understand") is False
            message = f"unknown member {name!r}" + (", which need not be understood" if optional else "")
            severity: Any = "warning" if optional else "refusal"
            self.problems.append(
                Problem(kind="metadata", severity=severity, message=message, found=excerpt(value))
            )
        return result


def group_members(document: Mapping[str, JSON], problems: list[Problem]) -> JSONObject:
    """The attributes of a group; problems of its document are added to `problems`."""
    reading = _Reading(document, problems)
    reading.other((*_COMMON, "attributes", "consolidated_metadata"))
    return reading.attempt(lambda: read_attributes(document)) or {}


def read_attributes(document: Mapping[str, JSON]) -> JSONObject:
    """The `attributes`; empty if the member is missing."""
    attributes = document.get("attributes", {})
    if not isinstance(attributes, dict):
        raise MetadataError("attributes must be an object", found=excerpt(attributes), expected="{...}")
    return attributes


def _pass_through(array: V3Array, reading: _Reading, objects: Layout | None) -> None:
    """Let an array without a layout be passed through, if nothing is wrong with what is known of it."""
    document, shape = reading.document, reading.document.get("shape")
    if isinstance(shape, list):
        reading.member("codecs", lambda codecs: check_known(codecs, shape))
    others = [problem for problem in array.problems if problem not in reading.unknown]
    if not reading.unknown or any_refusal(others):
        array.problems[:] = [*others, *reading.unknown]
        return
    unknown = ", ".join(dict.fromkeys(problem.message for problem in reading.unknown))
    array.passed = PassedThrough(unknown=unknown, document=dict(document), objects=objects)
    message = "the array is passed through: its document and its objects stay as they are"
    array.problems[:] = [*others, note("passed-through", message, found=unknown)]


def _no_transformers(data: JSON) -> None:
    if data:
        raise UnsupportedError(
            "storage transformers are not supported here: their effect on bytes and keys is unknown",
            found=excerpt(data),
            advice="Read the array through them with --source-through per-array.",
        )


def _grid(data: JSON) -> Shape:
    name = Extension.from_json(data, "chunk grid").name
    if name != "regular":
        raise UnsupportedError(f"unknown chunk grid {name!r}", found=excerpt(data))
    configuration = data.get("configuration") if isinstance(data, dict) else None
    if (
        not isinstance(configuration, dict)
        or configuration.keys() != {"chunk_shape"}
        or data.keys() - {"name", "configuration", "must_understand"}
    ):
        raise MetadataError("malformed chunk grid", found=excerpt(data), expected='{"chunk_shape": [...]}')
    return read_lengths(configuration["chunk_shape"], "chunk_shape")


def _names(data: JSON, ndim: int) -> tuple[str | None, ...] | None:
    if data is None:
        return None
    if (
        not isinstance(data, list)
        or len(data) != ndim
        or not all(name is None or isinstance(name, str) for name in data)
    ):
        raise MetadataError(
            "dimension_names must be a name or null per axis",
            found=excerpt(data),
            expected=f"{ndim} names",
        )
    return tuple(data)


def _with_permutations(chain: Chain, ndim: int) -> Chain:
    """A chain without the letters that drafts allowed as the order of `transpose`, which zarr-python refuses.

    GDAL 3.8 to 3.11 and webknossos wrote them: https://github.com/zarr-developers/zarr-specs/pull/264
    """
    codecs = []
    for spec in chain.codecs:
        letter = spec.configuration.get("order") if spec.name == "transpose" else None
        if letter == "F" and ndim > 1:
            codecs.append(replace(spec, configuration={"order": list(reversed(range(ndim)))}))
        elif letter not in ("C", "F"):
            codecs.append(spec)
    return Chain(tuple(codecs))


def _unframed(chain: Chain, chunks: Shape) -> tuple[Shape, Chain, Shards | None]:
    """Inner chunks, their chain, and the shards around them, if any.

    UnsupportedError for shards inside other codecs or inside shards: a layout cannot express them, because
    its inner chunks are read from an object without decoding it.
    """
    if chain.codecs[chain.middle].name != SHARDING:
        return chunks, chain, None
    if len(chain.codecs) > 1:
        raise UnsupportedError(
            "sharding_indexed combined with other codecs", found=str(chain), expected="it alone"
        )
    inner_chunk = inner_chunk_of(chain.codecs[0])
    if len(inner_chunk) != len(chunks) or any(
        whole % part for whole, part in zip(chunks, inner_chunk, strict=True)
    ):
        raise MetadataError(
            "inner chunks do not divide the shard",
            found=excerpt(inner_chunk),
            expected=f"parts of {excerpt(chunks)}",
        )
    inner = Chain.from_json(chain.codecs[0].configuration["codecs"])
    if inner.codecs[inner.middle].name == SHARDING:
        raise UnsupportedError("shards in shards", found=str(chain.codecs[0].to_json())[:200])
    counts = tuple(whole // part for whole, part in zip(chunks, inner_chunk, strict=True))
    return inner_chunk, inner, Shards(counts, index_of(chain.codecs[0]))


_CONSOLIDATED: Final = "consolidated_metadata"
_CHUNK: Final = re.compile(r"c(\.[0-9]+)*|[0-9]+(\.[0-9]+)*")
"""Name of a chunk's file, in either key encoding."""


class _Reader(ArchiveReader):
    """Every node has a `zarr.json`."""

    listed_in = NAME

    def __init__(self, *archive: Any, only: bool) -> None:
        super().__init__(*archive, only=only)
        self._describer = V3ArrayDescriber()

    def kind(self, place: NodeDirectory) -> Literal["array", "group"] | None:
        """An array if its type is unknown: an array contains values, which must not be lost silently."""
        if place.is_array:
            return "array"
        data = self.parsed(place, NAME)
        if data is None:
            return self.foreign_kind(place)
        if isinstance(data, Problem) or data.get("node_type") != "group":
            return "array"
        return "group" if wrong_version(data, 3, NAME) is None else "array"

    def is_chunk(self, name: str) -> bool:
        return _CHUNK.fullmatch(name) is not None

    def read_array(
        self, place: NodeDirectory, entries: Iterable[DirectoryEntry], problems: list[Problem]
    ) -> ArrayNode:
        data = self.parse(place, NAME, problems)
        if data is None:
            return self.array(place, problems)
        if (wrong := wrong_version(data, 3, join(place.path, NAME))) is not None:
            problems.append(wrong)
            return self.array(place, problems)
        kind = data.get("node_type")
        if kind != "array":
            found = excerpt(kind) if "node_type" in data else "none"
            problems.append(refusal("metadata", "node_type is neither array nor group", found=found))
            return self.array(place, problems)
        facts = self._describer.describe(data)
        problems += facts.problems
        members = {"attributes": facts.attributes, "extra": facts.extra, "passed": facts.passed}
        return self.array(place, problems, facts.layout, **members)

    def read_group(self, place: NodeDirectory, problems: list[Problem]) -> JSONObject:
        data = self.parse(place, NAME, problems)
        return {} if data is None else group_members(data, problems)

    # ----- consolidated metadata

    def list_documents(self) -> None:
        if self.storage.can_list:
            root = self.directories[""]
        else:
            root = self.root_alone()
            self.listing_root[""] = root
            # The document from which all nodes are read.
            self.sources.extend(
                SourceDocument(key=NAME, content=content)
                for name, content in root.documents.items()
                if name == NAME
            )
        data = self.parsed(root, NAME)
        if self.kind(root) == "group" and isinstance(data, dict):
            self.listed = self._list(data)

    def _list(self, data: JSONObject) -> dict[str, JSONObject] | None:
        """The documents in the root's consolidated metadata, by key; None if there is none."""
        block = data.get(_CONSOLIDATED)
        if block is None:
            # zarr-python 3.0 writes null.
            return None
        metadata = block.get("metadata") if isinstance(block, dict) else None
        if not isinstance(metadata, dict) or not all(isinstance(entry, dict) for entry in metadata.values()):
            message = "not consolidated metadata"
            self.problems.append(warning("consolidated", message, key=NAME, found=excerpt(block)))
            return None
        listed = {}
        faults = EntryProblems(NAME)
        for path, entry in metadata.items():
            if path.startswith("/") or "" in path.split("/") or ".." in path.split("/"):
                message = "a key in consolidated metadata is not a valid node path"
                if faults.named(message):
                    found = f"the key {excerpt(path)}"
                    faults.add(refusal("name", message, key=NAME, found=found))
            else:
                listed[join(path, NAME)] = _plain(entry)
        self.problems.extend(faults.problems())
        return listed

    def in_listing(self, key: str, document: JSONObject) -> JSONObject | None:
        return None if key == NAME else _plain(document)


def _plain(data: JSONObject) -> JSONObject:
    """A document without derived members, which zarr-python omits or writes as null."""
    return {
        name: value
        for name, value in data.items()
        if name not in (_CONSOLIDATED, GUARD)
        and not (name in ("attributes", "storage_transformers") and not value)
    }


reader = _Reader

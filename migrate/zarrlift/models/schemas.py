"""JSON Schemas of models, of all of a format and of one hierarchy, and what violates them.

`zarr-metadata` defines the content of v2 and v3 documents; this module adds the tree structure. The schemas
use draft 2020-12 and distinguish groups from arrays by `if`, so an error is reported at its own location
rather than as "none of these fits".

`Schema` validates models with jsonschema-rs, and gives every violation its path. jsonschema-rs takes 0.05 s
for ten thousand nodes where jsonschema takes 32 s, and supports draft 2020-12, which zarr-metadata writes
(docs/design/0006). It is configured to fetch nothing, and patterns cannot cause unbounded
backtracking.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from types import ModuleType
from typing import Any, Final, Literal, TypeAlias, get_args

from zarrstack.core.errors import Problem, UsageError
from zarrstack.core.json_text import JSON, JSONObject, excerpt
from zarrstack.core.paths import join

from ..core.problems import refusal
from .zom import MEMBERS, FormatNumber, is_group, nodes

Open: TypeAlias = Literal["attributes", "chunks", "codecs", "fill_value", "keys", "members", "shape"]
OPEN: Final[tuple[Open, ...]] = get_args(Open)
"""Parts of a hierarchy that a schema may leave open."""
_NEEDED_FOR: Final = "a JSON Schema of models"
_DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"
_PARTS: Final[dict[str, tuple[str, ...]]] = {
    "attributes": ("attributes",),
    "chunks": ("chunk_grid", "chunks"),
    "codecs": ("codecs", "compressor", "filters", "order"),
    "fill_value": ("fill_value",),
    "keys": ("chunk_key_encoding", "dimension_separator"),
    "shape": ("shape",),
}
"""Part -> members of v3 and v2 metadata that express it."""
_APART: Final = 16
"""Every group at a multiple of this depth is a separate entry in `$defs`: schema readers limit nesting."""
_NAME: Final[JSONObject] = {
    "type": "string",
    "minLength": 1,
    "allOf": [
        {"not": {"pattern": "^[.]+$"}},
        {"not": {"pattern": "[/\\\\\\u0000]"}},
        {"not": {"const": "zarr.json"}},
    ],
}
"""Node names: https://zarr-specs.readthedocs.io/en/latest/v3/core/#node-names."""


_BACKTRACKS: Final = 100_000


def format_schema(number: FormatNumber) -> JSONObject:
    """The schema of all models of a format, v2 or v3."""
    return _of_v3() if number == 3 else _of_v2()


def _of_v3() -> JSONObject:
    written = library("zarr_metadata.json_schema", _NEEDED_FOR).node_metadata_json_schema_v3()
    definitions: Any = dict(written["$defs"])
    array = definitions.pop("ZarrV3ArrayMetadataJSON")
    group = definitions.pop("ZarrV3GroupMetadataJSON")
    # Consolidated metadata is derived from a model and not part of it.
    group = {**group, "properties": {**group["properties"], "consolidated_metadata": False}}
    is_group_ = {"properties": {"node_type": {"const": "group"}}, "required": ["node_type"]}
    return _tree("A Zarr v3 hierarchy (ZEP 6)", array, group, is_group_, definitions)


def _of_v2() -> JSONObject:
    json_schema = library("zarr_metadata.json_schema", _NEEDED_FOR).json_schema
    array: Any = json_schema(library("zarr_metadata.v2.array", _NEEDED_FOR).ZarrV2ArrayMetadataJSON)
    group: Any = json_schema(library("zarr_metadata.v2.group", _NEEDED_FOR).ZarrV2GroupMetadataJSON)
    definitions = {**group.pop("$defs", {}), **array.pop("$defs", {})}
    for schema in (array, group):
        schema.pop("$schema")
    is_group_ = {"not": {"required": ["shape"]}}
    return _tree("A Zarr v2 hierarchy (ZEP 6)", array, group, is_group_, definitions)


def _tree(
    title: str, array: JSONObject, group: JSONObject, is_group_: JSONObject, definitions: JSONObject
) -> JSONObject:
    """The schema of a tree, from a format's schemas of one array and one group."""
    array = {
        **array,
        "properties": {**array["properties"], MEMBERS: False},
        "required": [*array["required"], "attributes"],
    }
    members = {"type": "object", "propertyNames": _NAME, "additionalProperties": {"$ref": "#/$defs/Node"}}
    group = {
        **group,
        "properties": {**group["properties"], MEMBERS: members},
        "required": [*group["required"], "attributes", MEMBERS],
    }
    node = {"if": is_group_, "then": {"$ref": "#/$defs/Group"}, "else": {"$ref": "#/$defs/Array"}}
    return {
        "$schema": _DRAFT,
        "title": title,
        "$ref": "#/$defs/Node",
        "$defs": {"Node": node, "Array": array, "Group": group, **definitions},
    }


def hierarchy_schema(model: JSONObject, *, leave_open: Collection[str] = ()) -> JSONObject:
    """The schema of one hierarchy, which accepts only this model.

    `leave_open` names parts that may differ: "shape" (with the same number of axes), "chunks", "codecs",
    "fill_value", "keys", "attributes", and "members" (others may be added). JSON Schema has a single number
    type: for 1 in a document, it accepts 1.0 too. Raises UsageError for another word.
    """
    unknown = sorted(set(leave_open) - set(OPEN))
    if unknown:
        raise UsageError("unknown part of a model", found=", ".join(unknown), expected=", ".join(OPEN))
    open_ = {name: part for part in leave_open for name in _PARTS.get(part, ())}
    schemas: dict[str, JSONObject] = {}
    apart: dict[str, JSONObject] = {}
    children: dict[str, list[str]] = {}
    for path, node in reversed(list(nodes(model))):
        own = {name: _member(name, value, open_) for name, value in node.items() if name != MEMBERS}
        schema = _closed(own)
        if is_group(node):
            names = children.get(path, [])[::-1]
            inner = _closed({name: schemas.pop(join(path, name)) for name in names})
            if "members" in leave_open:
                inner["additionalProperties"] = True
            schema["properties"][MEMBERS] = inner
            schema["required"].append(MEMBERS)
        if path.count("/") % _APART == _APART - 1 and is_group(node):
            name = f"group-{len(apart)}"
            apart[name] = schema
            schema = {"$ref": f"#/$defs/{name}"}
        schemas[path] = schema
        parent, _, name = path.rpartition("/")
        if path:
            children.setdefault(parent, []).append(name)
    return {"$schema": _DRAFT, **schemas[""], **({"$defs": apart} if apart else {})}


def _closed(properties: JSONObject) -> JSONObject:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _member(name: str, value: JSON, open_: dict[str, str]) -> JSON:
    """The schema of one member of a node's metadata."""
    if name not in open_:
        if name == "attributes" and isinstance(value, dict):
            return _closed({key: {"const": item} for key, item in value.items()})
        return {"const": value}
    make: Callable[[JSON], JSON] | None = _OPENED.get(open_[name])
    return True if make is None else make(value)


def _opened_shape(value: JSON) -> JSON:
    rank = len(value) if isinstance(value, list) else 0
    item = {"type": "integer", "minimum": 0}
    return {"type": "array", "items": item, "minItems": rank, "maxItems": rank}


_OPENED: Final[dict[str, Callable[[JSON], JSON]]] = {
    "attributes": lambda _: {"type": "object"},
    "shape": _opened_shape,
}


def parts(texts: Iterable[str]) -> tuple[str, ...]:
    """Words from a command line, with or without commas between them."""
    return tuple(dict.fromkeys(word for text in texts for word in text.split(",") if word))


def library(name: str, needed_for: str) -> ModuleType:
    """A package of the extra `models`; UsageError with installation advice if it is missing."""
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError as error:
        raise UsageError(
            f"{needed_for} needs a package that is not installed",
            found=str(error),
            advice="Install it: pip install jsonschema-rs pydantic-zarr zarr-metadata (the extra models).",
        ) from None


class Schema:
    """A JSON Schema, compiled once for any number of models."""

    def __init__(self, schema: JSONObject, *, name: str) -> None:
        """`name` is used in errors. UsageError, with the location, if it is not a valid JSON Schema."""
        rs = library("jsonschema_rs", "checking against a JSON Schema")
        try:
            self._validator: Any = rs.validator_for(
                schema,
                mask="the value",
                retriever=_refuse_to_fetch,
                pattern_options=rs.FancyRegexOptions(backtrack_limit=_BACKTRACKS),
            )
        except rs.ValidationError as error:
            place = "/".join(map(str, error.instance_path))
            where = f"{name} at {place}" if place else name
            raise UsageError("this is not a JSON Schema", key=where, found=_words(error.message)) from None
        except (UnicodeEncodeError, ValueError, RecursionError, TypeError) as error:
            raise UsageError("this is not a JSON Schema", key=name, found=_words(str(error))) from None

    def violations(self, model: JSONObject) -> Iterator[Problem]:
        """Violations of the schema by a model, in the schema's order."""
        try:
            errors = list(self._validator.iter_errors(model))
        except (UnicodeEncodeError, ValueError, RecursionError) as error:
            words = _words(str(error))
            yield refusal("model", "the model cannot be checked", node="", found=words)
            return
        for violation in errors:
            yield from _problems(violation)


def _problems(error: Any) -> Iterator[Problem]:
    """The problems for one violation; missing and additional nodes each have their own path."""
    node, inside = _split_place(error.instance_path)
    if inside == MEMBERS and error.kind.name == "required":
        yield refusal("model", "the node is missing", node=join(node, error.kind.property))
        return
    if inside == MEMBERS and error.kind.name == "additionalProperties":
        for name in error.kind.unexpected:
            yield refusal("model", "the node is not in the model", node=join(node, name))
        return
    text = _words(error.message)
    found = None if error.kind.name == "required" else _short_form(error.instance)
    yield refusal("model", f"{inside}: {text}" if inside else text, node=node, found=found)


def _short_form(value: JSON) -> str:
    """A short form of a value; for a node, its kind and names only."""
    if isinstance(value, dict) and ("zarr_format" in value or len(value) > 8):
        return f"an object with {', '.join(map(repr, list(value)[:12]))}"
    return excerpt(value)


def _split_place(place: Sequence[str | int]) -> tuple[str, str]:
    """The path of the node that contains a location in a model, and the location within the node.

    `["members", "a", "members", "b", "shape", 0]` is `shape/0` of `a/b`.
    """
    names: list[str] = []
    rest = list(place)
    while len(rest) >= 2 and rest[0] == MEMBERS:
        names.append(str(rest[1]))
        rest = rest[2:]
    return "/".join(names), "/".join(map(str, rest))


def _words(message: str) -> str:
    text = " ".join(message.split())
    return text if len(text) <= 300 else text[:300] + "..."


def _refuse_to_fetch(uri: str) -> JSON:
    raise ValueError(f"the schema refers to another document, {uri}, which is not fetched")

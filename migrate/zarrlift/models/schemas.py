"""JSON Schemas of models: of all models of a format, and of one hierarchy.

`zarr-metadata` defines the content of v2 and v3 documents; this module adds the tree structure. The schemas
use draft 2020-12 and distinguish groups from arrays by `if`, so an error is reported at its own location
rather than as "none of these fits".
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any, Final, Literal, TypeAlias, get_args

from zarrstack.core.errors import UsageError
from zarrstack.core.json_text import JSON, JSONObject
from zarrstack.core.paths import join

from .zom import MEMBERS, FormatNumber, is_group, nodes

Open: TypeAlias = Literal["attributes", "chunks", "codecs", "fill_value", "keys", "members", "shape"]
OPEN: Final[tuple[Open, ...]] = get_args(Open)
"""Parts of a hierarchy that a schema may leave open."""
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


def format_schema(number: FormatNumber) -> JSONObject:
    """The schema of all models of a format, v2 or v3."""
    return _of_v3() if number == 3 else _of_v2()


def _of_v3() -> JSONObject:
    from zarr_metadata.json_schema import node_metadata_json_schema_v3

    written = node_metadata_json_schema_v3()
    definitions: Any = dict(written["$defs"])  # type: ignore[arg-type]
    array = definitions.pop("ZarrV3ArrayMetadataJSON")
    group = definitions.pop("ZarrV3GroupMetadataJSON")
    # Consolidated metadata is derived from a model and not part of it.
    group = {**group, "properties": {**group["properties"], "consolidated_metadata": False}}
    is_group_ = {"properties": {"node_type": {"const": "group"}}, "required": ["node_type"]}
    return _tree("A Zarr v3 hierarchy (ZEP 6)", array, group, is_group_, definitions)


def _of_v2() -> JSONObject:
    from zarr_metadata.json_schema import json_schema
    from zarr_metadata.v2.array import ZarrV2ArrayMetadataJSON
    from zarr_metadata.v2.group import ZarrV2GroupMetadataJSON

    array: Any = json_schema(ZarrV2ArrayMetadataJSON)
    group: Any = json_schema(ZarrV2GroupMetadataJSON)
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

"""Deviations of ZEP 6's examples from Zarr: accepted with a note, never written.

The examples of the 2023 draft contradict its text, each other and the specifications (docs/models.md lists
each deviation and its treatment). A model or schema copied from there should work; this project writes what
the specifications require.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from zarrstack.core.data_types.v3 import DataType
from zarrstack.core.errors import Problem, ZarrstackError
from zarrstack.core.json_text import JSON, JSONObject, excerpt
from zarrstack.core.paths import join

from .zom import MEMBERS

Note = Callable[[str, str, JSON], None]
"""Receives (path, interpretation, found value)."""

_BYTES_TO_BYTES: Final = frozenset({"blosc", "crc32c", "gzip", "zstd"})
_CORE_CODECS: Final = _BYTES_TO_BYTES | {"bytes", "sharding_indexed", "transpose"}


def mended_text(text: str) -> str:
    """JSON text without trailing commas, and with the missing closing brackets at its end."""
    out: list[str] = []
    open_: list[str] = []
    inside = escaped = False
    comma: int | None = None
    for char in text:
        if inside:
            inside = escaped or char != '"'
            escaped = char == "\\" and not escaped
        elif char == '"':
            inside, comma = True, None
        elif char in "{[":
            open_.append("}" if char == "{" else "]")
            comma = None
        elif char in "}]":
            if comma is not None:
                out[comma] = ""
            if open_ and open_[-1] == char:
                open_.pop()
            comma = None
        elif char == ",":
            comma = len(out)
        elif not char.isspace():
            comma = None
        out.append(char)
    if not inside:
        out.extend(reversed(open_))
    return "".join(out)


def mended_model(data: JSONObject) -> tuple[JSONObject, tuple[Problem, ...]]:
    """A model with the errors of ZEP 6 corrected, and a note for each; otherwise the same values."""
    problems: list[Problem] = []

    def note(path: str, meaning: str, found: JSON) -> None:
        message = f"read as ZEP 6 means it: {meaning}"
        problems.append(
            Problem(kind="model", severity="note", message=message, node=path, found=excerpt(found))
        )

    root = _rooted(data, note)
    # A node without a format has its parent's.
    waiting: list[tuple[str, JSONObject, Any]] = [("", root, 3 if "node_type" in root else None)]
    while waiting:
        path, node, above = waiting.pop()
        _mend_node(path, node, above, note)
        members = node.get(MEMBERS)
        if isinstance(members, dict):
            copied = {name: dict(item) if isinstance(item, dict) else item for name, item in members.items()}
            node[MEMBERS] = copied
            waiting.extend(
                (join(path, name), item, node.get("zarr_format"))
                for name, item in copied.items()
                if isinstance(item, dict)
            )
    return root, tuple(problems)


def _rooted(data: JSONObject, note: Note) -> JSONObject:
    """The root; a bare `{name: node}`, as in the first example, becomes its members."""
    if not data or {"zarr_format", "zarr_version", "node_type", "attributes", MEMBERS} & data.keys():
        return dict(data)
    if not all(isinstance(item, dict) and _is_node(item) for item in data.values()):
        return dict(data)
    note("", "the members of a group", sorted(data))
    first = next(iter(data.values()))
    number = first.get("zarr_format", first.get("zarr_version", 3))
    root: JSONObject = {"zarr_format": number, "attributes": {}, MEMBERS: data}
    if number == 3:
        root["node_type"] = "group"
    return root


def _is_node(item: JSONObject) -> bool:
    return bool({"zarr_format", "zarr_version", "node_type"} & item.keys())


def _mend_node(path: str, node: JSONObject, above: Any, note: Note) -> None:
    if "attributess" in node and "attributes" not in node:
        note(path, "attributes", "attributess")
        node["attributes"] = node.pop("attributess")
    typed = "zarr_version" in node and "zarr_format" not in node
    if typed:
        note(path, "zarr_format", "zarr_version")
        node["zarr_format"] = node.pop("zarr_version")
    if "zarr_format" not in node and above is not None:
        note(path, f"zarr_format {above}", sorted(node))
        node["zarr_format"] = above
    if node.get("zarr_format") == 3:
        _mend_v3(path, node, note)
    elif "shape" in node:
        _mend_v2(path, node, note, typed=typed)
    node.setdefault("attributes", {})
    group = node.get("node_type") == "group" or (node.get("zarr_format") == 2 and "shape" not in node)
    if group and node.get(MEMBERS) is None:
        node[MEMBERS] = {}


def _mend_v2(path: str, node: JSONObject, note: Note, *, typed: bool) -> None:
    if node.get("filters") == {}:
        note(path, "filters null", {})
        node["filters"] = None
    if not typed:
        return
    # The Python and TypeScript examples have five of eight members; they are types, not documents.
    for name, value in (("compressor", None), ("fill_value", None), ("order", "C"), ("filters", None)):
        node.setdefault(name, value)
    dtype = node.get("dtype")
    if isinstance(dtype, str) and dtype.isalnum():
        try:
            node["dtype"] = np.dtype(dtype).str
        except TypeError:
            return
        note(path, f"dtype {node['dtype']!r}", dtype)


def _mend_v3(path: str, node: JSONObject, note: Note) -> None:
    for name in ("storage_transformers", "dimension_names"):
        if name in node and node[name] is None:
            note(path, f"no {name}", None)
            del node[name]
    data_type = node.get("data_type")
    if isinstance(data_type, str) and data_type[:1] in ("|", "<", ">"):
        try:
            name = DataType.from_numpy(np.dtype(data_type)).to_json()
        except (TypeError, ZarrstackError):
            return
        note(path, f"data_type {name!r}", data_type)
        node["data_type"] = name
    codecs = node.get("codecs")
    if isinstance(codecs, list):
        node["codecs"] = list(_mended_codecs(path, codecs, node.get("data_type"), note))


def _mended_codecs(path: str, codecs: list[JSON], data_type: JSON, note: Note) -> Iterator[JSON]:
    mended = []
    for item in codecs:
        name = item.get("name") if isinstance(item, dict) else item
        if isinstance(name, str) and name not in _CORE_CODECS and name.lower() in _CORE_CODECS:
            note(path, f"codec {name.lower()!r}", name)
            name = name.lower()
            item = {**item, "name": name} if isinstance(item, dict) else name  # noqa: PLW2901
        if isinstance(item, dict) and item.get("configuration", {}) is None:
            note(path, f"codec {name!r} without a configuration", None)
            item = {key: value for key, value in item.items() if key != "configuration"}  # noqa: PLW2901
        mended.append((name, item))
    names = [name for name, _ in mended]
    if all(isinstance(name, str) and name in _BYTES_TO_BYTES for name in names):
        # An array-to-bytes codec is required (Zarr v3 core, "Codecs"); the example has none.
        bytes_ = {"name": "bytes", **_endian(data_type)}
        note(path, "codec 'bytes' before the others", names)
        yield bytes_
    yield from (item for _, item in mended)


def _endian(data_type: JSON) -> JSONObject:
    try:
        size = DataType.from_json(data_type).itemsize
    except ZarrstackError:
        return {}
    return {"configuration": {"endian": "little"}} if size is None or size > 1 else {}


def mended_schema(schema: JSONObject) -> tuple[JSONObject, tuple[Problem, ...]]:
    """A JSON Schema with the errors of ZEP 6's v2 schema corrected, and a note if there were any.

    That schema is recognized by `attributess` in an array's required members, which no array can satisfy
    together with `additionalProperties: false`; any other schema is returned unchanged.
    """
    definitions = schema.get("definitions")
    array = definitions.get("Array") if isinstance(definitions, dict) else None
    if not isinstance(array, dict) or "attributess" not in (array.get("required") or ()):
        return schema, ()
    required = ["attributes" if name == "attributess" else name for name in array["required"]]
    properties = dict(array.get("properties") or {})
    for name in ("compressor", "filters"):
        if isinstance(properties.get(name), dict):
            properties[name] = {"anyOf": [properties[name], {"type": "null"}]}
    mended = {**array, "required": required, "properties": _versioned(properties)}
    group = definitions.get("Group") if isinstance(definitions, dict) else None
    if isinstance(group, dict):
        group = {**group, "properties": _versioned(dict(group.get("properties") or {}))}
    note = Problem(
        kind="model",
        severity="note",
        message="a schema read as ZEP 6 means it: attributes required, zarr_format for zarr_version, "
        "compressor and filters may be null",
        found="attributess",
    )
    result = {**schema, "definitions": {**definitions, "Array": mended, "Group": group}}  # type: ignore[dict-item]
    return result, (note,)


def _versioned(properties: JSONObject) -> JSONObject:
    if "zarr_version" in properties:
        properties.setdefault("zarr_format", {"const": 2})
    return properties

"""Compares the structure of two hierarchies."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from zarrstack.core.chunk_keys_v3 import KeyEncoding
from zarrstack.core.errors import ZarrstackError
from zarrstack.core.json_text import JSON, JSONObject, canonical, excerpt

from ..core.data_types.v3 import DataType
from .zom import Flat, flatten, format_of, is_group

What: TypeAlias = Literal["added", "missing", "changed"]

_ABSENT: Final = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One difference of the second hierarchy from the first.

    Examples
    --------
    >>> zarrlift.migrate("ocean.zarr", "new.zarr").ok
    True
    >>> [(d.path, d.member) for d in zarrlift.models.diff("ocean.zarr", "new.zarr")][:1]
    [('lat', 'chunk_key_encoding')]
    """

    path: str
    """Path of the node."""
    what: What
    """"added": only in the second; "missing": only in the first."""
    member: str | None = None
    """Member of the node's metadata, `attributes/NAME` for an attribute; None for the whole node."""
    first: JSON = None
    second: JSON = None

    def to_json(self) -> JSONObject:
        """JSON for machines; `first` and `second` are present if meaningful."""
        data: JSONObject = {"path": self.path, "what": self.what}
        if self.member is not None:
            data["member"] = self.member
        if self.what != "added":
            data["first"] = self.first
        if self.what != "missing":
            data["second"] = self.second
        return data

    def __str__(self) -> str:
        place = f"/{self.path}" if self.member is None else f"/{self.path} {self.member}"
        if self.what == "changed":
            return f"{place}: {excerpt(self.first)} -> {excerpt(self.second)}"
        if self.member is None:
            return f"{place}: {self.what}, {self.first if self.what == 'missing' else self.second}"
        return f"{place}: {self.what}, {excerpt(self.first if self.what == 'missing' else self.second)}"


def differences(
    first: JSONObject, second: JSONObject, *, ignore: Collection[str] = ()
) -> Iterator[Difference]:
    """Differences between two models of one format, by path, then by member.

    Members that a specification makes optional, and alternative spellings (a codec as a bare name, a fill
    value `0` or `0.0` of floats), are not differences. `ignore` names members of metadata to skip, such as
    "codecs" or "attributes". The models must have the same format.
    """
    mine, theirs = flatten(first), flatten(second)
    for path in sorted(mine.keys() | theirs.keys()):
        one, other = mine.get(path), theirs.get(path)
        if one is None or other is None:
            yield from _whole(path, mine, theirs)
        elif is_group(one) != is_group(other):
            yield Difference(path=path, what="changed", first=_kind(one), second=_kind(other))
        else:
            yield from _members(path, normal(one), normal(other), frozenset(ignore))


def _whole(path: str, mine: Flat, theirs: Flat) -> Iterator[Difference]:
    if path in mine:
        yield Difference(path=path, what="missing", first=_kind(mine[path]))
    else:
        yield Difference(path=path, what="added", second=_kind(theirs[path]))


def _kind(node: JSONObject) -> str:
    return "group" if is_group(node) else "array"


def _members(path: str, one: JSONObject, other: JSONObject, ignore: frozenset[str]) -> Iterator[Difference]:
    for name in dict.fromkeys((*one, *other)):
        if name in ignore or name == "attributes":
            continue
        yield from _member(path, name, one.get(name, _ABSENT), other.get(name, _ABSENT))
    if "attributes" in ignore:
        return
    before, after = one.get("attributes") or {}, other.get("attributes") or {}
    for name in dict.fromkeys((*before, *after)):
        yield from _member(path, f"attributes/{name}", before.get(name, _ABSENT), after.get(name, _ABSENT))


def _member(path: str, name: str, first: Any, second: Any) -> Iterator[Difference]:
    if second is _ABSENT:
        yield Difference(path=path, what="missing", member=name, first=first)
    elif first is _ABSENT:
        yield Difference(path=path, what="added", member=name, second=second)
    elif first is not second and canonical(first) != canonical(second):
        yield Difference(path=path, what="changed", member=name, first=first, second=second)


# ----- normalization


def normal(node: JSONObject) -> JSONObject:
    """A node's metadata in normalized spelling, without members that equal their absence."""
    number = format_of(node)
    if number == 2:
        return _normal_v2(node)
    result = {name: value for name, value in node.items() if not _says_nothing(name, value)}
    if "codecs" in result:
        result["codecs"] = [_named(codec) for codec in _list(result["codecs"])]
    if "chunk_key_encoding" in result:
        result["chunk_key_encoding"] = _keys(result["chunk_key_encoding"])
    if "chunk_grid" in result:
        result["chunk_grid"] = _named(result["chunk_grid"])
    if "data_type" in result:
        result["data_type"] = _data_type(result["data_type"])
        if "fill_value" in result:
            result["fill_value"] = _fill(result["fill_value"], result["data_type"])
    return result


def _normal_v2(node: JSONObject) -> JSONObject:
    """v2: absent filters are null, and the default separator is `.`."""
    result = {name: value for name, value in node.items() if name != "attributes" or value}
    if is_group(node):
        return result
    if not result.get("filters"):
        result["filters"] = None
    result.setdefault("compressor", None)
    result.setdefault("dimension_separator", ".")
    return result


def _says_nothing(name: str, value: JSON) -> bool:
    """Whether a member equals its absence (Zarr v3 core: optional members)."""
    if name in ("attributes", "storage_transformers"):
        return not value
    if name == "dimension_names":
        return value is None or (isinstance(value, list) and all(item is None for item in value))
    return False


def _list(value: JSON) -> list[JSON]:
    return value if isinstance(value, list) else [value]


def _named(value: JSON) -> JSON:
    """A named configuration as an object without an empty configuration."""
    if isinstance(value, str):
        return {"name": value}
    if not isinstance(value, dict):
        return value
    result = {key: item for key, item in value.items() if not (key == "must_understand" and item is True)}
    configuration = result.get("configuration")
    if isinstance(configuration, dict) and "codecs" in configuration:
        inner = {
            key: [_named(codec) for codec in item]
            for key, item in configuration.items()
            if key in ("codecs", "index_codecs") and isinstance(item, list)
        }
        result["configuration"] = {**configuration, **inner}
    if not configuration:
        result.pop("configuration", None)
    return result


def _keys(value: JSON) -> JSON:
    try:
        return KeyEncoding.from_json(value).to_json()
    except ZarrstackError:
        return _named(value)


def _data_type(value: JSON) -> JSON:
    named = _named(value)
    if isinstance(named, dict) and named.keys() == {"name"}:
        return named["name"]
    return named


def _fill(value: JSON, data_type: JSON) -> JSON:
    """A fill value with floats normalized, which may be written as integers."""
    if type(value) is int and isinstance(data_type, str) and data_type.startswith("float"):
        try:
            if DataType.from_json(data_type).numpy.kind == "f":
                return float(value)
        except (ZarrstackError, OverflowError):
            return value
    return value

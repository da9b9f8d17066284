"""Frozen data whose JSON has its fields, by their names and in their order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import Any, Final

from zarrstack.core.json_text import JSON, JSONObject

_SAME: Final = frozenset({str, int, float, bool, type(None), dict})
"""Types of values that are JSON as they are, looked up first: a status may have 100,000 nodes."""


class FieldsAsJSON:
    """Base class of dataclasses whose JSON is all of their fields."""

    __slots__ = ()

    def to_json(self) -> JSONObject:
        """The fields as JSON; member names are stable."""
        return json_of_fields(self)


def json_of_fields(value: Any, *omitted: str) -> JSONObject:
    """The fields of a dataclass as JSON, in their order, without the ones of some names."""
    return {
        name: item if type(item := getattr(value, name)) in _SAME else _json(item)
        for name in _names(value.__class__, omitted)
    }


@cache
def _names(kind: Any, omitted: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(item.name for item in fields(kind) if item.name not in omitted)


def _json(value: Any) -> JSON:
    if type(value) is tuple:
        return [item if type(item) in _SAME else _json(item) for item in value]
    return dict(value) if isinstance(value, Mapping) else value.to_json()

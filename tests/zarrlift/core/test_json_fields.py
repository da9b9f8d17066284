"""JSON by the fields of a dataclass: all of them, in their order, as JSON's own types."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import pytest

from zarrlift.core.json_fields import FieldsAsJSON, json_of_fields
from zarrstack.core.errors import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner(FieldsAsJSON):
    lengths: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outer(FieldsAsJSON):
    zero: int = 0
    name: str = "a"
    share: float = 0.5
    known: bool = True
    inner: Inner | None = None
    pairs: tuple[tuple[str, int], ...] = ()
    rows: tuple[Inner, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()


def test_fields_are_members_in_their_order() -> None:
    outer = Outer(
        inner=Inner(lengths=(2, 3)),
        pairs=(("x", 1), ("y", 2)),
        rows=(Inner(), Inner(lengths=())),
        counts=MappingProxyType({"b": 1, "a": 2}),
        problems=(Problem(kind="metadata", message="wrong"),),
    )
    assert json.dumps(outer.to_json()) == json.dumps(
        {
            "zero": 0,
            "name": "a",
            "share": 0.5,
            "known": True,
            "inner": {"lengths": [2, 3]},
            "pairs": [["x", 1], ["y", 2]],
            "rows": [{"lengths": None}, {"lengths": []}],
            "counts": {"b": 1, "a": 2},
            "problems": [{"kind": "metadata", "severity": "refusal", "message": "wrong"}],
        }
    )


def test_members_can_be_left_out() -> None:
    assert json_of_fields(Inner(lengths=(1,)), "lengths") == {}
    assert list(json_of_fields(Outer(), "name", "rows"))[:3] == ["zero", "share", "known"]
    assert list(json_of_fields(Outer()))[1] == "name"


def test_a_value_without_a_form_is_an_error() -> None:
    with pytest.raises(AttributeError, match="to_json"):
        Inner(lengths={1}).to_json()  # type: ignore[arg-type]

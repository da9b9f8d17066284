"""What a hierarchy must be: a ZOM, a JSON Schema, or a Python type. One way to ask them all."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from zarrstack.core.errors import Joined, Problem, UsageError
from zarrstack.core.json_text import JSONObject, canonical, excerpt

from ..planning.plans import Plan
from ..recipe.recipe import RequiredModel
from .differences import Difference, differences
from .hierarchy import checked_model, parse_json, read_file
from .json_schema import Schema
from .pydantic_types import TypedModel, is_class_name, load_class
from .schemas import OPEN, hierarchy_schema
from .zep6_repairs import mended_schema
from .zom import format_of, unflatten

Kind = Literal["zom", "schema", "python"]
_SCHEMA_WORDS = frozenset(
    {"$schema", "$ref", "$defs", "$id", "definitions", "allOf", "anyOf", "oneOf", "properties", "type", "if"}
)
_SHOWN = 5
"""Problems that the refusal of a migration names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """A model to hold hierarchies against; made once, asked any number of times."""

    name: str
    """The file or `module:Name`, for messages."""
    kind: Kind
    content: JSONObject | None = None
    """Of a ZOM or a JSON Schema."""
    notes: tuple[Problem, ...] = ()
    """What was read leniently."""
    _check: Any = field(repr=False, compare=False)

    def violations(self, model: JSONObject) -> tuple[Problem, ...]:
        """Every place where a model is not as required, by path; none if it is.

        UsageError where it describes another Zarr format than a ZOM it is held against.
        """
        found = self._check.violations(model)
        return tuple(sorted(found, key=lambda problem: problem.node or ""))

    def named(self) -> RequiredModel:
        """What a recipe keeps of it: a job that is resumed elsewhere needs no file."""
        return RequiredModel(
            name=self.name, content=None if self.content is None else canonical(self.content)
        )


def load(source: str | JSONObject | type, *, leave_open: Collection[str] = ()) -> Requirement:
    """The requirement in a JSON file, in a JSON object, or that a type is (`module:Name` as text).

    `leave_open` names parts of a ZOM that may differ (see `schema`). Raises UsageError for what is no
    model or cannot be read, MetadataError for a ZOM with faults.
    """
    if isinstance(source, str) and not is_class_name(source):
        return _from_json(parse_json(read_file(source), source), source, leave_open)
    if isinstance(source, dict):
        return _from_json(source, "the model", leave_open)
    if leave_open:
        raise UsageError("parts can be left open of a ZOM only", found=str(source))
    name = source if isinstance(source, str) else getattr(source, "__name__", str(source))
    type_ = load_class(source) if isinstance(source, str) else source
    return Requirement(name=name, kind="python", _check=TypedModel(type_, name=name))


def required(kept: RequiredModel) -> Requirement:
    """The requirement that a recipe keeps."""
    if kept.content is None:
        return load(kept.name)
    return _from_json(parse_json(kept.content.encode(), kept.name), kept.name, ())


def _from_json(data: JSONObject, name: str, leave_open: Collection[str]) -> Requirement:
    if _is_schema(data):
        if leave_open:
            raise UsageError("parts can be left open of a ZOM only", found=f"{name} is a JSON Schema")
        mended, notes = mended_schema(data)
        return Requirement(
            name=name, kind="schema", content=data, notes=notes, _check=Schema(mended, name=name)
        )
    hierarchy = checked_model(data, name)
    model = hierarchy.model
    check: Any = _Zom(model, name)
    if leave_open:
        check = Schema(hierarchy_schema(model, leave_open=leave_open), name=name)
    return Requirement(name=name, kind="zom", content=model, notes=hierarchy.problems, _check=check)


def _is_schema(data: JSONObject) -> bool:
    """A ZOM says its format, or names nodes that do; a schema has words that no node has."""
    if {"zarr_format", "zarr_version", "node_type"} & data.keys():
        return False
    return bool(_SCHEMA_WORDS & data.keys())


class _Zom:
    """A ZOM as a requirement: the hierarchy must be structurally equal to it."""

    def __init__(self, model: JSONObject, name: str) -> None:
        self.model = model
        self.name = name

    def violations(self, model: JSONObject) -> Iterator[Problem]:
        if format_of(model) != format_of(self.model):
            raise UsageError(
                "the model describes another format",
                key=self.name,
                found=f"Zarr v{format_of(self.model)}",
                expected=f"Zarr v{format_of(model)}",
                advice="zarrlift model show --as v3 gives the v3 model of anything.",
            )
        for difference in differences(self.model, model):
            yield _violation(difference)


def _violation(difference: Difference) -> Problem:
    member = "" if difference.member is None else f"{difference.member}: "
    if difference.member is None and difference.what != "changed":
        kind = difference.first if difference.what == "missing" else difference.second
        text = "is missing" if difference.what == "missing" else "is not in the model"
        return Problem(kind="model", message=f"the {kind} {text}", node=difference.path)
    words = {"added": "is not in the model", "missing": "is missing", "changed": "is not as in the model"}
    return Problem(
        kind="model",
        message=member + words[difference.what],
        node=difference.path,
        found=None if difference.what == "missing" else excerpt(difference.second),
        expected=None if difference.what == "added" else excerpt(difference.first),
    )


# ----- in a migration


def unmet(recipe_model: RequiredModel, plan: Plan) -> tuple[Problem, ...]:
    """Where the result of a plan would not be as the recipe requires; refusals of the whole migration."""
    flat = {node.path: dict(node.document) for node in plan.published}
    requirement = required(recipe_model)
    if not flat:
        return ()
    return requirement.violations(unflatten(flat))


def refuse_unmet(plan: Plan) -> None:
    """UsageError where a plan's result would not be as its recipe requires: nothing is to be moved."""
    if plan.recipe.model is None:
        return
    problems = [problem for problem in plan.problems if problem.kind == "model"]
    if problems:
        raise UsageError(
            f"the result would not be what the model {plan.recipe.model.name} says",
            found=_first(problems),
            advice="Nothing was moved. zarrlift plan --all lists every place.",
        )


def _first(problems: list[Problem]) -> str:
    """A few problems in one line."""
    more = len(problems) - _SHOWN
    return Joined.of(problems[:_SHOWN], after=f"; and {more} more" if more > 0 else "")


__all__ = ["OPEN", "Kind", "Requirement", "load", "refuse_unmet", "required", "unmet"]

"""A required model for hierarchies: a ZOM or a JSON Schema, with one interface."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from zarrstack.core.errors import Problem, UsageError
from zarrstack.core.json_text import JSONObject, canonical, excerpt

from ..core.problems import JoinedProblems, refusal
from ..planning.plans import Plan
from ..recipe.recipe import RequiredModel
from .differences import Difference, differences
from .hierarchy import checked_model, parse_json, read_file
from .schemas import Schema, hierarchy_schema
from .zom import format_of, unflatten

_SCHEMA_WORDS = frozenset(
    {"$schema", "$ref", "$defs", "$id", "definitions", "allOf", "anyOf", "oneOf", "properties", "type", "if"}
)
_SHOWN = 5
"""Number of problems in the refusal of a migration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """A model for checking hierarchies, created once for any number of checks.

    Examples
    --------
    >>> requirement = zarrlift.models.load(zarrlift.models.schema(zarr_format=2))
    >>> requirement.violations(zarrlift.models.show("ocean.zarr").model)
    ()
    """

    name: str
    """The file, for messages."""
    content: JSONObject
    _check: Schema | _Zom = field(repr=False, compare=False)

    def violations(self, model: JSONObject) -> tuple[Problem, ...]:
        """Every violation by a model, by path; empty if it conforms.

        UsageError if its Zarr format differs from that of the required ZOM.
        """
        problems = self._check.violations(model)
        return tuple(sorted(problems, key=lambda problem: problem.node or ""))

    def named(self) -> RequiredModel:
        """The form stored in a recipe, with which a job can be resumed elsewhere without the file."""
        return RequiredModel(name=self.name, content=canonical(self.content))


def load(source: str | JSONObject, *, leave_open: Collection[str] = ()) -> Requirement:
    """The requirement in `source`: a JSON file or a JSON object.

    `leave_open` names parts of a ZOM that may differ (see `schema`).

    Raises
    ------
    UsageError
        For an invalid or unreadable model.
    MetadataError
        For a ZOM with faults.

    Examples
    --------
    >>> model = zarrlift.models.show("ocean.zarr").model
    >>> zarrlift.models.load(model, leave_open=("shape",)).violations(model)
    ()
    """
    if isinstance(source, dict):
        return _from_json(source, "the model", leave_open)
    return _from_json(parse_json(read_file(source), source), source, leave_open)


def required(model: RequiredModel) -> Requirement:
    """The requirement stored in a recipe."""
    return _from_json(parse_json(model.content.encode(), model.name), model.name, ())


def _from_json(data: JSONObject, name: str, leave_open: Collection[str]) -> Requirement:
    if _is_schema(data):
        if leave_open:
            raise UsageError("only the parts of a ZOM can be left open", found=f"{name} is a JSON Schema")
        return Requirement(name=name, content=data, _check=Schema(data, name=name))
    model = checked_model(data, name).model
    check: Schema | _Zom = _Zom(model, name)
    if leave_open:
        check = Schema(hierarchy_schema(model, leave_open=leave_open), name=name)
    return Requirement(name=name, content=model, _check=check)


def _is_schema(data: JSONObject) -> bool:
    """Whether an object is a schema; a ZOM states its format or contains nodes that do."""
    if {"zarr_format", "zarr_version", "node_type"} & data.keys():
        return False
    return bool(_SCHEMA_WORDS & data.keys())


class _Zom:
    """A ZOM as a requirement: the hierarchy must be structurally equal."""

    def __init__(self, model: JSONObject, name: str) -> None:
        self.model = model
        self.name = name

    def violations(self, model: JSONObject) -> Iterator[Problem]:
        if format_of(model) != format_of(self.model):
            raise UsageError(
                "the model has a different format",
                key=self.name,
                found=f"Zarr v{format_of(self.model)}",
                expected=f"Zarr v{format_of(model)}",
                advice="zarrlift model show --as v3 gives the v3 model of any archive.",
            )
        for difference in differences(self.model, model):
            yield _violation(difference)


def _violation(difference: Difference) -> Problem:
    member = "" if difference.member is None else f"{difference.member}: "
    if difference.member is None and difference.what != "changed":
        kind = difference.first if difference.what == "missing" else difference.second
        text = "is missing" if difference.what == "missing" else "is not in the model"
        return refusal("model", f"the {kind} {text}", node=difference.path)
    words = {"added": "is not in the model", "missing": "is missing", "changed": "differs from the model"}
    return refusal(
        "model",
        member + words[difference.what],
        node=difference.path,
        found=None if difference.what == "missing" else excerpt(difference.second),
        expected=None if difference.what == "added" else excerpt(difference.first),
    )


# ----- in a migration


def unmet(recipe_model: RequiredModel, plan: Plan) -> tuple[Problem, ...]:
    """Violations of the recipe's model by the result of a plan; refusals of the whole migration."""
    flat = {node.path: dict(node.document) for node in plan.published}
    requirement = required(recipe_model)
    if not flat:
        return ()
    return requirement.violations(unflatten(flat))


def refuse_unmet(plan: Plan) -> None:
    """Raise UsageError if a plan's result would violate its recipe's model, before anything is moved."""
    if plan.recipe.model is None:
        return
    problems = [problem for problem in plan.problems if problem.kind == "model"]
    if problems:
        raise UsageError(
            f"the result would not conform to the model {plan.recipe.model.name}",
            found=_first(problems),
            advice="Nothing was moved. zarrlift migrate --dry-run --all lists every violation.",
        )


def _first(problems: list[Problem]) -> str:
    """A few problems in one line."""
    more = len(problems) - _SHOWN
    return JoinedProblems.of(problems[:_SHOWN], after=f"; and {more} more" if more > 0 else "")

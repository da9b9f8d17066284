"""Models as Python types: pydantic-zarr's `ArraySpec` and `GroupSpec`, or any type pydantic supports.

pydantic and pydantic-zarr belong to the extra `models` and are imported where they are used.
"""

from __future__ import annotations

import json
import os
import sys
import sysconfig
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from zarrstack.core.errors import MetadataError, Problem, UsageError
from zarrstack.core.json_text import JSON, JSONObject, excerpt

from ..core.problems import refusal
from .hierarchy import checked_model
from .json_schema import library, split_place
from .zom import copied

T = TypeVar("T")
_SHALLOW: Final = frozenset({"missing", "extra_forbidden", "literal_error", "model_type", "dict_type"})
"""Errors that distinguish the branches of a union."""
_SCALAR: Final = frozenset({"bool_type", "float_type", "int_from_float", "int_type", "string_type"})
"""Errors of strict pydantic for a scalar of another type."""


def load_class(text: str) -> Any:
    """The type named `module:Name`; UsageError. The current directory is searched first."""
    from importlib import import_module

    module, _, name = text.partition(":")
    try:
        with _from_here():
            value: Any = import_module(module)
            for part in name.split("."):
                value = getattr(value, part)
    except Exception as error:
        # An import runs foreign code, which may raise anything.
        problem = f"{type(error).__name__}: {error}"
        raise UsageError("the Python model cannot be imported", key=text, found=problem) from error
    return value


@contextmanager
def _from_here() -> Iterator[None]:
    """Add the current directory to the module search path, as `python -m` does."""
    sys.path.insert(0, os.getcwd())
    try:
        yield
    finally:
        sys.path.remove(os.getcwd())


class TypedModel:
    """A type for checking models; its schema is built once."""

    def __init__(self, type_: Any, *, name: str) -> None:
        """`type_` is a class, a generic alias, a dataclass or TypedDict. UsageError for anything else."""
        pydantic = library("pydantic", "checking against a Python model")
        self.name = name
        self._error: Any = pydantic.ValidationError
        try:
            self.adapter: Any = pydantic.TypeAdapter(type_)
        except Exception as error:
            # pydantic has a dozen errors for types without a schema.
            found = " ".join(str(error).split())[:300]
            raise UsageError("pydantic cannot check this type", key=name, found=found) from error

    def read(self, model: JSONObject) -> Any:
        """An instance of the type; raises pydantic's ValidationError."""
        return self._validated(json.dumps(model))

    def _validated(self, text: str, *, strict: bool | None = None) -> Any:
        """An instance; UsageError if the type's own code fails, such as a faulty validator."""
        try:
            return self.adapter.validate_json(text, strict=strict)
        except self._error:
            raise
        except Exception as error:
            raise UsageError(
                "the Python model's own code failed",
                key=self.name,
                found=f"{type(error).__name__}: {error}, {_place_of(error)}",
                advice="Correct it, or raise ValueError for values that it does not accept.",
            ) from error

    def violations(self, model: JSONObject) -> Iterator[Problem]:
        """Violations of the type by a model."""
        text = json.dumps(model)
        errors = self._errors(text, strict=True)
        if errors:
            # Unless it is strict, pydantic accepts "1" for 1; but if strict, it refuses a list from a
            # validator for a tuple, as in pydantic-zarr's codecs.
            loose = self._errors(text, strict=False)
            places = {row["loc"] for row in loose}
            errors = loose + [row for row in errors if row["type"] in _SCALAR and row["loc"] not in places]
        for place, row in _best([(row["loc"], row) for row in errors], model, ()):
            yield _problem(place, row)

    def _errors(self, text: str, *, strict: bool) -> list[Any]:
        try:
            self._validated(text, strict=strict)
        except self._error as error:
            return list(error.errors(include_url=False, include_context=False))
        return []


def _place_of(error: Exception) -> str:
    """File, line and function that raised an error, in user code rather than a library."""
    frames = traceback.extract_tb(error.__traceback__)
    installed = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "purelib", "platlib"))
    of_users = [frame for frame in frames[1:] if not frame.filename.startswith(installed)]
    frame = (of_users or frames)[-1]
    return f"in {frame.name}, {frame.filename}:{frame.lineno}"


_Rows = list[tuple[tuple[str | int, ...], Any]]


def _best(rows: _Rows, value: JSON, place: tuple[str | int, ...]) -> _Rows:
    """The errors of pydantic with locations in the model; for a union, those of the best-fitting branch.

    pydantic includes branches in its locations (`members`, `a`, `ArraySpec`, `shape`): an element that is not
    a key or index of the value is the name of a branch.
    """
    here: _Rows = []
    below: dict[str | int, _Rows] = {}
    branches: dict[str | int, _Rows] = {}
    for rest, row in rows:
        if not rest:
            here.append((place, row))
        elif _leads_on(value, rest[0]):
            below.setdefault(rest[0], []).append((rest[1:], row))
        elif len(rest) == 1 and row["type"] in ("missing", "extra_forbidden"):
            here.append(((*place, rest[0]), row))
        else:
            branches.setdefault(rest[0], []).append((rest[1:], row))
    for step, inner in below.items():
        here += _best(inner, value[step], (*place, step))
    if branches:
        best = min(branches.values(), key=_score)
        here += _best(best, value, place)
    return here


def _leads_on(value: JSON, step: str | int) -> bool:
    if isinstance(value, dict):
        return step in value
    return isinstance(value, list) and isinstance(step, int) and 0 <= step < len(value)


def _score(rows: _Rows) -> tuple[int, int]:
    return sum(len(rest) <= 1 and row["type"] in _SHALLOW for rest, row in rows), len(rows)


def _problem(place: Sequence[str | int], row: Any) -> Problem:
    node, inside = split_place(place)
    message = str(row["msg"]).removeprefix("Value error, ")
    without_input = row["type"] == "missing" or isinstance(row["input"], dict) or not place
    found = None if without_input else excerpt(row["input"])
    return refusal("model", f"{inside}: {message}" if inside else message, node=node, found=found)


def as_instance(model: JSONObject, type_: type[T]) -> T:
    """The `model` as an instance of `type_`, such as `GroupSpec[Any, ArraySpec[XAttrs]]` of pydantic-zarr.

    pydantic-zarr's default for a missing v2
    `dimension_separator` is "/", but the specification's is ".", so it is added explicitly.

    Raises
    ------
    MetadataError
        With the first violation and their number.

    Examples
    --------
    >>> from pydantic_zarr.v2 import ArraySpec
    >>> model = zarrlift.models.show("ocean.zarr").model["members"]["lat"]
    >>> zarrlift.models.as_instance(model, ArraySpec[dict]).shape
    (90,)
    """
    typed = TypedModel(type_, name=getattr(type_, "__name__", str(type_)))
    whole = _with_separators(model)
    problems = tuple(typed.violations(whole))
    if problems:
        first = problems[0]
        raise MetadataError(
            first.message,
            node=first.node,
            key=typed.name,
            found=first.found,
            advice=f"{len(problems)} violations; zarrlift.models.validate lists them.",
        )
    instance: T = typed.read(whole)
    return instance


def from_instance(instance: Any) -> JSONObject:
    """The model of `instance`, of a pydantic class such as pydantic-zarr's.

    Examples
    --------
    >>> from pydantic_zarr.v2 import ArraySpec
    >>> array = ArraySpec(shape=(4,), chunks=(2,), dtype="<i4", attributes={})
    >>> zarrlift.models.from_instance(array)["chunks"]
    [2]
    """
    if hasattr(instance, "__dataclass_fields__"):
        data = _plain(instance)
    else:
        library("pydantic", "a typed model")
        data = instance.model_dump(mode="json", by_alias=True)
    return checked_model(data, type(instance).__name__).model


def _plain(value: Any) -> Any:
    """Dataclasses as JSON, including class attributes such as `zarr_format = 2`."""
    if hasattr(value, "__dataclass_fields__"):
        fields = {name: _plain(getattr(value, name)) for name in value.__dataclass_fields__}
        constants = {name: getattr(value, name, None) for name in ("zarr_format", "node_type")}
        return {**{name: item for name, item in constants.items() if item is not None}, **fields}
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def _with_separators(model: JSONObject) -> JSONObject:
    """A v2 model with an explicit `dimension_separator` in every array; others unchanged."""
    if model.get("zarr_format") != 2:
        return model
    return copied(model, lambda node: "shape" in node and node.setdefault("dimension_separator", "."))

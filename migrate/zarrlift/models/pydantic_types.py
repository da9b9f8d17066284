"""Models as Python types: pydantic-zarr's `ArraySpec` and `GroupSpec`, or anything pydantic reads.

pydantic and pydantic-zarr come with the extra `models` and are imported here, where they are used.
"""

from __future__ import annotations

import json
import os
import re
import sys
import sysconfig
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from zarrstack.core.errors import MetadataError, Problem, UsageError
from zarrstack.core.json_text import JSON, JSONObject, excerpt

from .hierarchy import checked_model
from .json_schema import library, split_place
from .zom import MEMBERS

T = TypeVar("T")
_NAME: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_SHALLOW: Final = frozenset({"missing", "extra_forbidden", "literal_error", "model_type", "dict_type"})
"""Errors by which the branches of a union tell each other apart."""
_SCALAR: Final = frozenset({"bool_type", "float_type", "int_from_float", "int_type", "string_type"})
"""Errors that pydantic has for a scalar of another type when it is strict."""


def is_class_name(text: str) -> bool:
    """Whether a text names a Python object, `module:Name`, and no file."""
    return _NAME.fullmatch(text) is not None and not os.path.exists(text)


def load_class(text: str) -> Any:
    """The type that `module:Name` names; UsageError. The current directory is looked into first."""
    from importlib import import_module

    module, _, name = text.partition(":")
    try:
        with _from_here():
            found: Any = import_module(module)
            for part in name.split("."):
                found = getattr(found, part)
    except Exception as error:
        # Importing runs somebody's code, which may fail in any way.
        problem = f"{type(error).__name__}: {error}"
        raise UsageError("the Python model cannot be imported", key=text, found=problem) from error
    return found


@contextmanager
def _from_here() -> Iterator[None]:
    """As `python -m` does it: modules beside the one who asks can be named."""
    sys.path.insert(0, os.getcwd())
    try:
        yield
    finally:
        sys.path.remove(os.getcwd())


class TypedModel:
    """A type that models are checked against; its schema is built once."""

    def __init__(self, type_: Any, *, name: str) -> None:
        """`type_` is a class, a generic alias, a dataclass or TypedDict. UsageError for anything else."""
        pydantic = library("pydantic", "checking against a Python model")
        self.name = name
        self._error: Any = pydantic.ValidationError
        try:
            self.adapter: Any = pydantic.TypeAdapter(type_)
        except Exception as error:
            # pydantic has a dozen errors for what it makes no schema of.
            found = " ".join(str(error).split())[:300]
            raise UsageError("this is no type that pydantic can check", key=name, found=found) from error

    def read(self, model: JSONObject) -> Any:
        """An instance; raises pydantic's ValidationError."""
        return self._validated(json.dumps(model))

    def _validated(self, text: str, *, strict: bool | None = None) -> Any:
        """An instance; UsageError where the type's own code fails, such as a validator with a mistake."""
        try:
            return self.adapter.validate_json(text, strict=strict)
        except self._error:
            raise
        except Exception as error:
            raise UsageError(
                "the Python model's own code failed",
                key=self.name,
                found=f"{type(error).__name__}: {error}, {_place_of(error)}",
                advice="Correct it, or let it raise ValueError for what it does not accept.",
            ) from error

    def violations(self, model: JSONObject) -> Iterator[Problem]:
        """Where a model is not what the type says."""
        text = json.dumps(model)
        told = self._errors(text, strict=True)
        if told:
            # pydantic would take "1" for 1 unless it is strict; but strictly, it takes no list from a
            # validator for a tuple, which pydantic-zarr's codecs are.
            loose = self._errors(text, strict=False)
            told = loose + [
                row for row in told if row["type"] in _SCALAR and row["loc"] not in _places(loose)
            ]
        for place, row in _best([(row["loc"], row) for row in told], model, ()):
            yield _problem(place, row)

    def _errors(self, text: str, *, strict: bool) -> list[Any]:
        try:
            self._validated(text, strict=strict)
        except self._error as error:
            return list(error.errors(include_url=False, include_context=False))
        return []


def _place_of(error: Exception) -> str:
    """File, line and function in which an error came up, the user's rather than those of a library."""
    frames = traceback.extract_tb(error.__traceback__)
    installed = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "purelib", "platlib"))
    of_users = [frame for frame in frames[1:] if not frame.filename.startswith(installed)]
    frame = (of_users or frames)[-1]
    return f"in {frame.name}, {frame.filename}:{frame.lineno}"


def _places(rows: list[Any]) -> set[tuple[str | int, ...]]:
    return {row["loc"] for row in rows}


_Rows = list[tuple[tuple[str | int, ...], Any]]


def _best(rows: _Rows, value: JSON, place: tuple[str | int, ...]) -> _Rows:
    """The errors of pydantic with places in the model; of a union, those of the branch that fits best.

    pydantic names branches within its places (`members`, `a`, `ArraySpec`, `shape`): what is no key
    and no index of the value there is the name of one.
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
    bare = row["type"] == "missing" or isinstance(row["input"], dict) or not place
    found = None if bare else excerpt(row["input"])
    return Problem(
        kind="model", message=f"{inside}: {message}" if inside else message, node=node, found=found
    )


def as_instance(model: JSONObject, type_: type[T]) -> T:
    """The model as an instance of a type, such as `GroupSpec[Any, ArraySpec[XAttrs]]` of pydantic-zarr.

    MetadataError with the first violation, and how many there are. pydantic-zarr takes a v2 array
    without `dimension_separator` to have "/", where the specification has ".": it is said here.
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
    """The model that an instance of pydantic-zarr's or another pydantic class stands for."""
    if hasattr(instance, "__dataclass_fields__"):
        data = _plain(instance)
    else:
        library("pydantic", "a typed model")
        data = instance.model_dump(mode="json", by_alias=True)
    return checked_model(data, type(instance).__name__).model


def _plain(value: Any) -> Any:
    """Dataclasses as JSON; what a class says once for all its instances (ZEP 6: `zarr_version = 2`) too."""
    if hasattr(value, "__dataclass_fields__"):
        fields = {name: _plain(getattr(value, name)) for name in value.__dataclass_fields__}
        said = {name: getattr(value, name, None) for name in ("zarr_version", "zarr_format", "node_type")}
        return {**{name: item for name, item in said.items() if item is not None}, **fields}
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def _with_separators(model: JSONObject) -> JSONObject:
    """A v2 model with `dimension_separator` said by every array; others as they are."""
    if model.get("zarr_format") != 2:
        return model
    root = dict(model)
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if "shape" in node:
            node.setdefault("dimension_separator", ".")
        members = node.get(MEMBERS)
        if isinstance(members, dict):
            node[MEMBERS] = {name: dict(item) for name, item in members.items()}
            waiting.extend(node[MEMBERS].values())
    return root

"""xarray and CF: names of dimensions, and fill values that mask.

On Zarr v2 xarray names an array's dimensions in the attribute `_ARRAY_DIMENSIONS`, and masks what
equals the array's fill value, unless that is null. On v3 it reads `dimension_names`, and masks only
what equals the attribute `_FillValue`, in a form of its own (`FillValueCoder`): floats are the
base64 of a little-endian double, complex numbers a pair of these, integers and booleans plain JSON.
It cannot open an array whose `_FillValue` has another form or another data type; text is masked by
`missing_value`, which it takes as it stands (xarray 2026.9.0, `xarray/backends/zarr.py`,
`xarray/coding/variables.py`; seen with zarr 3.1.6 and 3.4.2).
https://docs.xarray.dev/en/stable/internals/zarr-encoding-spec.html
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

import numpy as np

from zarrstack.core.data_types.cast import cast
from zarrstack.core.data_types.v3 import DataType, fill_from_json
from zarrstack.core.errors import Problem, ZarrstackError
from zarrstack.core.json_text import JSON, canonical, excerpt

from ..archive.nodes import ArrayNode
from ..recipe.dtype import parse_data_type
from ..recipe.recipe import ArrayRecipe
from .base import Change, Convention, Recognised, View
from .netcdf import netcdf_names

DIMENSIONS: Final = "_ARRAY_DIMENSIONS"
FILL: Final = "_FillValue"
MISSING: Final = "missing_value"
_TEXT: Final = frozenset({"string", "fixed_length_utf32"})


class Xarray(Convention):
    """xarray and CF: names of dimensions, and fill values that mask."""

    name: ClassVar[str] = "xarray"

    def recognise(self, view: View) -> Recognised | None:
        """Arrays that bear `_ARRAY_DIMENSIONS`, or the names that netcdf-c gives them."""
        changes: dict[str, Change] = {}
        problems: list[Problem] = []
        masked = 0
        for node in view.archive.nodes:
            if not isinstance(node, ArrayNode) or node.layout is None:
                continue
            if DIMENSIONS not in node.attributes and view.archive.format != "zarr2":
                continue  # names of other formats are none of xarray's
            names = netcdf_names(node) or _names(node, problems)
            if names is None:
                continue
            mask = _mask(node, view.recipe.for_array(node.path), problems)
            masked += bool(mask.add)
            attributes = {key: value for key, value in node.attributes.items() if key != DIMENSIONS}
            if mask.add or mask.drop:
                attributes.pop(FILL, None)
            attributes.update(mask.add)
            # As JSON: to Python, `false` is 0 and 1 is 1.0.
            lost = FILL in node.attributes and (
                FILL not in attributes or canonical(attributes[FILL]) != canonical(node.attributes[FILL])
            )
            unnamed = node.attributes.get(DIMENSIONS) == [] and bool(names)
            replaced = [f"/{FILL}"] * lost + [f"/{DIMENSIONS}"] * unnamed
            changes[node.path] = Change(
                attributes=attributes, dimension_names=names, replaced=tuple(replaced)
            )
        if not changes and not problems:
            return None
        count = "1 array" if len(changes) == 1 else f"{len(changes)} arrays"
        summary = f"{count} with named dimensions, {masked} masked by a fill value"
        return Recognised(summary=summary, changes=changes, problems=tuple(problems))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mask:
    """What becomes of the attributes that mask."""

    add: Mapping[str, JSON] = field(default_factory=dict)
    drop: bool = False
    """The attribute `_FillValue` that is there goes: the array's fill value says the same."""


def _names(node: ArrayNode, problems: list[Problem]) -> tuple[str | None, ...] | None:
    """The names xarray sees; None where it sees none, and leaves the array alone.

    The attribute counts only if it is a list of one str or null per dimension; else it stays, with
    a warning. Names the layout has already (NCZarr writes both) win over it.
    """
    assert node.layout is not None
    present = node.layout.dimension_names
    if DIMENSIONS not in node.attributes:
        return present
    names = node.attributes[DIMENSIONS]
    ndim = len(node.layout.shape)
    if (
        not isinstance(names, list)
        or len(names) != ndim
        or any(not isinstance(name, str | None) for name in names)
    ):
        message = f"{DIMENSIONS} stays an attribute: it does not name the dimensions"
        expected = f"a list of {ndim} strings or nulls"
        problems.append(_warning(node, message, canonical(names)[:200], expected))
        return None
    if present is not None and any(name is not None for name in present) and present != tuple(names):
        message = f"{DIMENSIONS} stays an attribute: the array names its dimensions otherwise"
        problems.append(_warning(node, message, canonical(names)[:200], canonical(list(present))))
        return None
    return tuple(names)


def _mask(node: ArrayNode, recipe: ArrayRecipe, problems: list[Problem]) -> _Mask:
    """How xarray is told on v3 what to mask: what the fill value masked on v2."""
    assert node.layout is not None
    data_type = node.layout.data_type
    stated = node.attributes.get(FILL)
    if data_type.name == "object":
        return _Mask()
    if node.fill_is_null:
        return _Mask() if stated is None else _restated(stated, node, problems)
    fill = fill_from_json(node.layout.fill_value, data_type)
    if stated is not None and not _says(stated, fill):
        message = f"the attribute {FILL} gives way to the array's fill value, which xarray goes by"
        problems.append(_warning(node, message, excerpt(stated), excerpt(node.layout.fill_value)))
    if recipe.dtype is not None:
        wanted = parse_data_type(recipe.dtype)
        try:
            value = np.asarray(fill, dtype=data_type.numpy).reshape(1)
            data_type, fill = wanted, cast(value, wanted.numpy, recipe.casting)[0]
        except ZarrstackError:
            return _Mask()  # the plan refuses the array for it
    if data_type.name in _TEXT:
        return _text_mask(str(fill), node, problems)
    form = encoded(fill, data_type)
    if form is not None:
        return _Mask(add={FILL: form})
    if data_type.numpy.kind not in "mM":  # xarray 2026.9 masks no times
        problems.append(_unmasked(node, f"{data_type} values"))
    return _Mask(drop=True)


def encoded(value: Any, data_type: DataType) -> JSON:
    """A fill value as xarray's `_FillValue` on Zarr v3; None for types that it masks by no such attribute."""
    kind = "O" if data_type.name in ("string", "bytes") else data_type.numpy.kind
    if data_type.numpy.names is not None:
        return None
    if kind == "b":
        return bool(value)
    if kind in "iu":
        return int(value)
    if kind == "f":
        return _double(float(value))
    if kind == "c":
        return [_double(float(value.real)), _double(float(value.imag))]
    return None


def _double(value: float) -> str:
    return base64.standard_b64encode(struct.pack("<d", value)).decode("ascii")


def _says(stated: JSON, fill: Any) -> bool:
    """Whether the attribute that is there says what the fill value is, in whatever form."""
    if isinstance(stated, list) and len(stated) == 1:
        stated = stated[0]  # netcdf-c may write attributes of length one as lists
    if isinstance(fill, bytes | np.bytes_):
        return isinstance(stated, str) and stated.encode().rstrip(b"\0") == bytes(fill).rstrip(b"\0")
    if isinstance(stated, str) and not isinstance(fill, str | np.str_):
        stated = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}.get(stated)
    try:
        with np.errstate(over="raise"):  # a number that the type cannot hold is no value of it
            return bool(stated == fill) or bool(np.isnan(stated) and np.isnan(fill))
    except (TypeError, ValueError, ArithmeticError):
        return False


def _restated(stated: JSON, node: ArrayNode, problems: list[Problem]) -> _Mask:
    """The attribute `_FillValue` of an array without a fill value, in the form it has on v3."""
    assert node.layout is not None
    data_type = node.layout.data_type
    value = stated[0] if isinstance(stated, list) and len(stated) == 1 else stated
    if data_type.name in _TEXT and isinstance(value, str):
        return _text_mask(value, node, problems)
    try:
        with np.errstate(over="raise"):  # a number that the type cannot hold is not infinity
            form = encoded(np.asarray(value, dtype=data_type.numpy)[()], data_type)
    except (TypeError, ValueError, ArithmeticError):
        form = None
    if form is not None:
        return _Mask(add={FILL: form})
    message = f"xarray cannot open the result: the attribute {FILL} is no value of the array"
    advice = "Correct or remove the attribute."
    problems.append(_warning(node, message, excerpt(stated), str(data_type), advice))
    return _Mask()


def _text_mask(fill: str, node: ArrayNode, problems: list[Problem]) -> _Mask:
    """`missing_value`, where the source states a text that masks and says nothing else itself."""
    if not node.fill_is_null and not _fill_is_text(node):
        return _Mask(drop=True)
    stated = node.attributes.get(MISSING, fill)
    if stated != fill:
        problems.append(_unmasked(node, f"texts ({MISSING} says {excerpt(stated)})"))
        return _Mask(drop=True)
    return _Mask(add={MISSING: fill})


def _fill_is_text(node: ArrayNode) -> bool:
    """Whether the source's document states a text.

    zarr-python 2 states 0 for objects and text that were given no fill value (2.18.7): no text equals it.
    """
    for document in node.documents:
        try:
            content = json.loads(document.content)
        except ValueError:
            continue
        if isinstance(content, dict) and "fill_value" in content:
            return isinstance(content["fill_value"], str)
    return False


def _unmasked(node: ArrayNode, what: str) -> Problem:
    assert node.layout is not None
    message = f"xarray will show {what} that equal the fill value, which it masked before"
    return _warning(node, message, excerpt(node.layout.fill_value))


def _warning(
    node: ArrayNode, message: str, found: str, expected: str | None = None, advice: str | None = None
) -> Problem:
    return Problem(
        kind="convention",
        severity="warning",
        node=node.path,
        message=message,
        found=found,
        expected=expected,
        advice=advice,
    )

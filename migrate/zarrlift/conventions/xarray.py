"""xarray and CF: dimension names, and fill values that mask.

On Zarr v2, xarray stores dimension names in the attribute `_ARRAY_DIMENSIONS`, and masks values equal to the
array's fill value, unless that is null. On v3 it reads `dimension_names`, and masks only values equal to the
attribute `_FillValue`, which has a special form (`FillValueCoder`): floats are the base64 of a little-endian
double, complex numbers a pair of these, integers and booleans plain JSON. It cannot open an array whose
`_FillValue` has another form or another data type; text is masked by `missing_value`, which it reads
unchanged (xarray 2026.9.0, `xarray/backends/zarr.py`, `xarray/coding/variables.py`; observed with zarr 3.1.6
and 3.4.2). https://docs.xarray.dev/en/stable/internals/zarr-encoding-spec.html

Arrays without `_ARRAY_DIMENSIONS` may have axis names written by netcdf-c. NCZarr
(https://docs.unidata.ucar.edu/nug/current/nczarr_head.html) refers to dimensions by their full names,
`/group/t`, in the attribute `_nczarr_array`; the reader moves the member there that 4.9.0 to 4.9.2 store in
`.zarray`. In 4.9.0, arrays in groups have no other names. xarray uses the last part (2026.9.0,
`xarray/backends/zarr.py`).

A scalar is stored as one value along an axis that netCDF does not have: 4.9.0 names no axis, not even in
`_ARRAY_DIMENSIONS`, and xarray cannot open the array; 4.9.4 names it `_scalar_`. On Zarr v3 the values are
unchanged, and the axis has netcdf-c's present name.
"""

from __future__ import annotations

import base64
import json
import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

import numpy as np

from zarrstack.core.errors import Problem, ZarrstackError
from zarrstack.core.json_text import JSON, canonical, excerpt

from ..archive.nodes import ArrayNode
from ..core.data_types.cast import cast
from ..core.data_types.v3 import DataType, fill_from_json
from ..recipe.recipe import ArrayRecipe
from . import Change, Convention, Recognised, View, finding

DIMENSIONS: Final = "_ARRAY_DIMENSIONS"
_SCALAR: Final = ("_scalar_",)


def netcdf_names(node: ArrayNode) -> tuple[str, ...] | None:
    """The axis names of a Zarr v2 array by netcdf-c; None if xarray's are present, or if there are none."""
    assert node.layout is not None
    stated = node.attributes.get(DIMENSIONS)
    if node.layout.dimension_names is not None or (stated is not None and stated != []):
        return None
    shape = node.layout.shape
    references, scalar = _references(node)
    if shape == (1,) and (scalar or stated == []) and not references:
        return _SCALAR
    if references is None or len(references) != len(shape) or not shape:
        return None
    names = tuple(reference.rpartition("/")[2] for reference in references)
    # Dimensions of two groups with the same name would be indistinguishable.
    return names if all(names) and len({*names}) == len(names) else None


def _references(node: ArrayNode) -> tuple[list[str] | None, bool]:
    """The full names of the dimensions, None if absent; and whether the array is a scalar."""
    data = node.attributes.get("_nczarr_array")
    if not isinstance(data, dict):
        return None, False
    scalar = data.get("storage") == "scalar" or data.get("scalar") == 1
    return _texts(data.get("dimension_references")), scalar


def _texts(data: JSON) -> list[str] | None:
    return data if isinstance(data, list) and all(isinstance(item, str) for item in data) else None


FILL: Final = "_FillValue"
MISSING: Final = "missing_value"
_EXACT: Final = 1 << 53
"""Up to this number, integers beside floats in an array are unchanged."""
_STRING: Final = DataType("string")
_TEXT: Final = frozenset({"string", "fixed_length_utf32"})
_WORDS: Final = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


class Xarray(Convention):
    """xarray and CF: dimension names, and fill values that mask."""

    name: ClassVar[str] = "xarray"

    def recognise(self, view: View) -> Recognised | None:
        """Recognize arrays with `_ARRAY_DIMENSIONS` or with names by netcdf-c."""
        changes: dict[str, Change] = {}
        alike: dict[tuple[str | None, ...], tuple[str | None, ...]] = {}
        problems: list[Problem] = []
        masked = 0
        for node in view.archive.nodes:
            if not isinstance(node, ArrayNode) or node.layout is None:
                continue
            if DIMENSIONS not in node.attributes and view.archive.format != "zarr2":
                continue  # names in other formats are not xarray's
            names = netcdf_names(node) or _names(node, problems)
            if names is None:
                continue
            recipe = view.recipe.for_array(node.path)
            if recipe.dtype is not None and recipe.dtype != node.layout.data_type:
                problems.extend(_cast_problems(node, recipe, recipe.dtype))
            mask = _mask(node, recipe, problems)
            masked += bool(mask.add)
            attributes = {key: value for key, value in node.attributes.items() if key != DIMENSIONS}
            if mask.add or mask.drop:
                attributes.pop(FILL, None)
            attributes.update(mask.add)
            _remove_nan(attributes, node, problems)
            # Compared as JSON: in Python, `false` equals 0 and 1 equals 1.0.
            replaced = [
                f"/{name}"
                for name, value in node.attributes.items()
                if name in (FILL, MISSING)
                and (name not in attributes or canonical(attributes[name]) != canonical(value))
            ]
            if node.attributes.get(DIMENSIONS) == [] and names:
                replaced.append(f"/{DIMENSIONS}")
            changes[node.path] = Change(
                attributes=attributes,
                dimension_names=alike.setdefault(names, names),  # one object for all arrays with these
                replaced=tuple(replaced),
            )
        if not changes and not problems:
            return None
        count = "1 array" if len(changes) == 1 else f"{len(changes)} arrays"
        summary = f"{count} with named dimensions, {masked} masked by a fill value"
        return Recognised(summary=summary, changes=changes, problems=tuple(problems))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mask:
    """The changes of the attributes that mask."""

    add: Mapping[str, JSON] = field(default_factory=dict)
    drop: bool = False
    """Remove the existing attribute `_FillValue`, because the array's fill value is the same."""


def _names(node: ArrayNode, problems: list[Problem]) -> tuple[str | None, ...] | None:
    """The names that xarray reads; None if it finds none and the array is unchanged.

    The attribute is valid only if it is a list with one str or null per dimension; otherwise it is kept, with
    a warning. Names in the layout (NCZarr writes both) have priority.
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
        message = f"{DIMENSIONS} is kept as an attribute: it does not name the dimensions"
        expected = f"a list of {ndim} strings or nulls"
        problems.append(finding("warning", node.path, message, canonical(names)[:200], expected))
        return None
    if present is not None and any(name is not None for name in present) and present != tuple(names):
        message = f"{DIMENSIONS} is kept as an attribute: the array has other dimension names"
        problems.append(
            finding("warning", node.path, message, canonical(names)[:200], canonical(list(present)))
        )
        return None
    return tuple(names)


def _mask(node: ArrayNode, recipe: ArrayRecipe, problems: list[Problem]) -> _Mask:
    """The mask for xarray on v3 that corresponds to the v2 fill value."""
    assert node.layout is not None
    data_type = node.layout.data_type
    stated = node.attributes.get(FILL)
    if data_type.name == "object":
        value = node.layout.fill_value
        if recipe.objects != "json" and not node.fill_is_null and isinstance(value, str):
            return _text_mask(value, node, problems)
        return _Mask() if stated is None else _restated(stated, node, _STRING, problems)
    if node.fill_is_null:
        if stated is None:
            return _Mask(drop=True)  # on Zarr v3 xarray cannot open an array with null
        return _restated(stated, node, recipe.dtype or data_type, problems)
    fill = fill_from_json(node.layout.fill_value, data_type)
    if stated is not None and not _equals_fill(stated, fill):
        message = f"the attribute {FILL} is replaced by the array's fill value, which xarray uses"
        problems.append(
            finding("warning", node.path, message, excerpt(stated), excerpt(node.layout.fill_value))
        )
    if recipe.dtype is not None:
        try:
            value = np.asarray(fill, dtype=data_type.numpy).reshape(1)
            data_type, fill = recipe.dtype, cast(value, recipe.dtype.numpy, recipe.casting)[0]
        except ZarrstackError:
            return _Mask()  # the plan refuses the array for this reason
    if data_type.name in _TEXT:
        return _text_mask(str(fill), node, problems)
    form = encoded(fill, data_type)
    if isinstance(form, int) and data_type.numpy.kind == "u" and node.attributes.get("_Unsigned") == "false":
        form = int(fill.view(f"i{fill.itemsize}"))  # xarray makes this number one of the signed type
    if form is not None:
        return _Mask(add={FILL: form})
    if data_type.numpy.kind not in "mM":  # xarray 2026.9 does not mask times
        problems.append(_unmasked(node, f"{data_type} values"))
    return _Mask(drop=True)


def _cast_problems(node: ArrayNode, recipe: ArrayRecipe, data_type: DataType) -> Iterator[Problem]:
    """Refusals of casts after which xarray shows other values, or cannot open the array.

    `_Unsigned` makes numbers of the other sign of the stored ones, times are decoded from real numbers
    (xarray 2026.9.0, `UnsignedIntegerCoder`, `CFDatetimeCoder`). Clamped values may become those that mask.
    """
    assert node.layout is not None
    before = node.layout.data_type.numpy
    if (before.kind, node.attributes.get("_Unsigned")) in (("i", "true"), ("u", "false")):
        message = "the attribute _Unsigned gives the values another sign, which a cast would change"
        advice = "Keep the data type of this array in a recipe."
        yield finding(
            "refusal", node.path, message, str(data_type), str(node.layout.data_type), advice=advice
        )
    if " since " in str(node.attributes.get("units")) and data_type.numpy.kind not in "iuf":
        message = "xarray cannot decode times of this data type"
        yield finding("refusal", node.path, message, str(data_type), "integers or floats")
    if recipe.casting == "exact" or before.kind not in "iuf" or data_type.numpy.names is not None:
        return
    fill = () if node.fill_is_null else (fill_from_json(node.layout.fill_value, node.layout.data_type),)
    for value in (*fill, *_items(node.attributes.get(MISSING)), node.attributes.get(FILL)):
        number = _WORDS.get(value, value) if isinstance(value, str) else value
        if (
            isinstance(number, int | float | np.number)
            and not isinstance(number, bool)
            and not np.isnan(number)
        ):
            try:
                new = cast(np.array([number]), data_type.numpy, recipe.casting)[0]
            except ZarrstackError:
                continue
            if new != number:
                message = "a value that masks is changed by the cast: xarray masks other values than before"
                advice = "Choose a data type that has this value."
                yield finding("warning", node.path, message, str(number), str(new), advice=advice)
                return


def encoded(value: Any, data_type: DataType) -> JSON:
    """A fill value as xarray's `_FillValue` on Zarr v3; None for types without such an attribute."""
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


def _equals_fill(stated: JSON, fill: Any) -> bool:
    """Whether the existing attribute equals the fill value, in any form."""
    if isinstance(stated, list):
        if len(stated) != 1:
            return False
        stated = stated[0]  # netcdf-c may write attributes of length one as lists
    if isinstance(fill, bytes | np.bytes_):
        return isinstance(stated, str) and stated.encode().rstrip(b"\0") == bytes(fill).rstrip(b"\0")
    if isinstance(stated, str) and not isinstance(fill, str | np.str_):
        stated = _WORDS.get(stated)
    try:
        with np.errstate(over="raise"):  # a number outside the type's range is not a value of it
            return bool(stated == fill) or bool(np.isnan(stated) and np.isnan(fill))
    except (TypeError, ValueError, ArithmeticError):
        return False


def _restated(stated: JSON, node: ArrayNode, data_type: DataType, problems: list[Problem]) -> _Mask:
    """The mask by the attribute `_FillValue` of an array without a fill value; `data_type` is the result's.

    It is a value of that type in the v3 form, or the same attribute as `missing_value`, with which xarray
    shows on v3 what `_FillValue` made it show on v2 (2026.9.0, for each data type and kind of value).
    """
    value = stated[0] if isinstance(stated, list) and len(stated) == 1 else stated
    if data_type.name in _TEXT and isinstance(value, str):
        return _text_mask(value, node, problems)
    form = _exactly(value, data_type)
    if form is not None:
        return _Mask(add={FILL: form})
    existing = node.attributes.get(MISSING, stated)
    both = stated if canonical(existing) == canonical(stated) else _united(existing, stated)
    if both is None:
        message = f"the attribute {FILL} is removed: xarray cannot read it on Zarr v3, and {MISSING} differs"
        problems.append(finding("warning", node.path, message, excerpt(stated), excerpt(existing)))
        return _Mask(drop=True)
    message = f"the attribute {FILL} becomes {MISSING}: on Zarr v3 xarray cannot open an array with it"
    problems.append(finding("note", node.path, message, excerpt(stated), str(data_type)))
    return _Mask(add={MISSING: both}, drop=True)


def _remove_nan(attributes: dict[str, JSON], node: ArrayNode, problems: list[Problem]) -> None:
    """Remove NaN from `missing_value`, where it masks nothing.

    In strict JSON it is the text "NaN", with which xarray converts integers to floats, masks texts and, in a
    list, compares numbers as texts.
    """
    assert node.layout is not None
    value = attributes.get(MISSING)
    kept = [item for item in _items(value) if not (isinstance(item, float) and math.isnan(item))]
    single = not isinstance(value, list)
    if len(kept) == len(_items(value)) or (single and node.layout.data_type.numpy.kind in "fc"):
        return
    del attributes[MISSING]
    if kept:
        attributes[MISSING] = kept
    message = f"NaN, which masks nothing, is removed from {MISSING}"
    problems.append(finding("note", node.path, message, excerpt(value)))


def _items(value: JSON) -> list[JSON]:
    return value if isinstance(value, list) else [value]


def _united(*values: JSON) -> JSON:
    """A list that masks what each value of an attribute masks; None if numpy would convert some of them.

    xarray makes one array of a list, in which numbers beside texts would be texts.
    """
    items = [item for value in values for item in _items(value)]
    if all(isinstance(item, str) for item in items) or all(
        isinstance(item, int | float) and not isinstance(item, bool) and abs(item) <= _EXACT for item in items
    ):
        return list(dict.fromkeys(items))
    return None


def _exactly(value: JSON, data_type: DataType) -> JSON:
    """A JSON value as xarray's `_FillValue` on Zarr v3; None if it is not a value of the data type."""
    kind = data_type.numpy.kind
    number: Any = _WORDS.get(value, value) if isinstance(value, str) and kind in "fc" else value
    if isinstance(number, bool) != (kind == "b") or not isinstance(number, int | float):
        return None
    try:
        with np.errstate(over="raise"):  # a number outside the type's range is not infinity
            exact = np.asarray(number, dtype=data_type.numpy)[()]
    except (TypeError, ValueError, ArithmeticError):
        return None
    return None if kind in "iu" and exact != number else encoded(exact, data_type)


def _text_mask(fill: str, node: ArrayNode, problems: list[Problem]) -> _Mask:
    """`missing_value`, if the source's fill value is a text that masks and no such attribute exists."""
    if not node.fill_is_null and not _fill_is_text(node):
        return _Mask(drop=True)
    stated = node.attributes.get(MISSING, fill)
    if stated == fill:
        return _Mask(add={MISSING: fill})
    texts = [item for item in _items(stated) if isinstance(item, str)]
    both = list(dict.fromkeys([*texts, fill]))
    message = f"the fill value, which masks, is added to {MISSING}"
    problems.append(finding("note", node.path, message, excerpt(stated), excerpt(both)))
    return _Mask(add={MISSING: both}, drop=True)


def _fill_is_text(node: ArrayNode) -> bool:
    """Whether the fill value in the source's document is a text.

    zarr-python 2 writes 0 for objects and text without a fill value (2.18.7), which equals no text.
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
    message = f"xarray will show {what} equal to the fill value, which it masked before"
    return finding("warning", node.path, message, excerpt(node.layout.fill_value))

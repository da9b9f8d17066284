"""What every reader answers, whoever wrote it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest


class CannotRead(Exception):
    """The reader itself says that it does not support this array."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One array as a reader sees it."""

    reader: str
    dtype: str
    """The reader's own word for the data type."""
    values: npt.NDArray[Any]
    """Strings and bytes of variable length as an object array of str or bytes."""
    attributes: Mapping[str, Any] | None = field(default=None)
    """None where the reader does not show them."""
    fill: Any = None
    """A 0-d array or a str; None where the reader does not show it."""
    dimension_names: tuple[str | None, ...] | None = None


def parametrize_readers(names: Iterable[str]) -> pytest.MarkDecorator:
    """A test of every reader; all but zarr-python, which everyone has, are slow ones."""
    cases = []
    for name in names:
        marks = [pytest.mark.needs_reader(name), pytest.mark.slow]
        cases.append(pytest.param(name, marks=marks[: 1 + (name != "zarr-python")]))
    return pytest.mark.parametrize("reader", cases)


def plain(values: Any, shape: tuple[int, ...], dtype: np.dtype[Any] | None = None) -> npt.NDArray[Any]:
    """Values as an array: numpy's StringDType as objects, a bare scalar as the 0-d array it was.

    `dtype` is that of the array, which a bare str or bytes scalar no longer knows.
    """
    if not isinstance(values, np.ndarray) and (dtype is None or dtype.kind in "OT"):
        result: npt.NDArray[Any] = np.empty(shape, dtype=object)
        result[()] = values
        return result
    array = np.asarray(values, dtype=None if isinstance(values, np.ndarray) else dtype)
    return array.astype(object) if array.dtype.kind == "T" else array

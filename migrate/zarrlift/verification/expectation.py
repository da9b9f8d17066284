"""What the result must contain for given source values, and the problem where it does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from zarrstack.core.errors import Problem, ZarrstackError

from ..core.data_types.compare import Values, kind, matches_json_text, mismatch, region_text, shown
from ..core.data_types.object_values import may_be_anything
from ..core.problems import refusal
from .documents import VARIABLE
from .regions import Region, first_coordinates
from .zarr_python_reader import words

if TYPE_CHECKING:
    from ..archive.nodes import Layout
    from ..core.data_types.cast import Casting
    from .results import Result

KeyOf: TypeAlias = Callable[[tuple[int, ...]], str]
"""Gives the key of the destination's object that contains the element at given coordinates."""


class Expectation:
    """The values to be found for given source values, after the changes of the recipe."""

    def __init__(
        self,
        layout: Layout,
        result: Result,
        *,
        casting: Casting,
        objects: Literal["refuse", "json"],
    ) -> None:
        source, target = layout.data_type, result.dtype
        self._tagged = may_be_anything(layout.chain.codecs[layout.chain.middle].name)
        mine, theirs = VARIABLE.get(source.name), VARIABLE.get(result.type_name)
        to_text = theirs == "string" and mine != "string"
        self._texts = to_text and objects == "json"
        self._blank = to_text and objects != "json"
        self._casting: Casting | None = casting
        if to_text or (mine is not None and mine == theirs) or kind(source.numpy) == kind(target):
            self._casting = None
        self._target = target

    def missing(self, fill: Values) -> Values:
        """The expected values of a missing chunk with this fill value.

        Object arrays without a fill value have 0, which is not text and becomes the empty string.
        """
        if self._blank and fill.size and not isinstance(fill.flat[0], str):
            return np.broadcast_to(np.array("", dtype=object), fill.shape)
        return fill

    def compare(
        self, found: Values | Exception, values: Values, path: str, key: KeyOf, region: Region
    ) -> list[Problem]:
        """Compare found with source values; returns no problem or one."""
        if isinstance(found, Exception):
            return [
                refusal(
                    "verify-unreadable",
                    f"zarr-python cannot read {region_text(region)}",
                    node=path,
                    key=key(first_coordinates(region)),
                    found=words(found),
                )
            ]
        if self._texts:
            return self._compare_texts(found, values, path, key(first_coordinates(region)), region)
        if self._casting is not None:
            from ..core.data_types.cast import cast

            try:
                values = cast(values, self._target, self._casting)
            except ZarrstackError as error:
                return [error.at(node=path, key=key(first_coordinates(region))).problem]
        differs = mismatch(found, values)
        if differs is None:
            return []
        if len(differs.index) != len(region):  # shapes or types differ
            return [
                value_problem(path, key(first_coordinates(region)), region, differs.found, differs.expected)
            ]
        place = tuple(axis.start + offset for axis, offset in zip(region, differs.index, strict=True))
        where = f"at {list(place)}"
        if differs.count > 1:
            where = f"{differs.count} of them, first {where}"
        return [value_problem(path, key(place), region, differs.found, differs.expected, where)]

    def _compare_texts(
        self, found: Values, values: Values, path: str, key: str, region: tuple[slice, ...]
    ) -> list[Problem]:
        """Compare for `--set objects=json`, which stores every value as its JSON text."""
        texts = found.astype(object).reshape(-1)
        wrong = [
            (text, value)
            for text, value in zip(texts, values.reshape(-1), strict=True)
            if not matches_json_text(text, value, tagged=self._tagged)
        ]
        if not wrong:
            return []
        text, value = wrong[0]
        where = f"in {len(wrong)} places"
        return [value_problem(path, key, region, shown(text), f"JSON text of {shown(value)}", where)]


def value_problem(
    path: str, key: str, region: tuple[slice, ...], found: str, expected: str, where: str = ""
) -> Problem:
    """The problem for a region whose values differ."""
    place = f" ({where})" if where else ""
    message = f"values differ in {region_text(region)}{place}"
    return refusal("verify-values", message, node=path, key=key, found=found, expected=expected)

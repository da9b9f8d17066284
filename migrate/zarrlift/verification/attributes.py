"""Checks a node's attributes after a migration, including that no value of the source is lost.

There are three checks; the second and third are independent of the code that makes the changes. First, the
conventions are applied again to the unchanged source. Second, every value in the source's attributes is
searched for in the result. Third, `conventions` checks the requirements of zarrlift's own conventions against
the result's document.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from zarrstack.core.json_text import JSON, JSONObject, canonical


def strict(value: JSON) -> JSON:
    """A JSON value with non-finite numbers as the strings "NaN", "Infinity" and "-Infinity"."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, list | tuple):
        return [strict(item) for item in value]
    if isinstance(value, dict):
        return {name: strict(item) for name, item in value.items()}
    return value


def attribute_differences(found: JSON, expected: JSON) -> list[tuple[str, tuple[str, str]]]:
    """Names of attributes that differ, with the found and expected values as JSON text."""
    result = []
    for name in sorted(found.keys() | expected.keys()):
        mine = canonical(found[name]) if name in found else "nothing"
        theirs = canonical(expected[name]) if name in expected else "nothing"
        if mine != theirs:
            result.append((name, (mine, theirs)))
    return result


def lost_values(
    source: Mapping[str, JSON],
    result: JSONObject,
    names: Sequence[str | None] | None,
    ndim: int | None,
    replaced: Sequence[str],
) -> list[tuple[str, str]]:
    """(JSON pointer, value) of each value in the source's attributes that the result does not contain.

    Values are compared without their locations, and counted: a value that occurs twice must occur twice in
    the result. `names` are the result's dimension names, which attributes may have become; `ndim` is None for
    a group. `replaced` are the locations whose values a convention has replaced.
    """
    here = Counter(text for _, text in _leaves(result, ""))
    if ndim is not None:
        labels = list(names) if names is not None else [None] * ndim
        here.update(text for _, text in _leaves(labels, ""))
    lost = []
    for place, text in _leaves(dict(source), "") if source else ():
        if any(place == other or place.startswith(f"{other}/") for other in replaced):
            continue
        if here[text]:
            here[text] -= 1
        else:
            lost.append((place, text))
    return lost


def _leaves(value: JSON, place: str) -> Iterator[tuple[str, str]]:
    """JSON pointer and text of every leaf value; empty lists and objects count as leaves."""
    if isinstance(value, dict) and value:
        for name, item in value.items():
            yield from _leaves(item, f"{place}/{name.replace('~', '~0').replace('/', '~1')}")
    elif isinstance(value, list | tuple) and value:
        for index, item in enumerate(value):
            yield from _leaves(item, f"{place}/{index}")
    else:
        yield place, canonical(value)

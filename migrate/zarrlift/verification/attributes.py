"""What a node's attributes must be after a migration, and whether anything of the source's is lost.

Three looks, of which the second and third know nothing of the code that makes the change: the
conventions are asked again, of the source as it lies; every value that the source's attributes hold
is looked for in the result; and `witnesses` hold what zarrlift's own conventions say against the
result's document.
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
    """Names of attributes that differ, with what was found and what was expected as JSON text."""
    result = []
    for name in sorted(found.keys() | expected.keys()):
        mine = canonical(found[name]) if name in found else "nothing"
        theirs = canonical(expected[name]) if name in expected else "nothing"
        if mine != theirs:
            result.append((name, (mine, theirs)))
    return result


def lost_values(
    source: Mapping[str, JSON],
    found: JSONObject,
    names: Sequence[str | None] | None,
    ndim: int | None,
    replaced: Sequence[str],
) -> list[tuple[str, str]]:
    """(place, value) of each value of the source's attributes that the result does not hold.

    Values are compared, not their places, and counted: what stood there twice must be there twice.
    `names` are the result's dimension names, which attributes may have become; `ndim` is None for a
    group. `replaced` are the places that a convention says something else stands for.
    """
    here = Counter(text for _, text in _leaves(found, ""))
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
    """JSON pointer and text of every value that holds no other; empty lists and objects count."""
    if isinstance(value, dict) and value:
        for name, item in value.items():
            yield from _leaves(item, f"{place}/{name.replace('~', '~0').replace('/', '~1')}")
    elif isinstance(value, list | tuple) and value:
        for index, item in enumerate(value):
            yield from _leaves(item, f"{place}/{index}")
    else:
        yield place, canonical(value)

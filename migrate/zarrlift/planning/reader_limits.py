"""Who can read a result, and warnings about limits; `zarrlift.core.chain.reader_table` has the facts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from zarrstack.core.errors import Problem
from zarrstack.core.json_text import JSON, JSONObject, excerpt

from ..archive.nodes import Layout
from ..core.chain.reader_table import (
    EVERY_COPY,
    HALF_A_PAIR,
    INDEX_AT_START,
    LATER,
    ONE_TWICE,
    SEVERAL_STREAMS,
    Reading,
    Row,
    attribute_features,
    codecs,
    data_types,
    features,
    head_features,
    reading,
    type_name,
)
from ..core.codec_table import READERS, SEVERAL
from ..core.identity_cache import IdentityCache
from ..core.problems import warning
from .plans import ArrayPlan
from .zarr_json import array_head

_ESCAPE: Final = re.compile(rb"\\u[dD]")
"""The JSON escape of a surrogate; a document without one needs no further check."""


def readings(arrays: Iterable[ArrayPlan]) -> Iterator[tuple[ArrayPlan, Reading]]:
    """Each array of a plan with the readers that read its result, and those that do not."""
    head = IdentityCache(_layout_features)
    alone = IdentityCache(lambda layout: reading(_layout_features(layout)))
    for array in arrays:
        if array.source.opaque:  # not described, so it is unknown who reads it
            yield array, Reading(able=(), unable={})
        elif attributes := array.document.get("attributes"):
            yield array, reading((*head(array.destination), *attribute_features(attributes)))
        else:
            yield array, alone(array.destination)


def _layout_features(layout: Layout) -> tuple[str, ...]:
    names = head_features(array_head(layout))
    several = any(spec.name in SEVERAL.values() for spec in layout.chain.codecs)
    return (*names, SEVERAL_STREAMS) if several else names


def codec_problems(layout: Layout) -> list[Problem]:
    """Warnings with the readers that do not support a result's codecs or data type, or misread it."""
    rows: list[tuple[str, Row]] = []
    if (row := data_types().get(type_name(layout.data_type.name))) is not None:
        rows.append((f"data type {row.name}", row))
    for spec in layout.chain.codecs:
        if (row := codecs().get(spec.name)) is not None and all(other is not row for _, other in rows):
            rows.append((f"codec {row.name}", row))
    reasons = [(what, row) for what, row in rows if row.readers != EVERY_COPY]
    misread = list(_misread(layout))
    if not reasons:
        return misread
    able = [reader for reader in EVERY_COPY if all(reader in row.readers for _, row in reasons)]
    unable = [reader for reader in EVERY_COPY if reader not in able]
    return [
        warning(
            "readers",
            f"{' and '.join(unable)} cannot read the result",
            found=", ".join(what for what, _ in reasons),
            expected=f"readable by {' and '.join(able)}" if able else _later([what for what, _ in reasons]),
        ),
        *misread,
    ]


def _later(reasons: Sequence[str]) -> str | None:
    """The later versions that read a result, if they read all of these features."""
    later = [LATER.get(what) for what in reasons]
    return None if None in later else f"readable by {later[-1]}"


def _misread(layout: Layout) -> Iterator[Problem]:
    """Warnings about readers that show other values, without an error."""
    rows = {name: features()[name] for name in _layout_features(layout) if name in features()}
    for reader in READERS:
        wrong = [name for name, row in rows.items() if reader in row.misread_by]
        if wrong and not any(reader in row.refused_by for row in rows.values()):
            yield warning(
                "readers",
                f"{reader} shows other values, without an error",
                found=", ".join(wrong),
                advice="With --set shard-index-location=end, it reads the result."
                if wrong == [INDEX_AT_START]
                else f"Do not open the array with {reader}.",
            )


def reader_problems(document: JSONObject, contents: Iterable[bytes]) -> list[Problem]:
    """Warnings about a node's new document; `contents` are the legacy documents from which it was made."""
    problems = []
    names = document.get("dimension_names")
    if names and (twice := sorted({name for name in names if name and names.count(name) > 1})):
        problems.append(
            warning(
                "readers",
                f"{_unable(ONE_TWICE)} cannot read the result: a dimension name is used twice",
                found=excerpt(twice),
                expected="each name once",
                advice="Correct the names, or use --conventions none to leave them among the attributes.",
            )
        )
    escaped = any(map(_ESCAPE.search, contents))
    if escaped and (place := _half_a_pair(document.get("attributes"), "attributes")) is not None:
        problems.append(
            warning(
                "readers",
                f"{_unable(HALF_A_PAIR)} cannot read the result: "
                "an attribute has text with half of a surrogate pair",
                found=place,
                expected="text that UTF-8 can hold",
                advice="Correct the attribute.",
            )
        )
    return problems


def _unable(feature: str) -> str:
    return " and ".join(features()[feature].unable)


def _half_a_pair(value: JSON, place: str) -> str | None:
    """Location of a text with a lone surrogate, including names of members; None if there is none."""
    if isinstance(value, str):
        return None if _is_unicode(value) else place
    if isinstance(value, dict):
        for name, item in value.items():
            inner = f"{place}.{name}" if _is_unicode(name) else None
            if inner is None:
                return f"{place}, {excerpt(name)}"
            if (location := _half_a_pair(item, inner)) is not None:
                return location
    if isinstance(value, list | tuple):
        for index, item in enumerate(value):
            if (location := _half_a_pair(item, f"{place}[{index}]")) is not None:
                return location
    return None


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True

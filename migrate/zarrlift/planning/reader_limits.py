"""Limits of some readers, reported in the plan; `zarrlift.core.chain.reader_table` has the facts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from zarrstack.core.errors import Problem
from zarrstack.core.json_text import JSON, JSONObject, excerpt

from ..archive.nodes import Layout
from ..core.chain.reader_table import (
    HALF_A_PAIR,
    MISREAD,
    ONE_TWICE,
    Row,
    codecs,
    data_types,
    head_features,
    readers,
    table,
)
from ..core.problems import warning
from .zarr_json import array_head

_ESCAPE: Final = b"\\ud"
"""JSON escape of a surrogate; a document without it needs no further check."""


def codec_problems(layout: Layout) -> list[Problem]:
    """Warnings with the readers that do not support a result's codecs or data type, or misread it."""
    rows: list[tuple[str, Row]] = []
    if (row := data_types().get(layout.data_type.name)) is not None:
        rows.append((f"data type {row.name}", row))
    for spec in layout.chain.codecs:
        if (row := codecs().get(spec.name)) is not None and all(other is not row for _, other in rows):
            rows.append((f"codec {row.name}", row))
    reasons = [(what, row) for what, row in rows if row.strangers]
    misread = list(_misread(layout))
    if not reasons:
        return misread
    strange = {reader for _, row in reasons for reader in row.strangers}
    unable = [reader for reader in readers() if reader in strange]
    able = [reader for _, row in reasons[:1] for reader in row.readers if reader not in unable]
    return [
        warning(
            "readers",
            f"{' and '.join(unable)} cannot read the result",
            found=", ".join(what for what, _ in reasons),
            expected=f"readable by {' and '.join(able)}",
        ),
        *misread,
    ]


def _misread(layout: Layout) -> Iterator[Problem]:
    """Warnings about readers that show other values, without an error."""
    features = head_features(array_head(layout))
    for reader in table().current:
        wrong = [name for name in features if reader.refuses.get(name) == MISREAD]
        if wrong and reader.built_on is None:
            yield warning(
                "readers",
                f"{reader} shows other values, without an error",
                found=", ".join(wrong),
                advice=f"With --for {reader.name}, the result avoids this, or is refused.",
            )


def reader_problems(document: JSONObject, contents: Sequence[bytes]) -> Iterator[Problem]:
    """Warnings about a node's new document; `contents` are the legacy documents from which it was made."""
    names = [name for name in document.get("dimension_names") or () if name is not None]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        yield warning(
            "readers",
            f"{table().unable(ONE_TWICE)} cannot read the result: a dimension name is used twice",
            found=excerpt(twice),
            expected="each name once",
            advice="Correct the names, or use --conventions none to leave them among the attributes.",
        )
    if any(_ESCAPE in content.lower() for content in contents):
        place = _half_a_pair(document.get("attributes"), "attributes")
        if place is not None:
            yield warning(
                "readers",
                f"{table().unable(HALF_A_PAIR)} cannot read the result: "
                "an attribute has text with half of a surrogate pair",
                found=place,
                expected="text that UTF-8 can hold",
                advice="Correct the attribute.",
            )


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

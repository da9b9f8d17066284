"""The output of `zarrlift list readers`: who reads what, as a table of text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from zarrstack.core.errors import UsageError
from zarrstack.core.json_text import JSONObject

from ..core.chain.reader_table import Reader, Table, table
from ..jobs.units import count_text, safe
from . import blocks as b

_WORDS: Final = {True: "yes", False: "no", None: "?"}
_LETTERS: Final = {True: "y", False: "n", None: "?"}
_WIDE: Final = 3
"""Maximum number of readers with a column under their name; more are numbered."""


def blocks(readers: tuple[Reader, ...], features: tuple[str, ...]) -> Iterator[b.Block]:
    """Features by reader, and what a reader said about each, if there is only one."""
    whole = table()
    own = tuple(reader for reader in readers if reader.built_on is None) or readers
    numbers = {reader: str(number) for number, reader in enumerate(own, 1)} if len(own) > _WIDE else {}
    for reader in readers:
        number = f"{numbers[reader]:>2}  " if reader in numbers else ""
        yield b.Text(f"{number}{reader}: {evidence(reader)}", hang=4)
    columns = [b.Column(title=numbers.get(reader, str(reader))) for reader in own]
    if len(own) == 1:
        columns.append(b.Column(title="what it says", wraps=True))
    answers = _LETTERS if numbers else _WORDS
    for group, names in whole.features.items():
        rows = [
            (
                label(name, group),
                *(answers[reader.answer(name)] for reader in own),
                *((safe(own[0].refuses.get(name, "")),) if len(own) == 1 else ()),
            )
            for name in names
            if name in features
        ]
        yield b.Section()
        yield b.Table(columns=(b.Column(title=group), *columns), items=rows, row=tuple, indent=0)
    tested, cells = whole.cells
    yield b.Section()
    letters = "y: yes, n: no, ?: not known. " if numbers else ""
    yield b.Text(f"{letters}{count_text(tested)} of {count_text(cells)} cells are tested.")


def label(feature: str, group: str) -> str:
    """A feature without the words that its group has."""
    return (
        feature.removeprefix(f"{group}: ")
        .removeprefix(f"{group.removesuffix('s')} ")
        .removeprefix(f"{group.removesuffix('s')}: ")
    )


def evidence(reader: Reader) -> str:
    """Where a reader's answers come from."""
    if reader.built_on is not None:
        return f"reads with {reader.built_on}"
    words = f"tested on {reader.tested}" if reader.tested else f"read about, {reader.source}"
    return f"{words}. {reader.note}" if reader.note else words


def chosen(names: str | None, part: str | None) -> tuple[tuple[Reader, ...], tuple[str, ...]]:
    """The readers and features that a request names; UsageError if it names none."""
    whole = table()
    readers = whole.readers if names is None else tuple(map(whole.named, names.split(",")))
    features = tuple(name for group in whole.features.values() for name in group)
    if part is not None:
        groups = {name: group for group, names_ in whole.features.items() for name in names_}
        features = tuple(name for name in features if part in name or part in groups[name])
        if not features:
            raise UsageError(
                "no feature has this in its name",
                found=part,
                expected="such as zstd, int64, shards, dimension names",
            )
    return readers, features


def data(readers: tuple[Reader, ...], features: tuple[str, ...]) -> JSONObject:
    """The same as JSON."""
    whole: Table = table()
    tested, cells = whole.cells
    return {
        "features": {
            group: selection
            for group, names in whole.features.items()
            if (selection := [name for name in names if name in features])
        },
        "readers": [
            {
                "name": reader.name,
                "version": reader.version or None,
                "tested": reader.tested,
                "source": reader.source,
                "note": reader.note,
                "built_on": reader.built_on,
                "yes": [name for name in features if name in reader.reads],
                "no": {name: reader.refuses[name] for name in features if name in reader.refuses},
            }
            for reader in readers
        ],
        "cells_tested": tested,
        "cells": cells,
    }

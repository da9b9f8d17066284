"""The order in which changes that wait are stored, so that a crash between two of them loses nothing.

Documents come after the values that they describe, those of arrays before those of the groups above. Only the
chunks that a smaller shape removes are removed after the document with that shape: zarr-python removes them
first, and would lose them if it stopped there.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby

from ...base.array_documents import is_document, parse
from ...base.chunks import DOCUMENTS, ArrayChunks
from ...core.paths import ancestors


def steps(
    changes: Mapping[str, bytes | None], documents: Mapping[str, bytes]
) -> tuple[set[str], list[set[str]], set[str]]:
    """The keys of these changes in their order: before the documents, the documents, and after them.

    `documents` are all that wait, also those above the changes.
    """
    shapes = _shapes(documents)
    last = {
        key
        for key, value in changes.items()
        if value is None and not is_document(key) and _is_outside(key, shapes)
    }
    own = [key for key in changes if is_document(key)]
    own.sort(key=_rank)
    first = set(changes) - set(own) - last
    return first, [set(keys) for _, keys in groupby(own, key=_rank)], last


def _rank(key: str) -> tuple[int, bool]:
    return -key.count("/"), key.endswith(".zmetadata")


def _shapes(documents: Mapping[str, bytes]) -> dict[str, ArrayChunks | None]:
    """The arrays whose documents wait, by path; None for one with a grid that is not known here."""
    shapes = {}
    for key, content in documents.items():
        path, _, name = key.rpartition("/")
        document = parse(content) if name in DOCUMENTS else None
        if document is not None and "shape" in document:
            shapes[path] = ArrayChunks.of(path, document)
    return shapes


def _is_outside(key: str, shapes: Mapping[str, ArrayChunks | None]) -> bool:
    """Whether a key may be a chunk that its array no longer has according to the document that waits."""
    for path in ancestors(key):
        if path in shapes:
            array = shapes[path]
            return array is None or array.outside(key)
    return False

"""Sorts the documents at a destination into those of the job and those that others have changed, for `undo`.

Where a document stays, all chunks of its array stay: without them readers would see fill values.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Self

from zarrstack.core.errors import Problem
from zarrstack.core.paths import join

from ..planning.plans import Plan, Published
from ..storage.base import Storage
from .ledger.ledger import Job
from .outcome_of_job import kept
from .own_documents import is_own

_BATCH: Final = 500
"""Number of documents read at a time."""


@dataclass(frozen=True, slots=True)
class PresentDocuments:
    """The `zarr.json` documents that exist at a destination."""

    own: tuple[str, ...]
    """Paths of the nodes with a document of the job, sorted."""
    changed: Mapping[str, AbstractSet[str]]
    """By path of a node whose document others have changed: the arrays in its consolidated metadata."""
    arrays: AbstractSet[str]
    """Paths of all arrays of the job."""

    @classmethod
    def of(cls, job: Job, plan: Plan, storage: Storage) -> Self:
        """Read the document of each node of the job; StorageError."""
        arrays = {array.path for array in plan.arrays}
        own: list[str] = []
        changed: dict[str, AbstractSet[str]] = {}
        nodes = plan.published
        for start in range(0, len(nodes), _BATCH):
            batch = nodes[start : start + _BATCH]
            contents = storage.find_many([join(node.path, "zarr.json") for node in batch])
            for node, content in zip(batch, contents, strict=True):
                if content is None:
                    continue
                if _is_own(job, node, content):
                    own.append(node.path)
                else:
                    changed[node.path] = {join(node.path, name) for name in _consolidated(content)} & arrays
        return cls(tuple(own), changed, arrays)

    @property
    def kept(self) -> AbstractSet[str]:
        """Paths of the nodes that remain visible, in their own document or in consolidated metadata."""
        return {*self.changed, *(path for arrays in self.changed.values() for path in arrays)}

    @property
    def removable(self) -> tuple[str, ...]:
        """Paths of the nodes whose document may be deleted, sorted."""
        remaining = self.kept
        return tuple(path for path in self.own if path not in remaining)

    def problems(self) -> Iterator[Problem]:
        """A refusal for each document that others have changed."""
        for path, arrays in self.changed.items():
            what = "so it is kept"
            if path in self.arrays:
                what = "so it is kept with all chunks of its array"
            elif arrays:
                what = f"so it is kept with the arrays in its consolidated metadata ({len(arrays)})"
            yield kept(
                f"changed after the job wrote it, {what}",
                path,
                join(path, "zarr.json"),
                "If it is not needed, delete it yourself.",
            )


def _is_own(job: Job, node: Published, content: bytes) -> bool:
    """Whether a document is the job's, or one of the job to which only consolidated metadata were added."""
    if is_own(job, node, content):
        return True
    with suppress(ValueError):
        present = json.loads(content)
        if isinstance(present, dict) and "consolidated_metadata" in present:
            planned = {**node.document, "consolidated_metadata": None}
            return {**present, "consolidated_metadata": None} == planned
    return False


def _consolidated(content: bytes) -> Iterator[str]:
    """Paths of the nodes in the consolidated metadata of a document, relative to its node."""
    with suppress(ValueError, AttributeError, TypeError, KeyError):
        yield from json.loads(content)["consolidated_metadata"]["metadata"]

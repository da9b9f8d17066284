"""The metadata documents of a source, to show beside those that a plan writes."""

from __future__ import annotations

import json
from typing import Any

from zarrstack.core.json_text import JSON

from ..errors import SourceChangedError
from ..planning.array_planner import digest
from ..planning.plans import Plan
from ..recipe.signatures import given
from ..storage.open_storage import Place
from .archive_run import ArchiveRequest


def source_documents(plan: Plan, source: Place, destination: Place | None, **options: Any) -> dict[str, JSON]:
    """The documents from which a plan was made, by key; text if one is not JSON.

    The other arguments are those of `plan`. SourceChangedError if one has changed since; StorageError.
    """
    named = {"source": source, "destination": destination}
    storage = given({**options, **named}, ArchiveRequest).open().source
    digests = dict(plan.source_digests)
    for node in plan.published:
        digests |= dict(node.source_digests)
    documents: dict[str, JSON] = {}
    for key, content in zip(digests, storage.find_many(list(digests)), strict=True):
        if content is None or digest(content) != digests[key]:
            raise SourceChangedError("the document has changed", key=key, advice="Run the command again.")
        text = content.decode("utf-8", "replace")
        try:
            documents[key] = json.loads(text)
        except (ValueError, RecursionError):
            documents[key] = text
    return documents

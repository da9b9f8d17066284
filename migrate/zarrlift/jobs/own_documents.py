"""Tells which `zarr.json` at a destination a job has written."""

from __future__ import annotations

from zarrstack.core.json_text import document

from ..planning.array_planner import digest
from ..planning.plans import Planned, Published, Refusal
from .ledger.ledger import Job
from .ledger.rows import NodeRow


def is_current(job: Job, node: Published, content: bytes) -> bool:
    """Whether this is the document that the job has published for a node.

    That of the root depends on the work done so far, if it has consolidated metadata or a digest.
    """
    if content == document(node.document):
        return True
    return not node.path and digest(content) == job.fact("root_document")


def is_own(job: Job, node: Published, content: bytes) -> bool:
    """Whether the job has written this document of a node, now or before an update that was interrupted."""
    return is_current(job, node, content) or job.documents.has(node.path, digest(content))


def note_root_document(job: Job, expected: str) -> None:
    """Record the digest of the root document that is about to be written; the earlier one stays the job's."""
    earlier = job.fact("root_document")
    if earlier is not None:
        job.documents.add("", earlier)
    job.note(root_document=expected)
    job.commit(now=True)


def keep_document(job: Job, row: NodeRow, earlier: Planned) -> None:
    """Record the document of an earlier plan, which may be at the destination until the new one is."""
    if isinstance(earlier, Refusal):
        return
    if row.state == "done":
        job.documents.forget(row.path)
    job.documents.add(row.path, digest(document(earlier.document)))

"""Whether a migration kept everything: the checks of a job, and `verify` for two archives.

The parts: `verifying_documents` (a `zarr.json` against its plan), `verifying_sample` (which
chunks), `verifying_chunks` (chunks of a job), `verifying_codecs` (our codecs against
numcodecs), `verifying_archives` (two whole archives), `verifying_report` (what was found).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .archive import Format
from .recipe import Recipe
from .verifying_archives import Watcher, verify_archives
from .verifying_chunks import compare_chunks
from .verifying_codecs import recheck_decoded
from .verifying_documents import document_problems
from .verifying_report import VerificationReport
from .verifying_sample import Sampler

if TYPE_CHECKING:
    from .places import Place

__all__ = [
    "Sampler",
    "VerificationReport",
    "compare_chunks",
    "document_problems",
    "recheck_decoded",
    "verify",
    "verify_archives",
]


def verify(
    source: Place,
    destination: Place,
    *,
    full: bool = False,
    recipe: Recipe | None = None,
    format: Format | None = None,  # noqa: A002 - the word users know
    storage_options: Mapping[str, Any] | None = None,
    dest_storage_options: Mapping[str, Any] | None = None,
    follow_links: bool = False,
    progress: Watcher | None = None,
) -> VerificationReport:
    """Compare a legacy archive with its Zarr v3 counterpart; see `verify_archives`.

    `source` and `destination` may be the same place (work in place). Without `full`, the first, the
    last, an edge, a missing and some random chunks of every array are compared. Raises UsageError if
    there is no archive, StorageError where listing fails; differences are in the report.
    """
    from .formats import read_archive
    from .places import open_storage

    first = open_storage(source, storage_options=storage_options, follow_links=follow_links)
    second = open_storage(destination, storage_options=dest_storage_options, follow_links=follow_links)
    archive = read_archive(first, format=format, follow_links=follow_links)
    return verify_archives(archive, first, second, full=full, recipe=recipe, progress=progress)

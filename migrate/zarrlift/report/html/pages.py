"""The pages on a job and a batch, and results as notebooks show them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zarrstack.core.units import count_text

from ...jobs.ledger.ledger import Job
from ...jobs.outcome import Outcome
from ...recipe.options import Places
from .. import batch, outcome
from .. import blocks as b
from .. import status as report_status
from ..shown import shown
from .pictures import Pictures, pictures_of_job
from .rendering import notebook, page, write_page

if TYPE_CHECKING:
    from ...jobs.batch.rows import BatchOutcome
    from ...jobs.status import Status


def notebook_html(result: object) -> str:
    """A fragment of HTML without scripts and requests, whose size is bounded."""
    blocks = outcome.notebook_blocks(result) if isinstance(result, Outcome) else shown("blocks", result)
    return notebook(blocks, type(result).__name__)


def write_job_page(status: Status, html: str, path: Path, places: Mapping[str, Any] | None) -> None:
    """Write the page on a job; `places` are the storage options for its pictures, None for no pictures."""
    pictures = Pictures()
    if places is not None:
        with Job.open(path, write=False) as job:
            pictures = pictures_of_job(job, Places(**places))
    write_page(html, job_page(status, pictures))


def job_page(status: Status, pictures: Pictures) -> str:
    """The page on what a job did to one archive."""
    before = (b.Section(title="Pictures", on="pages"), pictures)
    name = status.source.rstrip("/").rpartition("/")[2] or status.source
    return page(report_status.blocks(status, verbose=True, before=before), title=name)


def write_batch_page(outcome: BatchOutcome, html: str) -> None:
    """Write the page on a batch."""
    write_page(html, page(batch.blocks(outcome), title=count_text(len(outcome.rows), "archive")))

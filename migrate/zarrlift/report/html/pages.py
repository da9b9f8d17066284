"""The pages on a job and a batch, and results as notebooks show them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zarrstack.core.units import count_text

from ...jobs.ledger.ledger import Job
from ...jobs.outcome import Outcome
from ...recipe.options import Places
from .. import batch, job_report, outcome
from .. import blocks as b
from ..shown import shown
from .pictures import Pictures, pictures_of_job
from .rendering import notebook, page, write_page

if TYPE_CHECKING:
    from ...jobs.batch.rows import BatchOutcome
    from ...jobs.job_report import JobReport


def notebook_html(result: object) -> str:
    """A fragment of HTML without scripts and requests, whose size is bounded."""
    blocks = outcome.notebook_blocks(result) if isinstance(result, Outcome) else shown("blocks", result)
    return notebook(blocks, type(result).__name__)


def write_job_page(report: JobReport, html: str, path: Path, places: Mapping[str, Any] | None) -> None:
    """Write the page on a job; `places` are the storage options for its pictures, None for no pictures."""
    pictures = Pictures()
    if places is not None:
        with Job.open(path, write=False) as job:
            pictures = pictures_of_job(job, Places(**places))
    write_page(html, job_page(report, pictures))


def job_page(report: JobReport, pictures: Pictures) -> str:
    """The page on what a job did to one archive."""
    before = (b.Section(title="Pictures", on="pages"), b.Summary(_sentence(report)), pictures)
    name = report.source.rstrip("/").rpartition("/")[2] or report.source
    return page(job_report.blocks(report, before=before), title=name)


def write_batch_page(outcome: BatchOutcome, html: str) -> None:
    """Write the page on a batch."""
    write_page(html, page(batch.blocks(outcome), title=count_text(len(outcome.rows), "archive")))


def _sentence(report: JobReport) -> str:
    if report.state == "undone":
        return "This job was undone: everything that it wrote was removed."
    done = f"{count_text(report.arrays_done)} of {count_text(len(report.arrays), 'array')}"
    groups = count_text(report.groups_done, "group")
    where = "are Zarr v3 now"
    if report.in_place:
        removed = report.state == "finished"
        where += "; the old metadata was removed" if removed else ", and have their old metadata too"
    checked = {
        "sample": " Each array was compared with its source, in samples, before it appeared.",
        "full": " Every value was compared with the source.",
    }.get(report.verified or report.checked or "", "")
    return f"{done} and {groups} of {b.FORMATS.get(report.format, report.format)} {where}.{checked}"

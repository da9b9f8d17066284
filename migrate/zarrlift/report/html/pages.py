"""The pages on a job, a batch and a census: their blocks below a title, a state and a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ...jobs.units import FORMATS, count_text
from .. import batch, census, job_report
from .. import blocks as b
from .pictures import NO_PICTURES, Pictures
from .rendering import page

if TYPE_CHECKING:
    from ...jobs.batch.outcome import BatchOutcome
    from ...jobs.census.census import Census
    from ...jobs.job_report import JobReport

_REPORT = "zarrlift migration report"


def job_page(report: JobReport, previews: Pictures = NO_PICTURES) -> str:
    """The page on what a job did to one archive."""
    numbers = {array.path: number for number, array in enumerate(report.arrays)}
    before = (
        b.Section(title="Pictures", on="pages"),
        b.Summary(_sentence(report)),
        previews.linked(lambda path: f"r{numbers.get(path, 0)}"),
    )
    return page(
        job_report.blocks(report, before=before),
        kicker=_REPORT,
        title=_name(report.source),
        state="running" if report.activity == "running" else report.state,
    )


def batch_page(
    outcome: BatchOutcome, reports: Mapping[int, JobReport], previews: Pictures = NO_PICTURES
) -> str:
    """The page on a batch, with the reports on its archives by number."""
    before = (b.Section(title="Pictures", on="pages"), previews)
    return page(
        batch.blocks(outcome, reports, before=before),
        kicker=_REPORT,
        title=count_text(len(outcome.rows), "archive"),
        state="running" if outcome.running else outcome.state,
    )


def census_page(found: Census) -> str:
    """The page on many archives."""
    return page(
        census.blocks(found),
        kicker="zarrlift census",
        title=_name(found.place),
        state=f"{'' if found.complete else 'not '}everything can be migrated",
        tone="good" if found.complete else "warn",
    )


def _name(place: str) -> str:
    return place.rstrip("/").rpartition("/")[2] or place


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
    return f"{done} and {groups} of {FORMATS.get(report.format, report.format)} {where}.{checked}"

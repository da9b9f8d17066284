"""Results as notebooks show them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from ...archive.nodes import Archive
from ...jobs.outcome import Outcome
from ...jobs.status import Status
from ...planning.plans import Plan
from ...verification.archive_diff import ArchiveDiff
from ...verification.report import VerificationReport
from .. import archive, diff, outcome, plan, status
from .. import blocks as b
from .rendering import notebook

_BLOCKS: Final[Mapping[type, Callable[[Any], Iterable[b.Block]]]] = {
    Archive: archive.blocks,
    ArchiveDiff: diff.blocks,
    Plan: plan.blocks,
    Outcome: outcome.notebook_blocks,
    Status: status.blocks,
    VerificationReport: outcome.verification_blocks,
}


def notebook_html(result: Archive | ArchiveDiff | Plan | Outcome | Status | VerificationReport) -> str:
    """A fragment of HTML without scripts and requests, whose size is bounded."""
    return notebook(_BLOCKS[type(result)](result), type(result).__name__)

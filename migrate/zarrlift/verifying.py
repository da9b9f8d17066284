"""Whether a migration kept everything: the checks of a job, and `verify` for two archives.

The parts: `verifying_documents` (a `zarr.json` against its plan), `verifying_sample` (which
chunks), `verifying_chunks` (chunks of a job), `verifying_codecs` (our codecs against
numcodecs), `verifying_archives` (`verify`), `verifying_report` (what it found).
"""

from __future__ import annotations

from .verifying_chunks import compare_chunks
from .verifying_codecs import recheck_decoded
from .verifying_documents import document_problems
from .verifying_sample import Sampler

__all__ = ["Sampler", "compare_chunks", "document_problems", "recheck_decoded"]

"""The modules that are mutated: by name, their files below the root of the repository."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SEED = 27
PER_MODULE = 100

_CORE = "migrate/zarrlift/core"
_JOBS = "migrate/zarrlift/jobs"

MODULES = {
    "codec chains": (
        f"{_CORE}/chain/chain.py",
        f"{_CORE}/chain/unchanged_bytes.py",
        f"{_CORE}/codecs/pipeline.py",
    ),
    "shard index": ("transformers/zarrstack/core/shard_index.py",),
    "N5 blocks": (f"{_CORE}/n5/blocks.py", f"{_CORE}/n5/block_pipeline.py"),
    "chunk keys": (
        f"{_CORE}/grid/chunk_keys.py",
        "transformers/zarrstack/core/chunk_keys_v3.py",
    ),
    "fill values": (
        f"{_CORE}/data_types/fill_forms.py",
        f"{_CORE}/data_types/v2.py",
        "migrate/zarrlift/formats/zarr_v2/deviations.py",
    ),
    "ledger": (
        f"{_JOBS}/ledger/ledger.py",
        f"{_JOBS}/ledger/database.py",
        f"{_JOBS}/ledger/schema.py",
    ),
    "claim": (f"{_JOBS}/claim.py",),
    "resume": (
        f"{_JOBS}/resume/lost_tasks.py",
        f"{_JOBS}/resume/resume_job.py",
    ),
    "source check": (f"{_JOBS}/source_check.py",),
    "cache's versions": ("transformers/zarrstack/layers/cache/versions.py",),
}


def statements(tree: ast.Module) -> Iterator[ast.stmt]:
    """The statements inside of functions: what is not run by an import alone."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for inner in ast.walk(node):
                if isinstance(inner, ast.stmt) and inner is not node:
                    yield inner

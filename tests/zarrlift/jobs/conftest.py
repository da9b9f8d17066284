"""The archive that jobs are tried on."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.job_archives import write_archive


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Three arrays that take three routes, one without chunks, in two groups."""
    return write_archive(tmp_path / "source.zarr")

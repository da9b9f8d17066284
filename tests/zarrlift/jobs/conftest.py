"""What jobs are tried on: an archive, where a copy of it goes, and a bucket."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.job_archives import write_archive
from tests.support.job_processes import running

from zarrlift.storage.local.owner_process import OwnerProcess
from zarrstack.system.this import system

if TYPE_CHECKING:
    from tests.support.bucket import Bucket


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Three arrays that take three routes, one without chunks, in two groups."""
    return write_archive(tmp_path / "source.zarr")


@pytest.fixture
def destination(tmp_path: Path) -> Path:
    """Where a copy goes."""
    return tmp_path / "out.zarr"


@pytest.fixture
def another_process() -> Iterator[OwnerProcess]:
    """A process of this host that runs."""
    with running([sys.executable, "-c", "import time; time.sleep(600)"]) as process:
        if not (started := system.started(process.pid)):
            pytest.skip("not everywhere: when a process was started")
        yield replace(OwnerProcess.of_this_process(), pid=process.pid, started=started)


@pytest.fixture
def bucket() -> Iterator[Bucket]:
    """A bucket on our own server."""
    from tests.support.bucket import serving  # few tests of jobs need its clients

    with serving() as made:
        yield made

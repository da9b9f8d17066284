"""Places in which nothing may be created: one message, and no job file is left."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.support.another_user import folder_anybody_may_enter, without_privileges
from tests.support.damaged_archives import Ran, run, write_archive


def refused(ran: Ran, *words: str) -> None:
    """One line on standard error, and nothing else."""
    assert ran.code == 1
    (line,) = ran.err.splitlines()
    assert all(word in line for word in words), line


@pytest.mark.parametrize("beside", [False, True], ids=["claim inside", "claim beside"])
def test_an_archive_that_may_not_be_written_is_refused_in_place(beside: bool) -> None:
    with folder_anybody_may_enter() as folder:
        other = write_archive(folder / "other.zarr")
        assert run("migrate", "--in-place", other, "--quiet").code == 0  # imports what it needs
        root = write_archive(folder / "a.zarr")
        if beside:
            folder.chmod(0o777)
        before = sorted(os.listdir(folder))
        with without_privileges():
            ran = run("migrate", "--in-place", root)
        refused(ran, str(root), "found Permission denied", "Check the permissions")
        assert sorted(os.listdir(folder)) == before


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="only Linux has it")
def test_a_destination_where_nothing_can_be_created_says_so(tmp_path: Path) -> None:
    ran = run("migrate", write_archive(tmp_path / "a.zarr"), "/proc/x.zarr")
    refused(ran, "/proc/x.zarr", "Nothing can be created in /proc. Choose another destination.")
    assert os.listdir(tmp_path) == ["a.zarr"]

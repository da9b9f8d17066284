"""Closed and full standard streams: exit codes tell of the work; lost output is one line, or nothing."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import zarr

ENTRY = [sys.executable, "-m", "zarrlift"]
CLOSED, FULL = "&-", "/dev/full"
WORK = [
    "migrate old.zarr new.zarr",
    "batch run folder --to 'new/{relative}' --executor processes",
    "verify old.zarr done.zarr",
]
OUTPUT = [
    "migrate old.zarr new.zarr --json",
    "inspect old.zarr",
    "migrate --dry-run old.zarr new.zarr",
    "status done.zarr",
    "update done.zarr --dry-run",
    "digest old.zarr",
    "completion bash",
    "--version",
    "--help",
    "migrate --help",
]
LOST = {CLOSED: "Bad file descriptor", FULL: "No space left on device"}


def run(words, folder, *, stdout=None, stderr=None):
    """Run a command of a shell with streams that are captured unless they are closed or full."""
    redirections = " ".join(f"{n}>{to}" for n, to in ((1, stdout), (2, stderr)) if to is not None)
    line = f'exec "$@" {words} {redirections}'
    command = ["sh", "-c", line, "sh", *ENTRY]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=60)


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    """Small archives of Zarr v2, one of them migrated."""
    folder = tmp_path_factory.mktemp("archives")
    for name in ("old.zarr", "folder/a.zarr", "folder/b.zarr"):
        zarr.create_array(folder / name, shape=(4,), chunks=(2,), dtype="<u2", zarr_format=2)[:] = 1
    assert run("migrate old.zarr done.zarr", folder).returncode == 0
    return folder


@pytest.fixture
def folder(archives, tmp_path):
    for name in ("old.zarr", "folder", "done.zarr", "done.zarr.zarrlift.db"):
        (tmp_path / name).symlink_to(archives / name)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("lost", [CLOSED, FULL])
@pytest.mark.parametrize("words", WORK)
def test_work_is_done_although_its_report_cannot_be_printed(words, lost, folder):
    ended = run(words, folder, stdout=lost)
    expected = f"zarrlift: the report cannot be printed: standard output: {LOST[lost]}.\n"
    assert (ended.returncode, ended.stderr) == (0, expected)
    assert run(words.replace("new", "newer"), folder, stdout=lost, stderr=lost).returncode == 0
    if words.startswith("migrate"):
        assert zarr.open_array(folder / "new.zarr", mode="r")[:].tolist() == [1, 1, 1, 1]


@pytest.mark.slow(one_in=23)
@pytest.mark.parametrize("lost", [CLOSED, FULL])
@pytest.mark.parametrize("words", OUTPUT)
def test_output_that_cannot_be_printed_is_a_failure_in_one_line(words, lost, folder):
    ended = run(words, folder, stdout=lost)
    line = f"zarrlift: the output cannot be printed: standard output: {LOST[lost]}.\n"
    assert (ended.returncode, ended.stderr) == (1, line)


@pytest.mark.parametrize("lost", [CLOSED, FULL])
@pytest.mark.parametrize(
    ("words", "code"),
    [(WORK[0], 0), (WORK[1], 0), ("--help", 0), ("migrate none.zarr new.zarr", 2), ("migrate --none", 2)],
)
@pytest.mark.slow(one_in=9)
def test_standard_error_changes_nothing(words, code, lost, folder):
    ended = run(words, folder, stderr=lost)
    assert (ended.returncode, bool(ended.stdout), ended.stderr) == (code, code == 0, "")


@pytest.mark.parametrize("words", [WORK[0], "status done.zarr", "--version", "migrate --help"])
@pytest.mark.slow(one_in=4)
def test_a_reader_that_has_gone_is_not_an_error(words, folder):
    read, write = os.pipe()
    os.close(read)
    with open(write, "w") as gone:
        command = ["sh", "-c", f'exec "$@" {words}', "sh", *ENTRY]
        ended = subprocess.run(
            command, cwd=folder, stdout=gone, stderr=subprocess.PIPE, text=True, check=False, timeout=60
        )
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_log_that_cannot_be_written_changes_nothing_if_standard_error_is_full_too(folder):
    ended = run(f"migrate old.zarr new.zarr --log {FULL}", folder, stderr=FULL)
    assert (ended.returncode, ended.stdout[:5]) == (0, "Done:")


def test_no_file_of_a_result_takes_the_place_of_a_closed_stream(folder):
    code = """
import os, sys
from zarrlift.cli import _fill_closed_streams
_fill_closed_streams()
with open("first", "w") as file:
    os._exit(0 if file.fileno() > 2 and os.get_inheritable(1) and os.get_inheritable(2) else 1)
"""
    command = ["sh", "-c", '"$@" <&- >&- 2>&-', "sh", sys.executable, "-c", code]
    assert subprocess.run(command, cwd=folder, check=False, timeout=60).returncode == 0

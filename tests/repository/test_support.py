"""What the helpers of the tests do, of which a mistake would hide others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests import conftest
from tests.support.chances import try_each
from tests.support.unpacking import FIXTURES, packing


class Case:
    """A case of a slow test, as pytest has it."""

    def __init__(self, test: str, number: int, **options: int) -> None:
        self.nodeid = f"{test}[{number}]"
        self.own_markers = [pytest.mark.slow(**options).mark]

    def get_closest_marker(self, name: str) -> object:
        return next((mark for mark in self.own_markers if mark.name == name), None)

    def add_marker(self, name: str) -> None:
        self.own_markers.append(getattr(pytest.mark, name).mark)

    @property
    def marks(self) -> str:
        return " ".join(mark.name for mark in self.own_markers)


def test_some_cases_of_slow_tests_are_quick_and_of_the_others_some_are_left_out() -> None:
    cases = [Case("a", number, one_in=3) for number in range(6)] + [Case("b", number) for number in range(3)]
    conftest.sample_slow(cases, 2)
    assert [case.marks for case in cases[:6]] == ["", "slow", "slow left_out", "", "slow", "slow left_out"]
    assert [case.marks for case in cases[6:]] == ["slow", "slow left_out", "slow"]


# A test of many cases fails as its cases would: each of them, by name.


def test_every_case_is_tried_and_each_that_fails_is_told_by_name() -> None:
    tried = []

    def check(number: int) -> None:
        tried.append(number)
        if number == 3:
            pytest.fail("three")
        if number == 4:
            with pytest.raises(ValueError, match="four"):
                pass
        assert number % 2

    with pytest.raises(BaseExceptionGroup, match="3 of 5 cases failed") as caught:
        try_each([1, 2, 3, 4, 5], check)
    assert tried == [1, 2, 3, 4, 5]
    assert [error.__notes__ for error in caught.value.exceptions] == [["Case: 2"], ["Case: 3"], ["Case: 4"]]


def test_no_case_is_no_test() -> None:
    with pytest.raises(AssertionError, match="no case"):
        try_each([], lambda _: None)


# One process unpacks a fixture for all; a test that writes to the cache fails the run.


CASES = {path.name for path in packing.held(FIXTURES / "zarr_v2" / "bad" / "archives.zip")}
UNPACKING = """
import os, shutil
import pytest
from tests.support.unpacking import CACHE, packing, unpacked

@pytest.mark.parametrize("number", range(4))
def test_it(number):
    path = unpacked("zarr_v2/bad/nothing.zarr")
    file = sorted(unpacked("zarr_v2/zarr-2.2/old.zarr").rglob(".zarray"))[0]
    BODY
"""


def run_unpacking(folder: Path, body: str = "pass", *options: str) -> subprocess.CompletedProcess[str]:
    """Run four tests that use fixtures and then `body`, with a cache of their own."""
    (folder / "conftest.py").write_text('pytest_plugins = ["tests.support.unpacking"]')
    (folder / "test_it.py").write_text(UNPACKING.replace("BODY", body))
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "xdist.plugin", *options],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": str(FIXTURES.parent),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "ZARRLIFT_FIXTURES": str(folder / "cache"),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.slow
def test_processes_share_what_one_unpacks(tmp_path: Path) -> None:
    done = run_unpacking(tmp_path, "assert {p.name for p in path.parent.iterdir()} == " + repr(CASES), "-n4")
    assert done.returncode == pytest.ExitCode.OK, done.stdout
    assert not list(tmp_path.glob("cache/**/*.part"))


@pytest.mark.slow(one_in=3)
@pytest.mark.parametrize(
    "write",
    [
        "file.write_bytes(file.read_bytes())",
        "(file.parent / 'new').mkdir(exist_ok=True)",
        "shutil.copy2(file, file.with_name('copy'))",
    ],
)
def test_a_test_that_writes_there_fails_the_run_and_the_next_unpacks_anew(write: str, tmp_path: Path) -> None:
    done = run_unpacking(tmp_path, write, "-k", "0")
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout
    assert "FAILED a test wrote to" in done.stdout
    assert "zarr-2.2/old.zarr, which was removed" in done.stdout
    assert {path.name for path in tmp_path.glob("cache/*/zarr_v2/**/*.zarr")} == CASES  # old.zarr is gone


def test_what_a_killed_run_left_and_what_another_manifest_named_goes(tmp_path: Path) -> None:
    old = tmp_path / "cache" / ("0" * 16) / "zarr_v2"
    old.mkdir(parents=True)
    killed = "part = CACHE / 'zarr_v2/z5py/dots.zarr.part'; part.mkdir(parents=True, exist_ok=True); "
    done = run_unpacking(
        tmp_path, killed + "(part / 'half').touch(); unpacked('zarr_v2/z5py/dots.zarr')", "-k", "0"
    )
    assert done.returncode == pytest.ExitCode.OK, done.stdout
    assert not old.exists()
    assert not list(tmp_path.glob("cache/*/zarr_v2/z5py/dots.zarr*/half"))

"""One process unpacks a fixture for all; a test that writes to the cache fails the run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.unpacking import FIXTURES, packing

CASES = {path.name for path in packing.held(FIXTURES / "zarr_v2" / "bad" / "archives.zip")}
TEST = """
import os, shutil
import pytest
from tests.support.unpacking import CACHE, packing, unpacked

@pytest.mark.parametrize("number", range(4))
def test_it(number):
    path = unpacked("zarr_v2/bad/nothing.zarr")
    file = sorted(unpacked("zarr_v2/zarr-2.2/old.zarr").rglob(".zarray"))[0]
    BODY
"""


def run(folder: Path, body: str = "pass", *options: str) -> subprocess.CompletedProcess[str]:
    """Run four tests that use fixtures and then `body`, with a cache of their own."""
    (folder / "conftest.py").write_text('pytest_plugins = ["tests.support.unpacking"]')
    (folder / "test_it.py").write_text(TEST.replace("BODY", body))
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
    done = run(tmp_path, "assert {p.name for p in path.parent.iterdir()} == " + repr(CASES), "-n4")
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
    done = run(tmp_path, write, "-k", "0")
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout
    assert "FAILED a test wrote to" in done.stdout
    assert "zarr-2.2/old.zarr, which was removed" in done.stdout
    assert {path.name for path in tmp_path.glob("cache/*/zarr_v2/**/*.zarr")} == CASES  # old.zarr is gone


def test_what_a_killed_run_left_and_what_another_manifest_named_goes(tmp_path: Path) -> None:
    old = tmp_path / "cache" / ("0" * 16) / "zarr_v2"
    old.mkdir(parents=True)
    killed = "part = CACHE / 'zarr_v2/z5py/dots.zarr.part'; part.mkdir(parents=True, exist_ok=True); "
    done = run(tmp_path, killed + "(part / 'half').touch(); unpacked('zarr_v2/z5py/dots.zarr')", "-k", "0")
    assert done.returncode == pytest.ExitCode.OK, done.stdout
    assert not old.exists()
    assert not list(tmp_path.glob("cache/*/zarr_v2/z5py/dots.zarr*/half"))

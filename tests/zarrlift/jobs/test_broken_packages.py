"""A package that cannot be imported is named, and not called a bug in zarrlift."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.fixtures_index import archive

from zarrlift.transfer.unexpected_errors import broken_package

OCEAN = archive("zarr_v2/zarr-2.18/people/ocean").path


@pytest.fixture
def with_zfpy(tmp_path: Path) -> dict[str, str]:
    """An environment with a zfpy that was built for another numpy, which numcodecs imports."""
    facts = tmp_path / "site/zfpy-1.0.1.dist-info"
    facts.mkdir(parents=True)
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: zfpy\nVersion: 1.0.1\n")
    (tmp_path / "site/zfpy.py").write_text('raise ValueError("numpy.dtype size changed")')
    paths = [str(tmp_path / "site"), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


@pytest.mark.slow(one_in=2)
@pytest.mark.parametrize("command", ["migrate", "verify"])
def test_a_zfpy_that_cannot_be_imported_is_named(
    with_zfpy: dict[str, str], tmp_path: Path, command: str
) -> None:
    words = [sys.executable, "-m", "zarrlift", command, str(OCEAN), str(tmp_path / "out")]
    if command == "verify":
        (tmp_path / "out").mkdir()
        (tmp_path / "out/zarr.json").write_text('{"zarr_format": 3, "node_type": "group"}')
    done = subprocess.run(words, env=with_zfpy, capture_output=True, text=True, timeout=120, check=False)
    said = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == 1
    assert "the package zfpy cannot be imported (by zarr and numcodecs)" in said
    assert "numpy.dtype size changed" in said
    assert "bug in zarrlift" not in said
    assert "did not foresee" not in said


def test_errors_of_our_own_are_no_broken_packages() -> None:
    with pytest.raises(ValueError, match="ours") as raised:
        int("ours")
    assert broken_package(raised.value) is None

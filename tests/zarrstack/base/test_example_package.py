"""The package of "Write a transformer in 40 lines" installs, registers itself and passes the suite."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "docs" / "transformers" / "example"
PAGE = ROOT / "docs" / "transformers" / "write-your-own.md"

USE = """
import zarr
from zarr.storage import MemoryStore
from zarrstack import stack
from zarrstack.base.registry import parse_stack, registered

[row] = [row for row in registered() if row.name == "encrypt"]
assert row.problem is None and row.package == "zarrstack-encrypt 0.1", row
bottom = MemoryStore()
array = zarr.create_array(stack(bottom, *parse_stack("encrypt")), shape=(4,), dtype="i4")
array[:] = 5
assert not [key for key, value in bottom._store_dict.items() if b"zarr_format" in value.to_bytes()]
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder with the package installed."""
    folder = tmp_path_factory.mktemp("site")
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "install", *options, "--target", folder, EXAMPLE]
    subprocess.run(command, check=True)
    return folder


def run(site, *arguments):
    environment = os.environ | {"PYTHONPATH": str(site), "ZARR_KEY": 32 * "5a"}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=site, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("file", sorted(path.name for path in EXAMPLE.iterdir() if path.is_file()))
def test_the_page_shows_the_files_of_the_package(file):
    assert (EXAMPLE / file).read_text() in PAGE.read_text()


def test_the_layer_fits_the_title():
    assert len((EXAMPLE / "zarrstack_encrypt.py").read_text().splitlines()) <= 45


@pytest.mark.slow
def test_the_installed_package_is_found_by_its_name(site):
    run(site, "-c", USE)

"""The package of "Write your own format reader", installed: every command reads its archives, killed too."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import zarr

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "docs" / "howto" / "format-example"
PAGE = ROOT / "docs" / "howto" / "write-a-format.md"
KILLER = ROOT / "tests" / "zarrlift" / "jobs" / "faults" / "killed_run.py"


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """A folder with the package installed."""
    folder = tmp_path_factory.mktemp("site")
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "install", *options, "--target", folder, EXAMPLE]
    subprocess.run(command, check=True)
    return folder


@pytest.fixture(scope="module")
def old(site, tmp_path_factory) -> Path:
    """An archive of tiles, written without zarrlift."""
    folder = tmp_path_factory.mktemp("tiles") / "old"
    script = f"from pathlib import Path; import write_tiles; write_tiles.write_tiles(Path({str(folder)!r}))"
    subprocess.run([sys.executable, "-c", script], cwd=EXAMPLE, check=True)
    return folder


def values() -> dict[str, np.ndarray]:
    """What was written, from the writer's definition."""
    well = np.arange(7000, dtype="u2").reshape(100, 70)
    well[:32, 32:64] = 7
    return {"well": well, "weights": np.linspace(0, 1, 60, dtype="f4").reshape(6, 10)}


def python(site: Path | None, *words: object) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(site or "")}
    command = [sys.executable, *map(str, words)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def zarrlift(site: Path | None, *words: object, code: int = 0) -> str:
    done = python(site, "-m", "zarrlift", *words)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


def assert_values(result: Path) -> None:
    root = zarr.open_group(result, mode="r")
    for path, expected in values().items():
        np.testing.assert_array_equal(root[path][:], expected, strict=True)
    assert dict(root.attrs) == {"title": "plate 7"}
    assert dict(root["well"].attrs) == {"exposure_ms": 40}
    assert root["well"].metadata.dimension_names == ("y", "x")


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("file", sorted(path.name for path in EXAMPLE.iterdir() if path.is_file()))
def test_the_page_shows_the_files_of_the_package(file):
    assert f"\n--8<--\n{(EXAMPLE / file).relative_to(ROOT)}\n--8<--\n```\n" in PAGE.read_text()


def test_the_format_fits_in_60_lines():
    assert len((EXAMPLE / "zarrlift_tiles.py").read_text().splitlines()) <= 60


@pytest.mark.slow
def test_every_command_reads_the_archive(site, old, tmp_path):
    assert "(tiles)" in zarrlift(site, "inspect", old)
    assert json.loads(zarrlift(site, "inspect", old, "--json"))["result"]["format"] == "tiles"
    assert "(tiles)" in zarrlift(site, "migrate", "--dry-run", old, tmp_path / "new", "--from", "tiles")
    zarrlift(site, "migrate", old, tmp_path / "new", "--verify", "full")
    assert "Equal" in zarrlift(site, "verify", old, tmp_path / "new", "--full")
    root = zarr.open_group(tmp_path / "new", mode="r")
    assert all((root[path][:] == expected).all() for path, expected in values().items())
    zarrlift(site, "status", "--check", "--verbose", tmp_path / "new", "--html", tmp_path / "report.html")
    zarrlift(site, "update", tmp_path / "new")
    many = ("batch", "run", old.parent, "--to", tmp_path / "v3/{relative}")
    assert "1 tiles" in zarrlift(site, *many, "--dry-run")
    zarrlift(site, *many)
    assert_values(tmp_path / "v3/old")
    beside = shutil.copytree(old, tmp_path / "beside")
    refused = zarrlift(site, "migrate", beside, "--in-place", code=1)
    assert "Zarr v3 has no encoding for these chunk keys" in refused


@pytest.mark.parametrize("executor", ["processes", pytest.param("dask", marks=pytest.mark.slow)])
@pytest.mark.slow
def test_work_in_other_processes(executor, site, old, tmp_path):
    for command, *more in (["migrate"], ["verify", "--full"]):
        words = (command, old, tmp_path / "new", *more, "--executor", executor, "--workers", 2)
        done = python(site, "-m", "zarrlift", *words)  # Dask itself may log errors when it ends
        assert done.returncode == 0, done.stderr
    assert_values(tmp_path / "new")


@pytest.mark.slow
def test_what_workers_receive_needs_no_plug_in(site, old, tmp_path):
    sent = tmp_path / "moves"
    plan = f"""
import pickle, zarrlift
moves = [array.move for array in zarrlift.plan({str(old)!r}, {str(tmp_path / "new")!r}).arrays]
open({str(sent)!r}, "wb").write(pickle.dumps(moves))
"""
    received = f"""
import pickle
from zarrlift.archive.decoder import object_decoder
for move in pickle.loads(open({str(sent)!r}, "rb").read()):
    stored = open({str(old)!r} + "/" + move.source.key(move.path, (1, 1)), "rb").read()
    print(move.path, object_decoder(move.source).decode(stored)[0, 0])
"""
    assert python(site, "-c", plan).returncode == 0
    done = python(None, "-c", received)
    well, weights = (values()[path] for path in ("well", "weights"))
    assert done.stdout.split() == ["weights", str(weights[4, 4]), "well", str(well[32, 32])], done.stderr


@pytest.mark.slow
def test_other_chunks_and_codecs(site, old, tmp_path):
    words = ["--chunks", "50,50", "--shards", "2,2", "--codecs", "zstd:3"]
    zarrlift(site, "migrate", old, tmp_path / "new", "--include", "well", *words)
    well = zarr.open_array(tmp_path / "new" / "well", mode="r")
    assert (well.chunks, well.shards) == ((50, 50), (100, 100))
    np.testing.assert_array_equal(well[:], values()["well"])


@pytest.mark.slow
def test_a_view_in_another_process(site, old):
    script = f"""
import pickle, zarrlift
root = zarrlift.open({str(old)!r})
again = pickle.loads(pickle.dumps(root))
assert (again["well"][:] == root["well"][:]).all()
print(int(root["well"][:].sum()))
"""
    done = python(site, "-c", script)
    assert done.stdout.split() == [str(int(values()["well"].sum()))], done.stderr


@pytest.mark.slow
def test_killed_at_any_change_it_resumes_to_the_same_bytes(site, old, tmp_path):
    words = ["migrate", old, tmp_path / "whole", "--codecs", "zstd:3"]
    whole = python(site, KILLER, 0, tmp_path, *words)
    changes = int(whole.stderr.split()[-1])
    for part in range(3):
        new = tmp_path / f"new{part}"
        words[2] = new
        killed = python(site, KILLER, changes * (2 * part + 1) // 6, tmp_path, *words)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        if not Path(f"{new}.zarrlift.db").exists():
            zarrlift(site, *words)
            continue
        said = zarrlift(None, "resume", new, code=1)
        assert "the format 'tiles', which no installed package reads" in said
        assert "Install zarrlift-tiles 0.1 where zarrlift runs" in said
        zarrlift(site, "resume", new)
    assert_values(tmp_path / "whole")
    for part in range(3):
        assert tree(tmp_path / f"new{part}") == tree(tmp_path / "whole")


@pytest.mark.slow
def test_a_changed_document_is_noticed(site, old, tmp_path):
    source = shutil.copytree(old, tmp_path / "old")
    (source / "well" / "tile_001_001.bin").write_bytes(b"damaged")
    zarrlift(site, "migrate", source, tmp_path / "new", code=1)
    document = source / "weights" / "tiles.json"
    document.write_text(document.read_text().replace('"background": 7', '"background": 8'))
    shutil.copy(old / "well" / "tile_001_001.bin", source / "well")
    assert "changed" in zarrlift(site, "resume", tmp_path / "new", code=1)


@pytest.mark.slow
def test_without_the_package_its_archives_are_none(old, tmp_path):
    assert "no archive found; found tiles.json" in zarrlift(None, "inspect", old, code=2)
    assert "unknown format 'tiles'" in zarrlift(
        None, "migrate", "--dry-run", old, tmp_path / "n", "--from", "tiles", code=2
    )


@pytest.mark.slow
def test_a_job_says_which_package_it_needs(site, old, tmp_path):
    zarrlift(site, "migrate", old, tmp_path / "new")
    for words in (["verify", old, tmp_path / "new"], ["migrate", old, tmp_path / "new"]):
        assert "zarrlift-tiles 0.1" in zarrlift(None, *words, code=1)
    assert "done" in zarrlift(None, "status", tmp_path / "new")
    zarrlift(None, "undo", "--yes", "--yes", tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_the_suite_of_the_package_passes(site, tmp_path):
    for file in ("test_zarrlift_tiles.py", "write_tiles.py"):
        shutil.copy(EXAMPLE / file, tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_zarrlift_tiles.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(site), str(tmp_path)))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr

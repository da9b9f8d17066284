"""A destination in its source, or the other way round, under whatever path."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import zarr

import zarrlift
from zarrlift.errors import UsageError

REAL_STAT = os.stat


def archive(path):
    zarr.create_array(path, shape=(8,), chunks=(2,), dtype="<u2", zarr_format=2)[:] = 7
    return path


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def show_twice(monkeypatch, directory, second):
    """Make the file system say that a path is another directory, as for a bind mount."""

    def stat(path, *args, **options):
        shown = directory if os.fspath(path) == os.fspath(second) else path
        return REAL_STAT(shown, *args, **options)

    monkeypatch.setattr(os, "stat", stat)


@pytest.mark.parametrize(
    ("source", "destination", "again", "message"),
    [
        ("r/s.zarr", "q/s.zarr", "q/s.zarr", "source and destination are the same place"),
        ("r/s.zarr", "q/deep/out.zarr", "q", "the destination is inside the source"),
    ],
)
def test_device_and_number_tell_the_same_directory(
    source, destination, again, message, tmp_path, monkeypatch
):
    old = archive(tmp_path / source)
    (tmp_path / again).mkdir(parents=True)
    before = files(tmp_path)
    show_twice(monkeypatch, old, tmp_path / again)
    with pytest.raises(UsageError, match=message):
        zarrlift.migrate(old, tmp_path / destination, overwrite=True)
    assert files(tmp_path) == before


def test_device_and_number_tell_a_directory_above_the_source(tmp_path, monkeypatch):
    old = archive(tmp_path / "r" / "s.zarr")
    (tmp_path / "q").mkdir()
    before = files(tmp_path)
    show_twice(monkeypatch, tmp_path / "r", tmp_path / "q")
    with pytest.raises(UsageError, match="the source is inside the destination"):
        zarrlift.migrate(old, tmp_path / "q", overwrite=True)
    assert files(tmp_path) == before


@pytest.mark.parametrize("below", ["", "deep/"])
def test_a_claim_that_appears_in_the_source_tells_where_no_number_does(below, tmp_path, monkeypatch):
    """One directory of a server that is mounted twice has two devices and two sets of numbers."""
    old = archive(tmp_path / "r" / "s.zarr")
    (old / below).mkdir(exist_ok=True)
    (tmp_path / "q").symlink_to(old)
    before = files(tmp_path)
    real = os.path.realpath
    # Links that are not resolved are directories to everything else.
    monkeypatch.setattr(os.path, "realpath", lambda path, **_: os.path.abspath(path))

    def stat(path, *args, **options):
        facts = REAL_STAT(path, *args, **options)
        return facts if not str(path).startswith(str(tmp_path / "q")) else Facts(facts)

    monkeypatch.setattr(os, "stat", stat)
    with pytest.raises(UsageError, match="the destination is inside the source"):
        zarrlift.migrate(old, tmp_path / "q" / below / "out.zarr")
    monkeypatch.setattr(os.path, "realpath", real)
    assert files(tmp_path) == before


class Facts:
    """What another mount says of a file: its own device."""

    def __init__(self, facts):
        self._facts = facts
        self.st_dev = facts.st_dev + 1

    def __getattr__(self, name):
        return getattr(self._facts, name)


def test_places_that_are_apart_are_not_refused(tmp_path):
    old = archive(tmp_path / "x.zarr")
    (tmp_path / "x").mkdir()
    assert zarrlift.migrate(old, tmp_path / "x" / "x.zarr").ok
    assert zarrlift.migrate(old, tmp_path / "x" / "x.zarr", overwrite=True).ok


@pytest.mark.needs_reader("mount")
@pytest.mark.parametrize(
    ("shown", "point", "source", "destination", "message"),
    [
        ("p", "q", "p/s.zarr", "q/s.zarr", "source and destination are the same place"),
        ("p/s.zarr", "q", "p/s.zarr", "q/out.zarr", "the destination is inside the source"),
        ("p/s.zarr/g", "q", "p/s.zarr", "q/out.zarr", "the destination is inside the source"),
        ("p/s.zarr/g", "q", "q/a", "p/s.zarr/g/a", "source and destination are the same place"),
        ("p", "a folder", "a folder/s.zarr/g", "p/s.zarr", "the source is inside the destination"),
    ],
)
def test_bind_mounts(shown, point, source, destination, message, tmp_path):
    zarr.open_group(tmp_path / "p" / "s.zarr", mode="w", zarr_format=2).create_group("g")
    archive(tmp_path / "p" / "s.zarr" / "g" / "a")
    (tmp_path / point).mkdir()
    before = files(tmp_path)
    line = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'
    command = [sys.executable, "-m", "zarrlift", "migrate", source, destination, "--overwrite"]
    ended = subprocess.run(
        ["unshare", "--map-root-user", "--mount", "sh", "-c", line, "sh", shown, point, *command],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith(f"zarrlift: {message}")
    assert files(tmp_path) == before

"""A run publishes nothing if its destination is another directory than the one in which it began."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.job_archives import values

import zarrlift
from zarrlift.jobs.publisher import Publisher
from zarrlift.storage.local.open_directories import OpenDirectories
from zarrlift.storage.writer import DestinationError


def _removed(root: Path) -> None:
    shutil.rmtree(root)


def _moved(root: Path) -> None:
    root.rename(root.with_name("moved"))


def _new(root: Path) -> None:
    _moved(root)
    root.mkdir()


def _link(root: Path) -> None:
    _moved(root)
    other = root.with_name("other")
    other.mkdir()
    root.symlink_to(other, target_is_directory=True)


CHANGES = [_removed, _moved, _new, _link]


@pytest.mark.parametrize("change", CHANGES)
def test_another_directory_is_recognized(tmp_path: Path, change: Callable[[Path], None]) -> None:
    path = tmp_path / "a/root"
    root = OpenDirectories(str(path))
    root.require_same()
    root.root(make=True)
    root.require_same()
    change(path)
    with pytest.raises(DestinationError, match="moved, deleted or replaced"):
        root.require_same()


def test_the_same_directory_through_a_link_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "root"
    root = OpenDirectories(str(path))
    root.root(make=True)
    _moved(path)
    path.symlink_to(tmp_path / "moved", target_is_directory=True)
    root.require_same()


@pytest.mark.parametrize("change", CHANGES)
def test_nothing_is_published_into_another_directory(
    source: Path, destination: Path, change: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    publish, changed = Publisher.publish_array, []

    def publish_array(publisher: Publisher, *args: object) -> int | None:
        if not changed:
            changed.append(True)
            change(destination)
        return publish(publisher, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(Publisher, "publish_array", publish_array)
    outcome = zarrlift.migrate(source, destination)
    assert not outcome.ok
    assert any("moved, deleted or replaced" in problem.message for problem in outcome.problems)
    assert not os.path.exists(destination) or not list(destination.rglob("zarr.json"))
    monkeypatch.undo()
    if change is _moved:
        (destination.with_name("moved")).rename(destination)
        assert zarrlift.resume(destination).ok
        assert values(destination, 3) == values(source, 2)

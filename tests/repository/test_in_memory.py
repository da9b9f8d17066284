"""Where temporary files of a run are."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.support import in_memory


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(in_memory, "MEMORY", tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("TMPDIR", "")  # so that it is set back
    monkeypatch.delenv("TMPDIR")
    return tmp_path


def configured(**config: object) -> list[object]:
    """The plug-ins that a run gets."""
    registered: list[object] = []
    manager = SimpleNamespace(register=registered.append)
    in_memory.pytest_configure(SimpleNamespace(pluginmanager=manager, **config))
    return registered


def test_temporary_files_are_in_a_folder_that_goes_with_the_run(memory: Path, monkeypatch) -> None:
    monkeypatch.setattr(in_memory, "ROOM", 0)
    (run,) = configured()
    (folder,) = memory.iterdir()
    assert tempfile.gettempdir() == os.environ["TMPDIR"] == str(folder)
    run.pytest_terminal_summary(None, pytest.ExitCode.OK)
    assert not folder.exists()


def test_what_failed_tests_wrote_stays_and_is_named(memory: Path, monkeypatch) -> None:
    monkeypatch.setattr(in_memory, "ROOM", 0)
    (run,) = configured()
    lines: list[str] = []
    run.pytest_terminal_summary(SimpleNamespace(write_line=lines.append), pytest.ExitCode.TESTS_FAILED)
    assert str(next(memory.iterdir())) in lines[0]


def test_folders_of_ended_runs_are_removed_and_others_stay(memory: Path) -> None:
    ended = in_memory.PREFIX + "4194305-x"  # above the largest number of a process on Linux
    for name in (ended, in_memory.PREFIX + f"{os.getpid()}-x", "other"):
        (memory / name).mkdir()
    in_memory.remove_older()
    assert sorted(path.name for path in memory.iterdir()) == ["other", in_memory.PREFIX + f"{os.getpid()}-x"]


def test_without_room_and_where_the_user_chose_a_folder_nothing_changes(memory: Path, monkeypatch) -> None:
    monkeypatch.setattr(in_memory, "ROOM", 1 << 60)
    assert configured() == []
    monkeypatch.setattr(in_memory, "ROOM", 0)
    assert configured(workerinput={}) == []
    monkeypatch.setenv("TMPDIR", str(memory))
    assert configured() == []

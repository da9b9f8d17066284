"""What deletes asks once, with counts, on a terminal; where there is none, `undo` and `finish` need --yes."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.job_archives import tree, write_archive

import zarrlift
from zarrlift.cli import main


class Terminal(io.StringIO):
    """A terminal on which an answer is typed."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Types an answer to the next question."""
    return lambda text: monkeypatch.setattr("sys.stdin", Terminal(f"{text}\n"))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_archive(tmp_path / "old")


def in_place(source: Path) -> Path:
    assert zarrlift.migrate(source, in_place=True).state == "done"
    assert zarrlift.verify(source).ok
    return source


@pytest.mark.parametrize("command", ["undo", "finish"])
def test_where_nobody_can_be_asked_nothing_is_deleted_without_yes(
    command: str, source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = tree(in_place(source))
    assert main([command, str(source)]) == 2
    assert capsys.readouterr().err == (
        f"zarrlift: {command} requires confirmation before it deletes; expected --yes, or a terminal\n"
    )
    assert tree(source) == before
    assert main([command, str(source), "-y"]) == 0


@pytest.mark.parametrize(
    ("command", "question"),
    [
        ("undo", "Delete what the job wrote of 4 arrays at {source}? [y/N] "),
        ("finish", "Delete the legacy metadata of 4 arrays at {source}? [y/N] "),
    ],
)
def test_a_terminal_is_asked_once_with_counts(
    command: str,
    question: str,
    source: Path,
    answer: Callable[[str], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = tree(in_place(source))
    for text in ("n", "", "nonsense"):
        answer(text)
        assert main([command, str(source)]) == 2
        assert question.format(source=source) in capsys.readouterr().err
        assert tree(source) == before
    answer("y")
    assert main([command, str(source)]) == 0
    assert capsys.readouterr().err.count("[y/N]") == 1


def test_an_update_asks_only_if_it_deletes(
    source: Path, tmp_path: Path, answer: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    result = tmp_path / "new"
    assert zarrlift.migrate(source, result).state == "done"
    answer("n")
    assert main(["update", str(result), "--delete"]) == 0, "nothing would be deleted"
    for path in (source / "h" / "rewrite").rglob("*"):
        path.unlink()
    (source / "h" / "rewrite").rmdir()
    before = tree(result)
    assert main(["update", str(result), "--delete"]) == 2
    assert "Remove 1 node from the result? [y/N]" in capsys.readouterr().err
    assert tree(result) == before
    answer("yes")
    assert main(["update", str(result), "--delete"]) == 0
    assert not (result / "h" / "rewrite").exists()


def test_a_place_that_is_not_empty_is_replaced_after_a_question(
    source: Path, tmp_path: Path, answer: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    result = tmp_path / "new"
    result.mkdir()
    answer("n")
    assert main(["migrate", str(source), str(result), "--overwrite"]) == 0, "nothing is replaced"
    before = len(tree(result))
    answer("n")
    assert main(["migrate", str(source), str(result), "--overwrite", "--codecs", "gzip:1"]) == 2
    assert f"Replace {result}, which has {before} objects? [y/N]" in capsys.readouterr().err
    answer("y")
    assert main(["migrate", str(source), str(result), "--overwrite", "--codecs", "gzip:1"]) == 0


def test_scripts_overwrite_and_delete_without_a_question(source: Path, tmp_path: Path) -> None:
    result = tmp_path / "new"
    for _ in range(2):
        assert main(["migrate", str(source), str(result), "--overwrite"]) == 0
    assert main(["update", str(result), "--delete"]) == 0

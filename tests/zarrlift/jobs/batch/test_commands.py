"""The commands of `zarrlift batch`: what they print, and their exit codes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import fsspec
import pytest
from tests.support.job_archives import tree

import zarrlift
from zarrlift.cli import main
from zarrlift.report.html.pages import write_batch_page

from .conftest import BROKEN, NOTHING

TO = ("--to", "v3/{relative}.zarr")


def batch(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    """What a command prints."""
    assert main([*(["batch"] if words[0] == "run" else []), *words]) == code
    return capsys.readouterr().out


def as_json(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> dict[str, Any]:
    """The result of a command with --json."""
    document: dict[str, Any] = json.loads(batch(capsys, *words, "--json", code=code))
    assert document["exit_code"] == code
    found: dict[str, Any] = document.get("result") or document["error"]
    return found


def test_from_a_plan_to_the_end(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "\n  zarrlift batch run /" in batch(capsys, "run", "--dry-run", "old", *TO, code=1)
    assert as_json(capsys, "status", "v3", "--watch", code=1)["counts"] == {"pending": 6, "refused": 1}
    text = batch(capsys, "run", "v3.zarrlift.jsonl", code=1)
    assert "7 archives: 5 done, 1 failed, 1 refused" in text
    assert "zarrlift resume /" in text
    assert as_json(capsys, "resume", "v3", code=1)["ran"] == 2
    told = as_json(capsys, "verify", "v3", "--full", code=1)
    assert {row["verified"] for row in told["archives"]} == {"full", None}
    assert as_json(capsys, "finish", "v3", "--yes", code=1)["message"].startswith(
        "there is nothing to finish"
    )
    assert "undone" in batch(capsys, "undo", "v3", "--yes")


def test_what_is_refused_or_fails_is_on_standard_error_once(
    old: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (("old", *TO), ("v3.zarrlift.jsonl", "--json")):
        assert main(["batch", "run", *words]) == 1
        lines = capsys.readouterr().err.splitlines()
        assert "zarrlift: incomplete: 5 done, 1 failed, 1 refused" in lines
        assert sum(": failed: " in line or line.startswith("zarrlift: failed: ") for line in lines) == 1
        assert sum(line.startswith("zarrlift: refused: ") for line in lines) == 1
    main(["status", "v3"])
    assert not capsys.readouterr().err


def test_a_finished_batch_has_nothing_to_do(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in (BROKEN, NOTHING):
        shutil.rmtree(old / name)
    batch(capsys, "run", "old", *TO)
    assert "Nothing to do: every archive is done." in batch(capsys, "run", "old", *TO)
    shutil.copytree(old / "a/v2.zarr", old / "new.zarr")
    text = batch(capsys, "run", "old", *TO, code=1)
    assert f"not in the list: {old / 'new.zarr'}" in text
    assert "6 done" in batch(capsys, "run", "old", *TO, "--update")


def test_finish_asks_once(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    batch(capsys, "run", "old/a", "--in-place")
    batch(capsys, "verify", "old/a")
    assert as_json(capsys, "finish", "old/a", code=2)["expected"] == "--yes, or a terminal"
    batch(capsys, "finish", "old/a", "--yes")
    assert not (old / "a/v2.zarr/.zgroup").exists()


def test_only_some_archives_are_worked_on(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    batch(capsys, "run", "old", *TO, "--only", "a/*")
    assert as_json(capsys, "status", "v3", code=1)["counts"] == {"done": 2, "pending": 4, "refused": 1}
    assert as_json(capsys, "verify", "v3", "--only", "a/v1*", "--full")["ran"] == 1
    assert as_json(capsys, "undo", "v3", "--only", "v3/a/v1.zarr", "--yes")["counts"] == {"undone": 1}
    assert as_json(capsys, "status", "v3", "--only", "a/*", code=1)["counts"] == {"done": 1, "undone": 1}
    told = as_json(capsys, "status", "v3/a/v2.zarr", "--only", "a/*", code=2)
    assert told["message"] == "--only is for a list of archives"


@pytest.mark.parametrize("verb", ["status", "resume", "verify", "update", "undo"])
def test_an_archive_of_a_batch_is_that_of_any_job(
    verb: str, old: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    batch(capsys, "run", "old/a", "--to", "v3/a/{relative}.zarr")
    words = [verb, "v3/a/v2.zarr", *(["--yes"] if verb == "undo" else []), "--json"]
    assert main(words) == 0
    assert "archives" not in json.loads(capsys.readouterr().out)["result"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run",), "a list of archives is needed"),
        (("run", "old"), "a destination is needed"),
        (("run", "gone", "--to", "x/{name}"), "gone"),
        (("run", "old", "--to", "x/{other}"), "the template has an unknown field"),
        (("run", "old", "--to", "x/{name}", "--in-place"), "no destination"),
        (("run", "old", *TO, "--list", "v3.jsonl"), "a list needs the usual suffix"),
        (("run", "old", *TO, "--inventory", "file.csv"), "an inventory is of one archive"),
    ],
)
def test_what_is_wrong_with_a_request(
    old: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str
) -> None:
    assert said in json.dumps(as_json(capsys, *words, code=2))
    assert sorted(path.name for path in Path().iterdir()) == ["old"]


def test_no_secret_is_stored_or_shown(old: Path, caplog: pytest.LogCaptureFixture) -> None:
    secret = "hunter2-planted"
    memory = fsspec.filesystem("memory")
    for name in ("a/v2.zarr", BROKEN):
        memory.put(str(old / name), f"/secret/{name}", recursive=True)
    try:
        watched = {"log": "log.jsonl", "metrics": "zarrlift.prom"}
        options = {"token": secret}
        made = zarrlift.batch("memory://secret", to="v3/{relative}.zarr", storage_options=options, **watched)
        write_batch_page(made.outcome, "page.html", pictures=True, places={"storage_options": options})
    finally:
        memory.rm("/secret", recursive=True)
    assert made.outcome.counts == {"done": 1, "failed": 1}
    jobs = [Path(row.job) for row in made.rows if row.begun()]
    assert len(jobs) == 2
    shown = (made.table(), str(made.outcome), json.dumps(made.outcome.to_json()), caplog.text)
    files = (
        made.path,
        made.path.with_name("v3.zarrlift.events.jsonl"),
        *jobs,
        *map(Path, (*watched.values(), "page.html")),
    )
    written = [path.read_bytes() for path in files]
    assert all(written)
    for content in (*written, *(text.encode() for text in shown)):
        assert secret.encode() not in content


def test_a_hostile_name_is_shown_as_text(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(old / "a/v2.zarr", old / "c/\x1b[31mred\n.zarr")
    text = batch(capsys, "run", "old/c", *TO)
    assert "\x1b" not in text
    assert tree(Path("v3"))


def test_one_report_has_all_archives(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    batch(capsys, "run", "old", *TO, "--html", "all.html", code=1)
    page = Path("all.html").read_text()
    assert all(row in page for row in ("a/v2.zarr", BROKEN, NOTHING))
    assert main(["status", "--check", "--verbose", "v3", "--json"]) == 1
    archives = json.loads(capsys.readouterr().out)["result"]["archives"]
    reports = {row["relative"]: row["report"] for row in archives}
    assert len(reports) == 7
    assert reports[NOTHING] is None
    assert reports["a/v2.zarr"]["state"] == "done"


@pytest.mark.parametrize(
    "words",
    [("verify", "v3", "--from", "n5"), ("resume", "v3", "--storage-options", "job:key=k")],
    ids=" ".join,
)
def test_what_is_for_one_archive_is_no_option_of_a_batch(
    words: tuple[str, ...], old: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    batch(capsys, "run", "old", *TO, code=1)
    assert main(list(words)) == 2
    assert "options of one archive or of its job are given for a batch" in capsys.readouterr().err

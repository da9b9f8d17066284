"""Each failure is printed once on standard error, with its archive, and no line is endless."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import zarr
from tests.support.job_archives import write_archive

from zarrlift.cli import main


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """A folder with an archive that has three damaged chunks, and one that has a refused array too."""
    for name in ("one", "two"):
        source = write_archive(tmp_path / "old" / f"{name}.zarr")
        for number in range(3):
            (source / f"g/recode/{number}").write_bytes(b"no chunk")
    document = tmp_path / "old/two.zarr/h/rewrite/.zarray"
    document.write_bytes(document.read_bytes().replace(b'"<i4"', b'"<q9"'))
    (tmp_path / "old/two.zarr/.zmetadata").unlink()
    return tmp_path / "old"


@pytest.mark.parametrize("json_output", [False, True], ids=["text", "json"])
def test_a_failure_is_printed_once_where_standard_error_is_no_terminal(
    json_output: bool, broken: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["migrate", str(broken / "two.zarr"), str(tmp_path / "new.zarr")]
    assert main([*words, *(["--json"] if json_output else [])]) == 1
    error = capsys.readouterr().err
    for number in range(3):
        assert error.count(f"g/recode/{number}'") == 1
    assert error.count("h/rewrite") > 0, "what was refused before the work is in the report only"
    if not json_output:
        assert "Restore" in error or "restore" in error, "the advice is printed at the end"


def test_on_a_terminal_the_report_has_them(
    broken: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setattr(type(sys.stderr), "isatty", lambda _self: True, raising=False)
    assert main(["migrate", str(broken / "one.zarr"), str(tmp_path / "new.zarr")]) == 1
    assert capsys.readouterr().err.count("g/recode/1'") == 1


def test_failures_beyond_those_that_were_printed_are_in_the_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write_archive(tmp_path / "old.zarr")
    for number in range(25):
        (source / f"g/recode/{number}").write_bytes(b"no chunk")
    assert main(["migrate", str(source), str(tmp_path / "new.zarr"), "--workers", "1"]) == 1
    error = capsys.readouterr().err
    live = re.findall(r"zarrlift: failed: /g/recode, key 'g/recode/(\d+)'", error)
    assert len(live) == 10
    assert "(15 times)" in error


def test_a_failure_in_a_batch_names_its_archive(
    broken: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["batch", "run", str(broken), "--to", f"{tmp_path}/v3/{{relative}}.zarr"]
    assert main(words) == 1
    failures = [line for line in capsys.readouterr().err.splitlines() if "failed: /g/recode" in line]
    assert len(failures) == 6
    named = [str(broken / f"{name}.zarr") for name in ("one", "two")]
    assert [sum(f"{name}: failed: " in line for line in failures) for name in named] == [3, 3]


def test_hundreds_of_problems_of_a_list_are_no_endless_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The results of an earlier run are among the archives, and each is a destination too."""
    for number in range(40):
        for suffix in ("", "-v3"):
            path = tmp_path / f"old/a{number:03d}{suffix}.zarr"
            group = zarr.open_group(str(path), mode="w", zarr_format=2)
            group.create_array("a", data=np.arange(4), chunks=2)
    words = ["batch", "run", str(tmp_path / "old"), "--to", f"{tmp_path}/old/{{relative}}-v3.zarr"]
    words += ["--list", str(tmp_path / "batch.zarrlift.jsonl")]
    assert main(words) == 2
    error = capsys.readouterr().err
    (count,) = re.findall(r"the list has (\d+) problems, and nothing was changed: ", error)
    assert int(count) >= 40
    assert f"; and {int(count) - 10} more" in error
    assert max(len(line.replace(str(tmp_path), "")) for line in error.splitlines()) < 2000
    assert main([*words, "--json"]) == 2
    message = json.loads(capsys.readouterr().out)["error"]["message"]
    assert all(f"a{number:03d}-v3.zarr" in message for number in range(40))

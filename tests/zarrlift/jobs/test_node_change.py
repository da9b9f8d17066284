"""`migrate --dry-run --show PATH` shows exactly the document that a migration then writes."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

import pytest
from tests.support.fixtures_index import archive
from tests.support.job_archives import write_demo

import zarrlift
from zarrlift.cli import main
from zarrlift.errors import SourceChangedError
from zarrlift.jobs import node_change as module
from zarrlift.jobs.node_change import change_of, node_change
from zarrlift.report import blocks as b
from zarrlift.report.page import Page
from zarrlift.report.previews import json_lines
from zarrlift.report.text import lines as text_lines
from zarrlift.storage.local.storage import LocalStorage

SOURCES = [
    "zarr-2.18/people/ocean", "zarr-2.18/stores/consolidated", "zarr_v1/zarr-1.1/arrays",
    "n5/java-3.5.1/tree", "zarr_v3_draft/zarr-2.18/dtypes",
]  # fmt: skip


def shown(*words: str, capsys: pytest.CaptureFixture[str], code: int = 0) -> dict[str, Any]:
    assert main(["migrate", *words, "--dry-run", "--json"]) == code
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer.get("result", answer.get("error"))


@pytest.fixture
def demo(tmp_path: Path) -> Path:
    return write_demo(tmp_path / "demo")


@pytest.mark.parametrize("name", SOURCES)
def test_what_is_shown_is_what_is_written_consolidated_metadata_included(name: str, tmp_path: Path) -> None:
    source = archive(name).path
    recipe = zarrlift.Recipe(base=zarrlift.ArrayRecipe(codecs="zstd:1", shards="2x"), consolidate=True)
    plan = zarrlift.plan(source, tmp_path / "new", recipe=recipe)
    changes = {node.path: change_of(node, plan, LocalStorage(source)) for node in plan.published}
    outcome = zarrlift.migrate(source, tmp_path / "new", recipe=recipe)
    assert outcome.arrays_done == len(plan.arrays), "what failed would be missing in consolidated metadata"
    for change in changes.values():
        ((key, document),) = change.after.items()
        written = (tmp_path / "new" / key).read_text()
        assert json.dumps(document) == json.dumps(json.loads(written))
        for old, content in change.before.items():
            assert json.loads((source / old).read_bytes()) == content
    assert ("consolidated_metadata" in changes[""].after["zarr.json"]) == plan.consolidate


@pytest.mark.parametrize("format", ["ocean.zarr", "cells.n5"])
def test_in_place_too(format: str, demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = demo / format
    paths = [node.path for node in zarrlift.inspect(place).nodes]
    found = [shown(str(place), "--in-place", "--show", path or "/", capsys=capsys) for path in paths]
    assert not list(place.rglob("zarr.json"))
    assert main(["migrate", str(place), "--in-place", "-q"]) == 0
    for each in found:
        for key, document in each["after"].items():
            assert document == json.loads((place / key).read_text())


def test_all_members_are_there_and_nothing_is_written(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(demo.rglob("*"))
    words = [str(demo / "ocean.zarr"), str(demo / "new"), "--show", "/sst", "--chunks", "6,45,90"]
    change = shown(*words, capsys=capsys)
    assert (change["path"], change["kind"], [*change["before"]]) == (
        "sst", "array", ["sst/.zarray", "sst/.zattrs"],
    )  # fmt: skip
    assert main(["migrate", *words, "--dry-run"]) == 0
    text = capsys.readouterr().out
    for expected in ('"chunks": [4, 45, 90]', '"chunk_shape": [6, 45, 90]', '"dtype": "<i2"', '"int16"',
                     '"fill_value": -32768', '"dimension_names"', '"_ARRAY_DIMENSIONS"', '"id": "zlib"',
                     '"name": "gzip"'):  # fmt: skip
        assert expected in text
    assert text.endswith("Nothing has been written.\n")
    assert sorted(demo.rglob("*")) == before


WRONG = {
    "--dry-run --show sts": r"no node /sts; expected /, /lat, /lon, /sst, /time. Did you mean '/sst'\?",
    "--dry-run --show lat --exclude lat": "nothing is written for /lat; found excluded by the recipe",
    "--show lat": "expected --dry-run",
}


@pytest.mark.parametrize("words", WRONG)
def test_a_path_without_an_answer_is_one_line(
    words: str, demo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["migrate", str(demo / "ocean.zarr"), str(demo / "new.json"), *words.split()]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert re.search(WRONG[words], line)


def test_a_refused_node_is_its_refusal(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (demo / "ocean.zarr/lat/.zarray").write_text("{")
    error = shown(str(demo / "ocean.zarr"), "--show", "lat", capsys=capsys, code=1)
    assert (error["kind"], error["node"], error["key"]) == ("metadata", "lat", "lat/.zarray")


def test_a_document_that_changes_meanwhile_is_not_shown(demo: Path, monkeypatch: Any) -> None:
    plan_of = module.ArchiveRequest.plan_of

    def change(self: Any, ends: Any) -> Any:
        plan = plan_of(self, ends)
        (demo / "ocean.zarr/lat/.zattrs").write_text("{}")
        return plan

    monkeypatch.setattr(module.ArchiveRequest, "plan_of", change)
    with pytest.raises(SourceChangedError, match=r"lat/\.zattrs"):
        node_change("lat", demo / "ocean.zarr", None, recipe=None)


def test_a_document_that_is_not_json_is_shown_as_text(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("plain\ntext")
    content = {"a": module.digest(b"plain\ntext")}
    assert module._documents(LocalStorage(tmp_path), content) == {"a": "plain\ntext"}


@pytest.mark.parametrize("width", [80, 140])
def test_the_lines_of_large_consolidated_metadata_are_counted(width: int) -> None:
    before, after = ({f"a{n}": {"zarr_format": form, "shape": [n]} for n in range(2000)} for form in (2, 3))
    block = b.Change(json_lines({"metadata": before}), json_lines({"metadata": after}), ("old", "new"))
    some = [*text_lines([block], Page(width=width))]
    assert len(some) < 410
    assert re.fullmatch(r"  and [0-9,]+ more lines \(--all shows them\)", some[-1])
    everything = "\n".join(text_lines([block], Page(width=width, everything=True)))
    assert '"a1999": {"zarr_format": 2, "shape": [1999]}' in everything
    assert '"a1999": {"zarr_format": 3, "shape": [1999]}' in everything


# ----- on terminals


def on_terminal(words: list[str], columns: int, **environment: str) -> str:
    """What a command prints on a terminal of this width."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    command = [sys.executable, "-m", "zarrlift", *words]
    inherited = {name: text for name, text in os.environ.items() if name not in ("COLUMNS", "NO_COLOR")}
    environment = {**inherited, "TERM": "xterm", **environment}
    with subprocess.Popen(command, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        text = b""
        try:
            while data := os.read(ours, 65536):
                text += data
        except OSError:  # the end, on Linux
            pass
    os.close(ours)
    assert process.returncode in (0, 1)
    return text.decode().replace("\r\n", "\n")


@pytest.mark.slow(one_in=3)
@pytest.mark.parametrize("columns", [80, 140])
@pytest.mark.parametrize("command", ["show", "diff"])
def test_a_terminal_has_colours_and_its_width(command: str, columns: int, demo: Path) -> None:
    ocean, cells = str(demo / "ocean.zarr"), str(demo / "cells.n5")
    words = {"show": ["migrate", ocean, "-n", "--show", "sst"], "diff": ["diff", ocean, cells]}[command]
    coloured = on_terminal(words, columns)
    plain = on_terminal(words, columns, NO_COLOR="1")
    assert "\x1b[31m" in coloured
    assert "\x1b" not in plain
    assert re.sub(r"\x1b\[[0-9]*m", "", coloured) == plain
    assert max(map(len, plain.splitlines())) <= columns
    if command == "show":
        assert ('"shape": [12, 90, 180],    ' in plain) == (columns == 140), "side by side"
        assert ('\n-   "dtype": "<i2"' in plain) == (columns == 80), "unified"

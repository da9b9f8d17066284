"""What a microscopist and a climate scientist are told on their way, from the first look to the last file."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
import zarr
from tests.support.job_archives import write_demo

from zarrlift.cli import main

OFFER = "--set multiscale=ome"


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the archives of `zarrlift demo`, in which commands run."""
    monkeypatch.chdir(write_demo(tmp_path / "demo"))
    return tmp_path / "demo"


def said(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    """What a command prints on both streams, in one line."""
    assert main(list(words)) == code
    return " ".join("".join(capsys.readouterr()).split())


def test_a_pyramid_that_is_found_is_offered_until_it_is_converted(
    demo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (
        ("inspect", "cells.n5"),
        ("migrate", "cells.n5", "a", "--dry-run"),
        ("migrate", "cells.n5", "a"),
    ):
        text = said(capsys, *words)
        assert text.count(OFFER) == 1, words
    converted = ("migrate", "cells.n5", "b", *OFFER.split())
    assert OFFER not in said(capsys, *converted, "--dry-run") + said(capsys, *converted)
    groups = [json.loads(path.read_text()) for path in (demo / "b").rglob("zarr.json")]
    assert any("ome" in group["attributes"] for group in groups)
    for words in (("inspect", "ocean.zarr"), ("inspect", "spots.zarr")):
        assert OFFER not in said(capsys, *words)


def test_a_complete_copy_ends_with_one_page_and_no_files_beside_it(
    demo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = said(capsys, "migrate", "spots.zarr", "spots-v3.zarr", "--shards", "auto")
    (amounts,) = re.findall(r"[0-9]+ -> [0-9]+ objects, \S+ \S+ -> \S+ \S+(?= in )", done)
    plan = said(capsys, "migrate", "spots.zarr", "other.zarr", "--shards", "auto", "--dry-run")
    assert amounts.split(",")[0] in plan
    assert f"result {amounts}" in said(capsys, "status", "spots-v3.zarr", "--html", "spots.html")
    page = (demo / "spots.html").read_text()
    assert amounts in page.replace("&gt;", ">")
    assert page.count("<img") > 1
    assert len(page) < 1_000_000
    assert not re.search(r"(src|href)=\"(?!data:)", page)
    said(capsys, "verify", "spots.zarr", "spots-v3.zarr", "--full")
    said(capsys, "finish", "spots-v3.zarr", "--yes")
    assert not [path.name for path in demo.iterdir() if ".zarrlift." in path.name]


def test_what_a_copy_changes_or_leaves_behind_is_said_once_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    root = zarr.open_group("old.zarr", mode="w", zarr_format=2)
    for name in "abcde":
        limits = {"valid_max": math.inf, "flags": [1.0, math.nan]}
        root.create_array(name, data=np.arange(4), chunks=(2,), attributes=limits)
    (tmp_path / "old.zarr/README.txt").write_text("how it was measured")
    (tmp_path / "old.zarr/a/notes.txt").write_text("calibrated")
    text = said(capsys, "migrate", "old.zarr", "new.zarr")
    assert "a number that JSON does not have is written as a string (10 times)" in text
    assert text.count("found /valid_max: Infinity") == text.count("found /flags/1: NaN") + 1 == 2
    assert text.count("--set attributes=keep") == 1
    assert "key 'README.txt': a file that belongs to no node is not copied" in text
    assert "/a: objects of no chunk are not copied; found 1: 'notes.txt'" in text
    assert "written as a string" not in said(capsys, "migrate", "old.zarr", "new.zarr")

"""Wrong command lines: each message says what is wrong, where, and what would be right, in one line."""

from __future__ import annotations

import re
import shlex
import shutil

import pytest
from tests.support.damaged_archives import run

from zarrlift.cli import main

WRONG = """
migrate
migrate ocean.zarr
migrate nope.zarr out.zarr
migrate ocen.zarr out.zarr
migrate ocean.zarr ocean.zarr
migrate ocean.zarr ocean.zarr/inside.zarr
migrate ocean.zarr done.zarr --codecs zstd:3
migrate ocean.zarr notes.txt
migrate ocean.zarr out.zip
migrate notes.txt out.zarr
migrate empty out.zarr
migrate half.zarr.zip out.zarr
migrate ocean.zarr/.zgroup out.zarr
migrate ocean.zarr out.zarr --in-place
migrate done.zarr --in-place
migrate ocean.zarr out.zarr --codecs zstd:99
migrate ocean.zarr out.zarr --codecs zstdd
migrate ocean.zarr out.zarr --codecs blosc:zstd:5:shufle
migrate ocean.zarr out.zarr --chunks a,b
migrate ocean.zarr out.zarr --chunks 0,1
migrate ocean.zarr out.zarr --shards 0
migrate ocean.zarr out.zarr --dtype int3
migrate ocean.zarr out.zarr --include nothing
migrate ocean.zarr out.zarr --memory lots
migrate ocean.zarr out.zarr --workers 0
migrate ocean.zarr out.zarr --recipe nope.toml
migrate ocean.zarr out.zarr --recipe notes.txt
migrate ocean.zarr out.zarr --model nope.json
migrate ocean.zarr out.zarr --source-through chace
migrate ocean.zarr out.zarr --executor daks
migrate ocean.zarr out.zarr --for gdall
migrate ocean.zarr out.zarr --conventions omee
migrate ocean.zarr out.zarr --from n5
migrate ocean.zarr out.zarr --storage-options anon
migrate ocean.zarr out.zarr --storage-options anon=true
migrate ocean.zarr out.zarr --job folder
migrate ocean.zarr out.zarr --part 0
migrate ocean.zarr xyz://bucket/out.zarr
migrate xyz://bucket/a.zarr out.zarr
migrate icechunk:///nope out.zarr
migrate ocean.zarr out.zarr --set key-encoding=v3
migrate ocean.zarr out.zarr --set chunks=1,1
migrate ocean.zarr out.zarr --set endain=big
migrate ocean.zarr out.zarr --set endian
migrate ocean.zarr out.zarr --job 4
migrate --job 4 --part 0
migrate --job done.zarr.zarrlift.db --part 0 --max-document-size much
update done.zarr --job 4 --dry-run
migrate ocean.zarr icechunk://repo --set separator=.
migrat ocean.zarr out.zarr
migrate ocean.zarr out.zarr --codec zstd:3
inspect empty
inspect ocean.zarr --storage-options dst:anon=true
migrate ocean.zarr out.zarr --parts 2
status done
status doen.zarr.zarrlift.db
resume cells.n5
verify ocean.zarr empty
migrate ocean.zarr out.zarr -n --show sts
migrate ocean.zarr out.zarr --show sst
diff ocean.zarr nope.zarr
diff ocean.zarr cells.n5 --from zarr2
undo nope.zarr --yes
undo done.zarr
finish done.zarr --yes
batch run
batch run folder
batch run folder --to done.zarr
list readers gdall
list reader
model validate ocean.zarr nope.json
completion tcsh
""".strip().splitlines()
TELLS = re.compile(
    r"expected |Did you mean|is not one of|Possible options|To take it back"
    r"|\b(Give|Use|Choose|Check|Undo|Name|Unpack|Correct|Copy|Install) "
)
"""What a message ends with: what would be right, or what to do."""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with two archives, a finished job, and what is no archive."""
    folder = tmp_path_factory.mktemp("wrong")
    assert main(["demo", str(folder / "demo")]) == 0
    shutil.copytree(folder / "demo", folder / "folder" / "demo")
    for name in ("ocean.zarr", "cells.n5"):
        (folder / "demo" / name).rename(folder / name)
    (folder / "notes.txt").write_text("text")
    (folder / "half.zarr.zip").write_bytes(b"PK\3\4 and no end")
    (folder / "empty").mkdir()
    assert main(["migrate", str(folder / "ocean.zarr"), str(folder / "done.zarr"), "--quiet"]) == 0
    return folder


@pytest.mark.parametrize("line", WRONG)
def test_a_wrong_command_is_told_what_would_be_right(line, place, monkeypatch):
    monkeypatch.chdir(place)
    before = sorted(path.name for path in place.iterdir())
    ran = run(*shlex.split(line))
    assert ran.code in (1, 2)
    said = [text for text in ran.err.splitlines() if text and not text.startswith(("Usage:", "Try "))]
    assert len(said) == 1, ran.err
    assert said[0].startswith(("zarrlift: ", "Error: "))
    assert TELLS.search(said[0]), said[0]
    assert sorted(path.name for path in place.iterdir()) == before, "nothing is left about"

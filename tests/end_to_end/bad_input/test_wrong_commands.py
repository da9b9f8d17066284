"""Wrong command lines: one line says what is wrong and what would be right, and nothing is changed."""

from __future__ import annotations

import functools
import os
import re
import shlex

import pytest
from tests.support import web_servers
from tests.support.damaged_archives import run
from tests.support.job_archives import tree, write_demo

from zarrlift.cli import main

WRONG = """
migrate ocean.zarr WEB/out.zarr  # exits 1
migrate
migrate ocean.zarr
migrate nope.zarr out.zarr
migrate ocen.zarr out.zarr
migrate ocean.zarr ocean.zarr
migrate ocean.zarr ocean.zarr/inside.zarr
migrate ocean.zarr done.zarr --codecs zstd:3  # exits 1
migrate ocean.zarr notes.txt
migrate ocean.zarr out.zip
migrate notes.txt out.zarr
migrate empty out.zarr
migrate half.zarr.zip out.zarr
migrate ocean.zarr/.zgroup out.zarr
migrate ocean.zarr out.zarr --in-place
migrate done.zarr --in-place  # exits 1
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
migrate ocean.zarr out.zarr --conventions omee
migrate ocean.zarr out.zarr --from n5
migrate ocean.zarr out.zarr --storage-options anon
migrate ocean.zarr out.zarr --storage-options anon=true
migrate ocean.zarr out.zarr --job folder  # exits 1
migrate ocean.zarr xyz://bucket/out.zarr
migrate xyz://bucket/a.zarr out.zarr
migrate icechunk:///nope out.zarr
migrate ocean.zarr out.zarr --set key-encoding=v3
migrate ocean.zarr out.zarr --set chunks=1,1
migrate ocean.zarr out.zarr --set endain=big
migrate ocean.zarr out.zarr --set endian
migrate ocean.zarr out.zarr --job 4
update done.zarr --job 4 --dry-run
migrate ocean.zarr icechunk://repo --set separator=.
migrat ocean.zarr out.zarr
migrate ocean.zarr out.zarr --codec zstd:3
inspect empty
inspect ocean.zarr --storage-options dst:anon=true
status done  # exits 1
status doen.zarr.zarrlift.db  # exits 1
resume cells.n5  # exits 1
verify ocean.zarr empty
verify ocean.zarr nope.zarr
verify ocean.zarr cells.n5 --from zarr2,zarr2
undo nope.zarr --yes  # exits 1
undo done.zarr
finish done.zarr --yes  # exits 1
batch run
batch run folder
batch run folder --to done.zarr
model validate ocean.zarr nope.json
completion tcsh
migrate out.zarr ocean.zarr
migrate done.zarr.zarrlift.db out.zarr
migrate ocean.zarr/sst/.zarray out.zarr
migrate ocean.zarr folder
migrate ocean.zarr cells.n5
migrate ocean.zarr out.zarr extra
migrate ocean.zarr ""
migrate ocean.zarr /proc/out.zarr  # exits 1
migrate --in-place ocean.zarr cells.n5
migrate ocean.zarr --in-place --overwrite
migrate cells.n5 --in-place --axes reversed
migrate ocean.zarr out.zarr --exclude **
migrate ocean.zarr out.zarr --memory 8 GB
migrate ocean.zarr out.zarr --memory 512
migrate ocean.zarr out.zarr --bwlimit fast
migrate ocean.zarr out.zarr --max-document-size 9
migrate ocean.zarr out.zarr --set allow-fallback=maybe
migrate ocean.zarr out.zarr --chunks 64x64x64
migrate ocean.zarr out.zarr --codecs zstd,3
migrate ocean.zarr out.zarr --codecs '[{"name":"gzip"'
migrate ocean.zarr out.zarr --set order=Z
migrate ocean.zarr out.zarr --casting unsafe
migrate ocean.zarr out.zarr --verify all
migrate ocean.zarr out.zarr --from zarr4
migrate ocean.zarr out.zarr --recipe folder
migrate ocean.zarr out.zarr --log folder
migrate ocean.zarr out.zarr --executor threads=tcp://127.0.0.1:1
migrate ocean.zarr s3:/bucket/out.zarr
migrate s3:/bucket/in.zarr out.zarr
migrate s3:// out.zarr
migrate s3://bucket/in.zarr out.zarr
migrate s3://bucket/in.zarr out.zarr --storage-options profile=nope
migrate s3://bucket/in.zarr out.zarr --storage-options secert=x
migrate s3://bucket/in.zarr out.zarr --storage-options key=x
migrate sftp://host/in.zarr out.zarr
ocean.zarr out.zarr
convert ocean.zarr out.zarr
--dry-run migrate ocean.zarr out.zarr
batch status
model check ocean.zarr
list
resume folder  # exits 1
resume notes.txt  # exits 1
resume done.zarr --only x
status ocean.zarr cells.n5
status done.zarr --html folder  # exits 1
update done.zarr --chunks 1
batch run nope.jsonl --to x
batch run nope.jsonl  # exits 1
batch list
batch list folder
batch list done.zarr --to x --output x.csv
batch run folder --to v3/{nmae}.zarr
demo demo
list formats
""".strip().splitlines()
TELLS = re.compile(
    r"expected |[Dd]id you mean|is not an option of .*, but of|To take it back"
    r"|\b(Give|Use|Choose|Check|Undo|Name|name|Unpack|Correct|Copy|Install|Make|Are the two) "
    r"|A URL has two slashes: |a public bucket, give |No such file or directory|Run: "
)
"""What a message ends with: what would be right, or what to do."""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with two archives, a finished job, and what is no archive."""
    folder = tmp_path_factory.mktemp("wrong")
    write_demo(folder / "demo")
    write_demo(folder / "folder" / "demo")
    for name in ("ocean.zarr", "cells.n5"):
        (folder / "demo" / name).rename(folder / name)
    (folder / "notes.txt").write_text("text")
    (folder / "half.zarr.zip").write_bytes(b"PK\3\4 and no end")
    (folder / "empty").mkdir()
    assert main(["migrate", str(folder / "ocean.zarr"), str(folder / "done.zarr"), "--quiet"]) == 0
    return folder


@pytest.fixture(scope="module")
def web(place):
    """The URL of a web server that takes no files."""
    with web_servers.serving(functools.partial(web_servers.Files, directory=str(place))) as url:
        yield url


@pytest.fixture(scope="module")
def before(place):
    return content(place)


def content(place):
    """Every file and directory below a path."""
    return tree(place), sorted(path for path in place.rglob("*") if path.is_dir())


@pytest.mark.slow(one_in=7)
@pytest.mark.parametrize("line", WRONG)
def test_a_wrong_command_is_told_what_would_be_right(line, place, web, before, monkeypatch):
    monkeypatch.chdir(place)
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(place / "empty"))
    monkeypatch.setenv("USERPROFILE", str(place / "empty"))
    command, _, code = line.partition("  # exits ")
    ran = run(*shlex.split(command.replace("WEB", web)))
    assert ran.code == int(code or 2)
    said = ran.err.splitlines()
    assert len(said) == 1, ran.err
    assert said[0].startswith("zarrlift: ")
    assert TELLS.search(said[0]), said[0]
    assert content(place) == before, "nothing is changed or left about"

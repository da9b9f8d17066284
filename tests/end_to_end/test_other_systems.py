"""macOS, as far as Linux can show it: whole workflows without what it lacks.

`tests/support/other_system` has the table of what is taken away.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.fixtures_index import archive
from tests.support.job_archives import results, write_archive

import zarrlift
from zarrlift.cli import main
from zarrlift.storage.local import storage as local_storage
from zarrlift.storage.local.storage import LocalStorage
from zarrstack.core.errors import UsageError

ROOT = Path(__file__).parents[2]
OTHER_SYSTEM = ROOT / "tests/support/other_system"
ARCHIVES = (
    "zarr-2.18/stores/directory",
    "zarr_v1/zarr-1.1/root",
    "n5/java-3.5.1/root",
    "zarr_v3_draft/zarr-2.18/root_array",
)
RUN = """
import os, sys, zarrlift
from pathlib import Path
from zarrlift.cli import main
from zarrlift.storage.local import writer

def run(*words, code=0):
    assert main(list(map(str, words))) == code, words

folder, *arguments = sys.argv[1:]
os.chdir(folder)
"""


def told(script: str, *arguments: str | Path, code: int = 0, **changed: str) -> str:
    """What a process prints that seems to run on macOS."""
    parts = [OTHER_SYSTEM, ROOT, os.environ.get("PYTHONPATH", "")]
    environment = {
        "PYTHONPATH": os.pathsep.join(map(str, parts)),
        "ZARRLIFT_AS": "darwin",
    }
    ran = subprocess.run(
        [sys.executable, "-c", RUN + script, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | environment | changed,
    )
    assert ran.returncode == code, ran.stdout + ran.stderr
    return ran.stdout + ran.stderr


# ----- workflows


@pytest.mark.slow(one_in=6)
@pytest.mark.parametrize("options", [(), ("--shards", "auto"), ("--codecs", "zstd:3", "--workers", "2")])
def test_each_format_becomes_the_same_bytes(options: tuple[str, ...], tmp_path: Path) -> None:
    script = """
*options, sources = arguments
for source in sources.split(os.pathsep):
    place = Path(source).name
    run("inspect", source)
    run("migrate", "--dry-run", source, place, *options)
    run("migrate", source, place, *options, "--fsync", "--log", "run.jsonl", "--quiet")
    run("verify", source, place, "--full")
    run("status", place, "--html", "report.html")
"""
    sources = [archive(name).path for name in ARCHIVES]
    told(script, tmp_path, *options, os.pathsep.join(map(str, sources)))
    assert b"\r" not in (tmp_path / "run.jsonl").read_bytes() + (tmp_path / "report.html").read_bytes()
    for source in sources:
        assert main(["migrate", str(source), str(tmp_path / "expected" / source.name), *options]) == 0
        assert results(tmp_path / source.name) == results(tmp_path / "expected" / source.name)


KILLED = """
left, make = [12], writer.LocalWriter.publish
def publish(*options):
    left[0] -= 1
    if not left[0]:
        os._exit(9)
    make(*options)
writer.LocalWriter.publish = publish
run("migrate", *arguments, "--workers", "1")
"""


@pytest.mark.slow
def test_a_killed_job_is_resumed_updated_and_undone(tmp_path: Path) -> None:
    source, place, expected = (
        write_archive(tmp_path / "a.zarr"),
        tmp_path / "b.zarr",
        tmp_path / "expected.zarr",
    )
    told(KILLED, tmp_path, source, place, code=9)
    elsewhere = told('run("resume", *arguments, code=1)', tmp_path, place, ZARRLIFT_CARD="0x020304050608")
    assert "cannot be checked from this host" in elsewhere
    told('run("resume", *arguments)', tmp_path, place)
    zarrlift.migrate(source, expected)
    assert results(place) == results(expected)
    (source / "g/relink/0.0").write_bytes((source / "g/relink/1.1").read_bytes())
    zarrlift.update(expected)
    told('run("update", *arguments)', tmp_path, place)
    assert results(place) == results(expected)
    told('run("undo", "--yes", "--yes", *arguments)', tmp_path, place)
    assert not place.exists()


@pytest.mark.slow
def test_every_module_can_be_imported_but_those_of_other_systems(tmp_path: Path) -> None:
    script = """
import importlib, pkgutil, zarrstack

for package in (zarrstack, zarrlift):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not module.name.endswith(("__main__", "system.linux", "system.windows")):
            importlib.import_module(module.name)
"""
    told(script, tmp_path)


# ----- what is smaller


@pytest.mark.slow(one_in=2)
@pytest.mark.parametrize("is_killed", [True, False])
def test_the_disk_tier_of_a_cache_on_macos(is_killed: bool, tmp_path: Path) -> None:
    """Without the id of a boot it is not known whether what a killed process left has reached the disk."""
    script = """
import asyncio, zarr
from zarr.core.buffer import default_buffer_prototype as prototype
from zarrstack import Cache, stack
store = stack(zarr.storage.LocalStore("source"), Cache(disk="cache"))
value = asyncio.run(store.get("a", prototype()))
print(None if value is None else value.to_bytes())
sys.stdout.flush()
store.close() if arguments == ["False"] else os._exit(0)
"""
    (tmp_path / "source").mkdir()
    (tmp_path / "source/a").write_bytes(b"1")
    assert told(script, tmp_path, str(is_killed)).strip() == "b'1'"
    assert any((tmp_path / "cache/objects").rglob("*"))
    (tmp_path / "source/a").unlink()
    assert told(script, tmp_path, str(is_killed)).strip() == ("None" if is_killed else "b'1'")


def test_names_are_found_in_either_form(tmp_path: Path) -> None:
    """HFS+ lists `e` and an accent where a file was made with `é`."""
    write_archive(tmp_path / "a.zarr")
    (tmp_path / "a.zarr/h").rename(tmp_path / "a.zarr/h\u00e9")
    document = (tmp_path / "a.zarr/.zmetadata").read_text().replace('"h/', '"h\u00e9/')
    (tmp_path / "a.zarr/.zmetadata").write_text(document)
    (tmp_path / "a.zarr/h\u00e9").rename(tmp_path / "a.zarr/he\u0301")
    script = """
run("migrate", *arguments)
run("verify", *arguments, "--full")
run("undo", "--yes", "--yes", arguments[1])
"""
    told(script, tmp_path, tmp_path / "a.zarr", tmp_path / "b.zarr")
    assert not (tmp_path / "b.zarr").exists()


@pytest.mark.parametrize("key", ["a/b/0.0", "../x", "a/../../x", "a\\b", "..\\x", "C:/x", "a/b:stream", "/x"])
def test_a_key_is_a_path_below_the_root_or_refused(
    key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_storage, "_SEPARATOR", "\\")
    if key == "a/b/0.0":
        assert LocalStorage(tmp_path).path(key).endswith("a\\b\\0.0")
        return
    with pytest.raises(UsageError):
        LocalStorage(tmp_path).path(key)


def test_without_the_address_of_a_card_no_process_is_taken_for_ended(tmp_path: Path) -> None:
    """Two hosts of the same name may share a folder."""
    script = """
from dataclasses import replace
from zarrlift.storage.local.owner_process import OwnerProcess
here = OwnerProcess.of_this_process()
print([replace(here, pid=pid).state() for pid in (here.pid, 1 << 22)])
"""
    assert told(script, tmp_path).strip() == "['running', 'ended']"
    assert told(script, tmp_path, ZARRLIFT_CARD=str(1 << 40)).strip() == "['unknown', 'unknown']"


# ----- where the system is called

CALLERS = "core/node_paths system/linux system/other system/this system/windows"
"""Modules that name a system. mypy, run for each system, finds what one of them lacks in others."""


def test_systems_are_named_in_few_modules() -> None:
    named = re.compile(
        r"\bsys\.platform\b|\bos\.name\b|^ *(?:from|import) (?:fcntl|msvcrt|resource)\b", re.MULTILINE
    )
    callers = {
        file.relative_to(root).with_suffix("").as_posix()
        for root in (ROOT / "migrate/zarrlift", ROOT / "transformers/zarrstack")
        for file in root.rglob("*.py")
        if named.search(file.read_text(encoding="utf-8"))
    }
    assert callers == set(CALLERS.split())

"""Fixtures as folders: a packed fixture is unpacked when a test first uses it.

    unpacked("zarr_v2/zarr-2.18/dtypes.zarr")  # the path of a fixture: read or copy it, never write there

The cache is `fixtures/.unpacked`, or the folder that ZARRLIFT_FIXTURES names. It has one folder, named by
the hash of the manifest, so a changed fixture is never confused with an old one. All processes and runs
share it.

As a pytest plug-in, this module fails a run in which a test wrote to the cache. Every unpacked file and
folder has the same modification time; a write changes it.
"""

from __future__ import annotations

import errno
import hashlib
import importlib.util
import os
import shutil
import time
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from zarrstack.system.this import system

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"


def _load_packing() -> ModuleType:
    spec = importlib.util.spec_from_file_location("packing", FIXTURES / "writers" / "packing.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


packing = _load_packing()
"""The script that packs fixtures."""
_CACHES = Path(os.environ.get("ZARRLIFT_FIXTURES") or FIXTURES / ".unpacked")
CACHE = _CACHES / hashlib.sha256((FIXTURES / "MANIFEST.sha256").read_bytes()).hexdigest()[:16]


@cache
def unpacked(name: str) -> Path:
    """The path of a fixture by its name in the manifest."""
    path = FIXTURES / name
    if path.exists():
        return path
    file, _ = packing.packed_in(path)
    whole = packing.unpacked_as(file).relative_to(FIXTURES).as_posix()
    folder = CACHE / whole
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _lock_of(whole).open("w") as lock:
            _wait_for(lock.fileno())  # other processes wait and then find the folder
            if not folder.exists():
                part = folder.with_name(folder.name + ".part")
                shutil.rmtree(part, ignore_errors=True)  # left by a killed run
                if not _extracted(file, part):
                    pytest.skip(
                        "not everywhere: names that differ by case, or like `a:b`", allow_module_level=True
                    )
                part.rename(folder)
    return CACHE / name


@cache
def _extracted(file: Path, part: Path) -> bool:
    """Unpack a fixture; False if this file system cannot hold its names."""
    try:
        packing.extract(file, part)
    except OSError as error:
        if error.errno not in (errno.EEXIST, errno.EINVAL, errno.ENOENT):
            raise
        return False
    return True


def _wait_for(fd: int) -> None:
    while True:
        try:
            return system.lock_beside_sqlite(fd)
        except BlockingIOError:
            time.sleep(0.05)


def _lock_of(name: str) -> Path:
    return CACHE / (name.replace("/", "+") + ".lock")


def _folders() -> Iterator[Path]:
    """The folders that are unpacked now."""
    for lock in CACHE.glob("*.lock"):
        folder = CACHE / lock.stem.replace("+", "/")
        if folder.is_dir():
            yield folder


def _is_written(path: str | Path) -> bool:
    """Whether anything in a folder was modified since it was unpacked."""
    if os.stat(path).st_mtime != packing.TIME:
        return True
    with os.scandir(path) as found:
        return any(
            _is_written(entry.path)
            if entry.is_dir(follow_symlinks=False)
            else entry.stat(follow_symlinks=False).st_mtime != packing.TIME
            for entry in found
        )


class Watch:
    """Checks that the cache is unchanged at the end of a run."""

    def __init__(self) -> None:
        self.written: list[str] = []

    @pytest.hookimpl(wrapper=True, trylast=True)  # after xdist's workers have ended, before the summary
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, object, object]:
        """Fail a passed run, and remove the folders that were modified."""
        result = yield
        for folder in filter(_is_written, _folders()):
            self.written.append(folder.relative_to(CACHE).as_posix())
            shutil.rmtree(folder)
        if self.written and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        return result

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say why."""
        for name in self.written:
            text = f"FAILED a test wrote to {CACHE / name}, which was removed"
            terminalreporter.write_line(text, red=True)


def pytest_configure(config: pytest.Config) -> None:
    """Watch in the process that collects the results, and remove what belongs to another manifest."""
    if not hasattr(config, "workerinput"):
        for old in _CACHES.glob("[0-9a-f]" * 16):
            if old != CACHE:
                shutil.rmtree(old)
        config.pluginmanager.register(Watch())

"""Systems that have less than Linux: what is not there is neither imported nor called.

Nobody has tried Windows itself. A process that says it is Windows, and has lost what Windows has not, shows
that much; `go.py check` has mypy look at what is used as on Windows.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.fixtures_index import archive

from zarrlift.storage.local import storage as local_storage
from zarrlift.storage.local.files import read_at
from zarrlift.storage.local.storage import LocalStorage
from zarrstack.core.errors import UsageError

ARCHIVES = (
    "zarr-2.18/stores/directory",
    "zarr_v1/zarr-1.1/root",
    "n5/java-3.5.1/root",
    "zarr_v3_draft/zarr-2.18/root_array",
)
LESS = """
import asyncio, concurrent.futures.process, multiprocessing.connection, os, shutil, signal, sqlite3, ssl, sys
import tempfile, unittest.mock, uuid
import hypothesis, numpy, numcodecs, typer, typer.testing, zarr, zarr.testing.store, zarr.testing.utils
import numcodecs.blosc, numcodecs.zarr3, zarr.codecs.numcodecs, zarr_metadata

# zarr loads some things late.
array = zarr.create_array(sys.argv[1] + "/warm", shape=(4,), chunks=(2,), dtype="i4")
array[:] = 1
assert array[:].tolist() == [1, 1, 1, 1]

sys.platform = "win32"
for name in "fcntl grp pwd resource termios".split():
    sys.modules[name] = None
of_os = "pread pwrite preadv pwritev readv writev fork sysconf getuid geteuid killpg mkfifo register_at_fork"
of_os += " O_CLOEXEC O_DIRECTORY O_SYNC copy_file_range sendfile posix_fallocate posix_fadvise"
for name in of_os.split():
    if hasattr(os, name):
        delattr(os, name)
for name in "SIGKILL SIGHUP SIGALRM SIGXFSZ SIGUSR1 pthread_sigmask SIG_BLOCK SIG_SETMASK".split():
    delattr(signal, name)

def opened(path, flags, *rest, **more):
    if os.path.isdir(path) and not more and sys._getframe(1).f_globals["__name__"].startswith("zarr"):
        raise PermissionError(13, "Permission denied", path)  # what Windows says of a directory
    return os_open(path, flags, *rest, **more)

os_open, os.open = os.open, opened
"""


def told(script: str, *arguments: str | Path) -> str:
    """What a process prints that has lost all that."""
    command = [sys.executable, "-c", LESS + script, *map(str, arguments)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.mark.slow(one_in=3)
@pytest.mark.parametrize("options", ["", "--shards auto", "--codecs zstd:3"])
def test_archives_are_looked_at_migrated_verified_and_taken_back(options: str, tmp_path: Path) -> None:
    script = """
from zarrlift.cli import main

def run(*words):
    assert main(list(words)) == 0, words

folder, options, *sources = sys.argv[1:]
out, options = folder + "/out.zarr", options.split()
for source in sources:
    run("inspect", source)
    run("migrate", "--dry-run", source, out, *options)
    run("migrate", source, out, *options, "--fsync")
    run("verify", source, out, "--full")
    run("undo", "--yes", "--yes", out)
    assert not os.path.exists(out)
"""
    out = told(script, tmp_path, options, *(archive(name).path for name in ARCHIVES))
    for word in ("Done: ", "Equal. ", "Undone: "):
        assert out.count(word) == len(ARCHIVES), out


@pytest.mark.slow
def test_every_module_can_be_imported_and_a_cache_on_disk_says_why_it_cannot_be(tmp_path: Path) -> None:
    script = """
import importlib, pkgutil, zarrlift, zarrstack
from zarrstack.core.errors import UsageError

for package in (zarrstack, zarrlift):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)

from zarrstack.layers.cache.layer import Cache
store = zarr.storage.MemoryStore()
Cache(store)
try:
    Cache(store, disk=sys.argv[1] + "/cache")
except UsageError as error:
    print(error)
"""
    assert "file locks that Windows does not have" in told(script, tmp_path)


# ----- keys where paths have other separators


@pytest.fixture
def backslashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `os.sep` says on Windows."""
    monkeypatch.setattr(local_storage, "_SEPARATOR", "\\")


@pytest.mark.usefixtures("backslashes")
def test_keys_become_paths(tmp_path: Path) -> None:
    assert LocalStorage(tmp_path).path("a/b/0.0").endswith("a\\b\\0.0")


@pytest.mark.usefixtures("backslashes")
@pytest.mark.parametrize("key", ["../x", "a/../../x", "a\\b", "..\\x", "C:/x", "a/b:stream", "/x"])
def test_no_key_names_something_else_there(key: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        LocalStorage(tmp_path).path(key)


@pytest.mark.parametrize("platform", ["linux", "win32"])
def test_a_part_is_read_and_the_place_in_the_file_kept(
    platform: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(b"0123456789")
    monkeypatch.setattr(sys, "platform", platform)
    with (tmp_path / "file").open("rb", buffering=0) as file:
        file.read(2)
        assert read_at(file.fileno(), 3, 6) == b"678"
        assert file.read(2) == b"23"

"""The command as a process: what it imports, how signals and closed pipes end it."""

from __future__ import annotations

import gzip
import json
import os
import signal
import struct
import subprocess
import sys
from pathlib import Path

import numcodecs
import pytest
import zarr
from tests.support.processes import running

RUN = "import sys; from zarrlift.cli import main; sys.exit(main())"


def python(code, *words, **options):
    command = [sys.executable, "-c", code, *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, **options)


@pytest.mark.parametrize(
    "words", [["--help"], ["migrate", "--help"], ["--version"], ["inspect"]], ids=" ".join
)
def test_help_imports_nothing_heavy(words):
    heavy = {"numpy", "numcodecs", "zarr", "zarr_metadata", "pydantic", "sqlite3", "rich", "tqdm", "fsspec"}
    code = f"""
import sys
from zarrlift.cli import main
main()
print(sorted({heavy!r} & set(sys.modules)), file=sys.stderr)
"""
    assert python(code, *words).stderr.splitlines()[-1] == "[]"


NOT_FOR_V2 = {
    "zarr", "zarr_metadata", "numcodecs", "fsspec", "asyncio", "multiprocessing", "pydantic", "rich", "tqdm",
    "importlib.metadata", "email", "zipfile", "secrets", "tomllib",
    "zarrlift.cli.inspect_commands", "zarrlift.cli.model_commands", "zarrlift.cli.serve_command",
    "zarrlift.conventions.hdmf.arrays", "zarrlift.conventions.n5.pyramids", "zarrlift.formats.n5.nodes",
    "zarrlift.formats.outside", "zarrlift.formats.zarr_v1", "zarrlift.formats.zarr_v3.nodes",
    "zarrlift.models",
    "zarrlift.planning.n5_in_place", "zarrlift.recipe.toml_file", "zarrlift.storage.remote.zarr_store",
    "zarrlift.verification.before_publishing",
    "zarrlift.core.codecs.hdmf", "zarrlift.core.draft_v3.nodes",
}  # fmt: skip
"""What a plain local archive of Zarr v2 is migrated without: each takes time at every start."""
NOT_FOR_N5 = NOT_FOR_V2 - {"zarrlift.conventions.n5.pyramids", "zarrlift.formats.n5.nodes"}


def small_v2(path):
    blosc = numcodecs.Blosc()
    zarr.create_array(path, shape=(4,), chunks=(2,), dtype="<u2", zarr_format=2, compressors=blosc)[:] = 1


def small_n5(path):
    path.mkdir()
    grid = {"dimensions": [4], "blockSize": [2], "dataType": "uint16"}
    document = {"n5": "2.0.0", **grid, "compression": {"type": "gzip", "level": -1}}
    (path / "attributes.json").write_text(json.dumps(document))
    (path / "0").write_bytes(struct.pack(">HHI", 0, 1, 2) + gzip.compress(b"\0\1\0\2"))


SMALL = {"zarr2": small_v2, "n5": small_n5}


@pytest.mark.slow(one_in=2)
@pytest.mark.parametrize("check", ["none", "sample"])
@pytest.mark.parametrize(("format", "without"), [("zarr2", NOT_FOR_V2), ("n5", NOT_FOR_N5)])
def test_a_small_archive_is_migrated_without(format, without, check, tmp_path):
    source = tmp_path / "old"
    SMALL[format](source)
    # The installed command itself, which ends its process at once: what is loaded is told before that.
    code = """
import os, sys
from zarrlift.cli import entry
me, end = os.getpid(), os._exit
def tell(code):
    if os.getpid() == me:
        print(code, *sorted(sys.modules), file=sys.stderr, flush=True)
    end(code)
os._exit = tell
entry()
"""
    done = python(code, "migrate", str(source), str(tmp_path / "new"), "--verify", check)
    code, *loaded = done.stderr.splitlines()[-1].split()
    assert code == "0"
    assert "numpy" in loaded
    assert sorted(without & {*loaded}) == []


def test_the_installed_command_is_this_one():
    from importlib.metadata import entry_points

    (entry,) = entry_points(group="console_scripts", name="zarrlift")
    assert entry.value == "zarrlift.cli:entry"


FAKE = """
import os, sys, signal, time
import zarrlift
from zarrstack.core.errors import JobError

def work(*args, **options):
    try:
        print("ready", flush=True)
        time.sleep(50)
    finally:
        {cleanup}
def status(*args, **options):
    raise JobError("none")
zarrlift.migrate = work
zarrlift.status = status
from zarrlift.cli import main
sys.exit(main())
"""


def interrupted(numbers, cleanup="pass"):
    """Start a migration that never ends, send signals, give exit code and error text."""
    lines = []
    with running([sys.executable, "-c", FAKE.format(cleanup=cleanup), "migrate", "a", "b"]) as process:
        for number in numbers:
            lines.append(process.stdout.readline())
            process.send_signal(number)
        _, err = process.communicate(timeout=60)
    assert set(lines) == {"ready\n"}
    return process.returncode, err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
def test_a_signal_ends_with_130_and_one_line(number):
    code, err = interrupted([number])
    assert code == 130
    assert err == "zarrlift: interrupted. No job was started; run the same command again.\n"


STOPPED_AT_THE_START = """
import sys
class Stop:
    def find_spec(self, name, *_):
        if name == "typer":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Stop())
from zarrlift.cli import entry
entry()
"""


LOADED_ONCE = """
import sys
from zarrlift.jobs.processes import process_tuning as process
process.ours = True
process.before_loading()
from zarrlift.jobs.checks import checks_process as ahead
ahead.begin()
print(sorted({"numpy", "zarr", "numcodecs", "typer", "zarrlift.jobs.api"} & set(sys.modules)))
print(ahead.take() is not None)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere results are checked in the same process")
@pytest.mark.parametrize("threads", [None, "2"])
def test_what_both_processes_need_is_loaded_before_the_fork(threads):
    environment = {name: text for name, text in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    if threads is not None:  # numpy would start them, and a process with threads cannot be forked
        environment["OPENBLAS_NUM_THREADS"] = threads
    done = python(LOADED_ONCE, env=environment)
    assert done.stdout.splitlines() == ["['numpy']", "True"], done.stderr


BROKEN_NUMPY = """
import sys
class Broken:
    def find_spec(self, name, *_):
        if name == "numpy":
            raise ImportError("numpy is broken")
sys.meta_path.insert(0, Broken())
from zarrlift.cli import entry
entry()
"""


def test_a_package_that_cannot_be_loaded_is_no_traceback(tmp_path):
    zarr.create_array(tmp_path / "a", shape=(1,), dtype="u1", zarr_format=2)
    done = python(BROKEN_NUMPY, "migrate", str(tmp_path / "a"), str(tmp_path / "b"))
    assert done.returncode == 1
    assert "numpy is broken" in done.stderr
    assert "Traceback" not in done.stderr


def test_ctrl_c_before_a_command_has_begun_is_no_traceback():
    done = python(STOPPED_AT_THE_START, "migrate", "a", "b")
    assert done.returncode == 130
    assert done.stderr == "zarrlift: interrupted. Nothing was changed.\n"


def test_a_second_ctrl_c_ends_at_once():
    code, err = interrupted(
        [signal.SIGINT, signal.SIGINT], cleanup='print("ready", flush=True); time.sleep(50)'
    )
    assert code == 130
    assert "Traceback" not in err


def test_a_reader_that_goes_away_is_no_error():
    read, write = os.pipe()
    os.close(read)
    code = """
import sys
import zarrlift
sys.path.insert(0, sys.argv.pop(1))
from tests.support import report_examples
zarrlift.plan = lambda *args, **options: report_examples.MANY
from zarrlift.cli import main
sys.exit(main())
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(Path(__file__).parents[3]), "migrate", "-n", "a", "--all"],
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=60,
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (1, "zarrlift: 40 nodes are refused.\n")


def test_a_name_that_the_terminal_cannot_encode_is_escaped():
    code = """
import zarrlift
from zarrlift.archive.nodes import Archive, GroupNode
archive = Archive(url="x", format="zarr2", nodes=(GroupNode(path=""), GroupNode(path="\\u753b")))
zarrlift.inspect = lambda *args, **options: archive
from zarrlift.cli import main
main()
"""
    done = python(code, "inspect", "x", env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert "\\u753b" in done.stdout
    assert done.returncode == 0

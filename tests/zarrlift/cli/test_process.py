"""The command as a process: what it imports, what ends it; and over real archives, from first to last."""

from __future__ import annotations

import gzip
import json
import os
import re
import signal
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import numcodecs
import numpy as np
import pytest
import zarr
from tests.support.job_archives import write_archive
from tests.support.job_processes import running
from tests.support.v2_trees import array

from zarrlift.cli import main
from zarrstack.system.this import system


def python(code, *words, **options):
    command = [sys.executable, "-c", code, *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, **options)


def test_help_imports_nothing_heavy():
    heavy = {"numpy", "numcodecs", "zarr", "zarr_metadata", "sqlite3", "tqdm", "fsspec", "zarrlift.models"}
    code = f"""
import sys
from zarrlift.cli import main
for words in ["--help"], ["migrate", "--help"], ["--version"], ["inspect"]:
    main(words)
print(sorted({heavy!r} & set(sys.modules)), file=sys.stderr)
"""
    assert python(code).stderr.splitlines()[-1] == "[]"


WITHOUT_OTHERS = """
import sys
class Broken:
    def find_spec(self, name, *_):
        if name.partition(".")[0] in %r:
            raise ImportError(f"{name} is broken")
sys.meta_path.insert(0, Broken())
from zarrlift.cli import main
for words in %r:
    assert main(words) == 0, words
"""
OF_EXTRAS = (
    *("zarr_metadata", "jsonschema_rs", "pydantic_zarr", "msgpack", "xxhash", "zarr_n5", "imagecodecs"),
    *("pcodec", "zfpy", "lmdb", "icechunk", "obstore", "arro3", "botocore", "aiohttp", "distributed", "dask"),
)
OTHERS = ("pydantic", "pydantic_core", "typer", "click", "rich", "shtab", *OF_EXTRAS)


def test_no_package_is_needed_to_read_the_command_line(tmp_path):
    """A pydantic_core that could not be loaded once stopped every command."""
    zarr.create_array(tmp_path / "a", shape=(1,), dtype="u1", zarr_format=2)
    places = [str(tmp_path / "a"), str(tmp_path / "b")]
    commands = (
        ["--help"], ["--version"], ["migrate", "-h"], ["completion", "bash"], ["inspect", places[0]],
        ["migrate", *places], ["verify", *places], ["status", places[1]], ["model", "show", places[0]],
        ["batch", "run", places[0], "--to", str(tmp_path / "c" / "{name}"), "-n"],
    )  # fmt: skip
    done = python(WITHOUT_OTHERS % (OTHERS, commands))
    assert done.returncode == 0, done.stderr


NOT_FOR_V2 = {
    "zarr", "zarr_metadata", "numcodecs", "fsspec", "asyncio", "multiprocessing", "pydantic", "rich", "tqdm",
    "importlib.metadata", "email", "zipfile", "secrets", "tomllib",
    "zarrlift.cli.model_commands", "zarrlift.cli.status_command", "zarrlift.cli.suggestions",
    "zarrlift.conventions.hdmf.arrays", "zarrlift.conventions.n5.pyramids", "zarrlift.formats.n5",
    "zarrlift.formats.zarr_v1", "zarrlift.formats.zarr_v3",
    "zarrlift.models",
    "zarrlift.planning.n5_checks", "zarrlift.recipe.toml_file", "zarrlift.storage.remote.store_storage",
    "zarrlift.verification.before_publishing",
    "zarrlift.core.codecs.hdmf", "zarrlift.core.draft_v3.nodes",
}  # fmt: skip
"""What a plain local archive of Zarr v2 is migrated without: each takes time at every start."""
NOT_FOR_N5 = NOT_FOR_V2 - {
    "zarrlift.conventions.n5.pyramids", "zarrlift.formats.n5", "zarrlift.planning.n5_checks",
}  # fmt: skip


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


@pytest.mark.slow(one_in=5)
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


STOPPING = "zarrlift: Stopping: unfinished objects are given up. Ctrl-C again ends at once.\n"


STOPPED_AT_THE_START = """
import sys
class Stop:
    def find_spec(self, name, *_):
        if name == "argparse":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Stop())
from zarrlift.cli import entry
entry()
"""


LOADED_ONCE = """
import sys
from zarrlift.jobs import process_tuning as process
process.ours = True
process.before_loading()
from zarrlift.jobs import checks
checks.begin_process()
print(sorted({"numpy", "zarr", "numcodecs", "argparse", "zarrlift.jobs.api"} & set(sys.modules)))
print(len(checks._begun) == 1)
"""


@pytest.mark.slow(one_in=2)
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


STOPPED_WHILE_NUMPY_LOADS = """
import os, signal, sys
class Numpy:
    def find_spec(self, name, *_):
        if name == "numpy":
            try:
                signal.raise_signal(signal.SIGINT)
            except KeyboardInterrupt:  # as in C
                raise ImportError("PyCapsule_Import could not import module datetime")
sys.meta_path.insert(0, Numpy())
from zarrlift.cli import entry
entry()
"""


@pytest.mark.parametrize("words", [("migrate", "a", "b"), ("migrate", "a", "b", "--dry-run")])
def test_ctrl_c_while_numpy_loads_is_no_broken_package(words):
    """With `--dry-run`, the command loads it, and not what begins the checks."""
    done = python(STOPPED_WHILE_NUMPY_LOADS, *words)
    assert done.returncode == 130
    assert done.stderr.endswith("zarrlift: interrupted. Nothing was changed.\n")


@pytest.mark.slow(one_in=2)
@pytest.mark.parametrize("encoding", ["ascii", "cp437"])
def test_a_name_that_the_terminal_cannot_encode_is_escaped(encoding):
    code = """
import zarrlift
from zarrlift.archive.nodes import Archive, GroupNode
archive = Archive(url="x", format="zarr2", nodes=(GroupNode(path=""), GroupNode(path="\\u753b")))
zarrlift.inspect = lambda *args, **options: archive
from zarrlift.cli import main
main()
"""
    done = python(code, "inspect", "x", env={**os.environ, "PYTHONIOENCODING": encoding})
    assert "\\u753b" in done.stdout
    assert done.returncode == 0


# Each failure is printed once on standard error, with its archive, and no line is endless.


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


@pytest.mark.slow(one_in=2)
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
    for number in range(15):
        (source / f"g/recode/{number}").write_bytes(b"no chunk")
    assert main(["migrate", str(source), str(tmp_path / "new.zarr"), "--workers", "1"]) == 1
    error = capsys.readouterr().err
    live = re.findall(r"zarrlift: failed: /g/recode, key 'g/recode/(\d+)'", error)
    assert len(live) == 10
    assert "(5 times)" in error


def test_a_failure_in_a_batch_names_its_archive(
    broken: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["batch", "run", str(broken), "--to", f"{tmp_path}/v3/{{relative}}.zarr"]
    assert main(words) == 1
    out, err = capsys.readouterr()
    assert [(out + err).count(f"g/recode/{number}'") for number in range(3)] == [2, 2, 2], "once an archive"
    assert "/h/rewrite" in err, "it was refused, not logged"
    failures = [line for line in err.splitlines() if "failed: /g/recode" in line]
    assert len(failures) == 6
    named = [str(broken / f"{name}.zarr") for name in ("one", "two")]
    assert [sum(f"{name}: failed: " in line for line in failures) for name in named] == [3, 3]


def test_hundreds_of_problems_of_a_list_are_no_endless_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The results of an earlier run are among the archives, and each is a destination too."""
    for number in range(15):
        for suffix in ("", "-v3"):
            path = tmp_path / f"old/a{number:03d}{suffix}.zarr"
            group = zarr.open_group(str(path), mode="w", zarr_format=2)
            group.create_array("a", data=np.arange(4), chunks=2)
    words = ["batch", "run", str(tmp_path / "old"), "--to", f"{tmp_path}/old/{{relative}}-v3.zarr"]
    words += ["-o", str(tmp_path / "batch.zarrlift.jsonl")]
    assert main(words) == 2
    error = capsys.readouterr().err
    (count,) = re.findall(r"the list has (\d+) problems, and nothing was changed: ", error)
    assert int(count) >= 15
    assert f"; and {int(count) - 10} more" in error
    assert max(len(line.replace(str(tmp_path), "")) for line in error.splitlines()) < 2000
    assert main([*words, "--json"]) == 2
    message = json.loads(capsys.readouterr().out)["error"]["message"]
    assert all(f"a{number:03d}-v3.zarr" in message for number in range(15))


# Closed and full standard streams: exit codes tell of the work; lost output is one line, or nothing.


ENTRY = [sys.executable, "-m", "zarrlift"]
CLOSED, FULL = "&-", "/dev/full"
WORK = [
    "migrate old.zarr new.zarr",
    "batch run folder --to 'new/{relative}' --executor processes",
    "verify old.zarr done.zarr",
]
OUTPUT = [
    "migrate old.zarr new.zarr --json",
    "inspect old.zarr",
    "migrate --dry-run old.zarr new.zarr",
    "status done.zarr",
    "update done.zarr --dry-run",
    "completion bash",
    "--version",
    "--help",
    "migrate --help",
]
LOST = {CLOSED: "Bad file descriptor", FULL: "No space left on device"}


def redirected(words, folder, *, stdout=None, stderr=None):
    """Run a command of a shell with streams that are captured unless they are closed or full."""
    redirections = " ".join(f"{n}>{to}" for n, to in ((1, stdout), (2, stderr)) if to is not None)
    line = f'exec "$@" {words} {redirections}'
    command = ["sh", "-c", line, "sh", *ENTRY]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=60)


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    """Small archives of Zarr v2, one of them migrated."""
    folder = tmp_path_factory.mktemp("archives")
    for name in ("old.zarr", "folder/a.zarr", "folder/b.zarr"):
        zarr.create_array(folder / name, shape=(4,), chunks=(2,), dtype="<u2", zarr_format=2)[:] = 1
    assert main(["migrate", str(folder / "old.zarr"), str(folder / "done.zarr"), "--quiet"]) == 0
    return folder


@pytest.fixture
def folder(archives, tmp_path):
    for name in ("old.zarr", "folder", "done.zarr", "done.zarr.zarrlift.db"):
        (tmp_path / name).symlink_to(archives / name)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("lost", [CLOSED, FULL])
@pytest.mark.parametrize("words", WORK)
def test_work_is_done_although_its_report_cannot_be_printed(words, lost, folder):
    ended = redirected(words, folder, stdout=lost)
    expected = f"zarrlift: the report cannot be printed: standard output: {LOST[lost]}.\n"
    assert (ended.returncode, ended.stderr) == (0, expected)
    assert redirected(words.replace("new", "newer"), folder, stdout=lost, stderr=lost).returncode == 0
    if words.startswith("migrate"):
        assert zarr.open_array(folder / "new.zarr", mode="r")[:].tolist() == [1, 1, 1, 1]


@pytest.mark.slow(one_in=23)
@pytest.mark.parametrize("lost", [CLOSED, FULL])
@pytest.mark.parametrize("words", OUTPUT)
def test_output_that_cannot_be_printed_is_a_failure_in_one_line(words, lost, folder):
    ended = redirected(words, folder, stdout=lost)
    line = f"zarrlift: the output cannot be printed: standard output: {LOST[lost]}.\n"
    assert (ended.returncode, ended.stderr) == (1, line)


@pytest.mark.parametrize("lost", [CLOSED, FULL])
@pytest.mark.parametrize(
    ("words", "code"),
    [(WORK[0], 0), (WORK[1], 0), ("--help", 0), ("migrate none.zarr new.zarr", 2), ("migrate --none", 2)],
)
@pytest.mark.slow(one_in=17)
def test_standard_error_changes_nothing(words, code, lost, folder):
    ended = redirected(words, folder, stderr=lost)
    assert (ended.returncode, bool(ended.stdout), ended.stderr) == (code, code == 0, "")


@pytest.mark.parametrize("words", [WORK[0], "status done.zarr", "--version", "migrate --help"])
@pytest.mark.slow(one_in=4)
def test_a_reader_that_has_gone_is_not_an_error(words, folder):
    read, write = os.pipe()
    os.close(read)
    with open(write, "w") as gone:
        command = ["sh", "-c", f'exec "$@" {words}', "sh", *ENTRY]
        ended = subprocess.run(
            command, cwd=folder, stdout=gone, stderr=subprocess.PIPE, text=True, check=False, timeout=60
        )
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_log_that_cannot_be_written_changes_nothing_if_standard_error_is_full_too(folder):
    ended = redirected(f"migrate old.zarr new.zarr --log {FULL}", folder, stderr=FULL)
    assert (ended.returncode, ended.stdout[:5]) == (0, "Done:")


def test_no_file_of_a_result_takes_the_place_of_a_closed_stream(folder):
    code = """
import os, sys
from zarrlift.cli import _fill_closed_streams
_fill_closed_streams()
with open("first", "w") as file:
    os._exit(0 if file.fileno() > 2 and os.get_inheritable(1) and os.get_inheritable(2) else 1)
"""
    command = ["sh", "-c", '"$@" <&- >&- 2>&-', "sh", sys.executable, "-c", code]
    assert subprocess.run(command, cwd=folder, check=False, timeout=60).returncode == 0


# The commands over real archives, from the first look to the last: nothing here is faked.


def write_array(root: Path, path: str, values: np.ndarray, chunk: int) -> None:
    """A one-dimensional Zarr v2 array with zlib, as zarr-python 2 writes it."""
    folder = root / path
    folder.mkdir(parents=True)
    zlib_1 = {"id": "zlib", "level": 1}
    document = array(shape=values.shape, chunks=[chunk], dtype=values.dtype.str, compressor=zlib_1)
    (folder / ".zarray").write_text(json.dumps(document))
    for number, start in enumerate(range(0, len(values), chunk)):
        padded = np.zeros(chunk, values.dtype)
        part = values[start : start + chunk]
        padded[: len(part)] = part
        (folder / str(number)).write_bytes(zlib.compress(padded.tobytes(), 1))


VALUES = np.arange(1000, dtype="<i4")


@pytest.fixture
def old(tmp_path: Path) -> Path:
    root = tmp_path / "old.zarr"
    root.mkdir()
    (root / ".zgroup").write_text('{"zarr_format": 2}')
    write_array(root, "a", VALUES, 64)
    write_array(root, "b/c", VALUES[:10] * 3, 7)
    (root / "b" / ".zgroup").write_text('{"zarr_format": 2}')
    return root


def read(root: Path, path: str) -> np.ndarray:
    import zarr

    return zarr.open_array(str(root / path), mode="r", zarr_format=3)[:]


@pytest.mark.parametrize("words", [[], ["batch"], ["model"]], ids=str)
def test_a_command_line_without_a_command_is_answered_as_help(words, capsys):
    assert main([*words, "--help"]) == 0
    asked = capsys.readouterr()
    assert main(words) == 0
    assert capsys.readouterr() == asked
    assert "COMMAND" in asked.out


def test_one_node_is_inspected_with_its_attributes(old, capsys):
    zarr.open_array(str(old), path="b/c", mode="r+", zarr_format=2).attrs["units"] = "m"
    assert main(["inspect", str(old), "/b/c/"]) == 0
    text = capsys.readouterr().out
    assert '"units": "m"' in text
    assert "1 array" in text
    assert main(["inspect", str(old), "b", "--json"]) == 0
    nodes = json.loads(capsys.readouterr().out)["result"]["nodes"]
    assert [node["path"] for node in nodes] == ["b", "b/c"]
    assert main(["inspect", str(old), "b/d"]) == 2
    assert "the archive has no such node" in (error := capsys.readouterr().err)
    assert "Did you mean 'b/c'?" in error


def test_status_without_a_place_lists_the_jobs_of_the_folder(old, capsys, monkeypatch):
    monkeypatch.chdir(old.parent)
    assert main(["status"]) == 1
    assert "there are no jobs in this folder" in capsys.readouterr().err
    main(["migrate", old.name, "new.zarr"])
    main(["batch", "list", old.name, "--to", "x/{name}", "-o", "all.zarrlift.jsonl"])
    capsys.readouterr()
    assert main(["status"]) == 0
    _, *names = capsys.readouterr().out.splitlines()
    assert names == ["  all.zarrlift.jsonl", "  new.zarr.zarrlift.db"]
    assert main(["status", names[1].strip()]) == 0
    assert main(["status", "--job", names[1].strip()]) == 0
    for number in range(120):
        (old.parent / f"{number:03d}.zarrlift.db").touch()
    capsys.readouterr()
    assert main(["status"]) == 0
    assert len(lines := capsys.readouterr().out.splitlines()) == 102
    assert lines[-1] == "  and 22 more"
    assert main(["status", "--watch"]) == 2


@pytest.mark.slow(one_in=2)
@pytest.mark.parametrize("number", system.stops, ids=lambda number: number.name)
def test_what_a_signal_leaves_can_be_resumed(number, tmp_path):
    old, new = tmp_path / "old.zarr", tmp_path / "new.zarr"
    values = np.random.default_rng(7).integers(0, 99, 150_000, dtype="<i4")
    write_array(old, "", values, 1000)
    stop, console = f"signal.raise_signal({int(number)})", {}
    if os.name == "nt" and number == signal.SIGINT:  # the event of a console, for all processes in it
        stop, console = "os.kill(0, signal.CTRL_C_EVENT)", {"creationflags": subprocess.CREATE_NEW_CONSOLE}
    # The first document of the job is seen by polling: a run tells nothing to a pipe.
    code = """
import os, signal, sys, threading, time
from zarrlift.cli import main
def stop():
    while not os.path.exists(sys.argv[-1] + ".zarrlift.db"):
        time.sleep(0.001)
    STOP
sys.argv[1:] = ["migrate", *sys.argv[1:]]
threading.Thread(target=stop, daemon=True).start()
sys.exit(main())
""".replace("STOP", stop)
    done = subprocess.run(
        [sys.executable, "-c", code, str(old), "--codecs", "zstd:19", str(new)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        **console,
    )
    assert done.returncode == 130
    assert done.stderr.startswith(f"{STOPPING}zarrlift: interrupted. ")
    assert done.stderr.count("\n") == 2
    assert not (new / "zarr.json").exists()
    assert main(["resume", str(new), "--quiet"]) == 0
    assert np.array_equal(read(new, ""), values)


FAKE = """
import os, sys, signal, time
import zarrlift
from zarrlift.errors import JobError

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


@pytest.mark.slow(one_in=2)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
def test_a_signal_ends_with_130_and_one_line(number):
    code, err = interrupted([number])
    assert code == 130
    assert err == STOPPING + "zarrlift: interrupted. No job was started; run the same command again.\n"


def test_a_second_ctrl_c_ends_at_once():
    code, err = interrupted(
        [signal.SIGINT, signal.SIGINT], cleanup='print("ready", flush=True); time.sleep(50)'
    )
    assert code == 130
    assert "Traceback" not in err

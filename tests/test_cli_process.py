"""The command as a process: what it imports, how signals and closed pipes end it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

RUN = "import sys; from zarrlift.cli import main; sys.exit(main())"


def python(code, *words, **options):
    command = [sys.executable, "-c", code, *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, **options)


@pytest.mark.parametrize("words", [["--help"], ["migrate", "--help"], ["--version"], ["plan"]], ids=" ".join)
def test_help_imports_nothing_heavy(words):
    heavy = {"numpy", "numcodecs", "zarr", "zarr_metadata", "pydantic", "sqlite3", "rich", "tqdm", "fsspec"}
    code = f"""
import sys
from zarrlift.cli import main
main()
print(sorted({heavy!r} & set(sys.modules)), file=sys.stderr)
"""
    assert python(code, *words).stderr.splitlines()[-1] == "[]"


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
    process = subprocess.Popen(
        [sys.executable, "-c", FAKE.format(cleanup=cleanup), "migrate", "a", "b"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    lines = []
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
    assert err == "zarrlift: interrupted. No job had been started yet; run the same command again.\n"


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
import report_examples
zarrlift.plan = lambda *args, **options: report_examples.MANY
from zarrlift.cli import main
sys.exit(main())
"""
    done = subprocess.run(
        [sys.executable, "-c", code, os.path.dirname(__file__), "plan", "a", "--all"],
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=60,
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (1, "")


def test_a_name_that_the_terminal_cannot_encode_is_escaped():
    code = """
import zarrlift
from zarrlift.archive import Archive, GroupNode
archive = Archive(url="x", format="zarr2", nodes=(GroupNode(path=""), GroupNode(path="\\u753b")))
zarrlift.inspect = lambda *args, **options: archive
from zarrlift.cli import main
main()
"""
    done = python(code, "inspect", "x", env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert "\\u753b" in done.stdout
    assert done.returncode == 0

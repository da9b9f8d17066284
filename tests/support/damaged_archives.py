"""Running the command on damaged archives, and what every such run must keep."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tests.support.job_archives import tree

from zarrlift.cli import main

GOOD = np.arange(8, dtype="<i4")
"""What the sound array `good` holds in the archives made here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What one command said."""

    code: int
    out: str
    err: str

    @property
    def problems(self) -> list[dict[str, str]]:
        """With `--json`: every problem of the result, or the one error."""
        document = json.loads(self.out)
        if "error" in document:
            return [document["error"]]
        found: list[dict[str, str]] = document["result"].get("problems", [])
        return found

    @property
    def refusals(self) -> list[dict[str, str]]:
        """The problems that keep something back."""
        return [problem for problem in self.problems if problem["severity"] == "refusal"]


def run(*words: str | Path) -> Ran:
    """The command in this process; it must end by itself and without a traceback."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(word) for word in words])
    ran = Ran(code=code, out=out.getvalue(), err=err.getvalue())
    said = ran.out + ran.err
    assert "Traceback" not in said
    assert "did not foresee" not in said, said
    assert "bug in zarrlift" not in said, said
    return ran


def migrate(*words: str | Path) -> Ran:
    """`zarrlift migrate ... --json`."""
    return run("migrate", *words, "--json")


def write_array(path: Path, stored: Mapping[str, bytes], /, **members: Any) -> Path:
    """A Zarr v2 array with these stored chunks; `members` change its `.zarray`."""
    path.mkdir(parents=True, exist_ok=True)
    plain = {"shape": [8], "chunks": [4], "dtype": "<i4", "compressor": None, "filters": None}
    document = {"zarr_format": 2, **plain, "fill_value": 0, "order": "C", **members}
    (path / ".zarray").write_text(json.dumps(document))
    for key, content in stored.items():
        (path / key).parent.mkdir(parents=True, exist_ok=True)
        (path / key).write_bytes(content)
    return path


def write_archive(path: Path) -> Path:
    """A group with the sound array `good`."""
    path.mkdir(parents=True)
    (path / ".zgroup").write_text('{"zarr_format": 2}')
    write_array(path / "good", {"0": GOOD[:4].tobytes(), "1": GOOD[4:].tobytes()})
    return path


def read(path: Path, version: int = 3) -> np.ndarray:
    """An array as zarr-python reads it."""
    import zarr

    return np.asarray(zarr.open_array(str(path), mode="r", zarr_format=version)[...])


def assert_good(destination: Path) -> None:
    """The sound array is there, and nothing temporary is."""
    assert read(destination / "good").tolist() == GOOD.tolist()
    assert [p.name for p in destination.iterdir() if p.name.startswith(".zarrlift")] == []


def copied(source: Path, destination: Path) -> Path:
    """A copy of an archive that may be changed."""
    shutil.copytree(source, destination, symlinks=True)
    return destination


def looked_at(archive: Path, empty: Path) -> tuple[Ran, Ran]:
    """What `inspect` and `plan` say of an archive; they write neither there nor in an empty folder."""
    before = tree(archive)
    answers = run("inspect", archive), run("migrate", "--dry-run", archive, empty / "out.zarr")
    assert tree(archive) == before
    assert list(empty.iterdir()) == []
    return answers


def said_of(ran: Ran, node: str) -> list[dict[str, str]]:
    """The refusals of one node."""
    return [problem for problem in ran.refusals if problem.get("node") == node]


def assert_told(ran: Ran, node: str, keys: set[str]) -> None:
    """The errors about a node name a key that is to blame, what is wrong, and nothing twice."""
    told = said_of(ran, node)
    assert told, f"nothing says that /{node} was kept back"
    assert len({(problem.get("key"), problem["message"]) for problem in told}) == len(told)
    assert {problem.get("key") for problem in told} & keys, told


PEAK = """
import os, re, sys
from zarrlift.cli import main
code = main()
peak = int(re.search(r"VmHWM:\\s+([0-9]+) kB", open("/proc/self/status").read())[1])
sys.stdout.flush()
print("peak", peak // 1024, file=sys.stderr, flush=True)
os._exit(code)
"""
"""A program that is the command, and says how much memory (MiB) it held at most.

Not by `getrusage`, whose peak a new program inherits from the one that started it.
"""


def python(*words: str | Path) -> list[str]:
    """A command line of this very Python."""
    return [sys.executable, *(str(word) for word in words)]


def measured(*words: str | Path) -> tuple[Ran, int]:
    """The command in a process of its own, and the most memory (MiB) it or a helper of it held."""
    done = subprocess.run(
        python("-c", PEAK, *words, "--json"), capture_output=True, text=True, timeout=120, check=False
    )
    assert "Traceback" not in done.stderr
    peak = int(done.stderr.rpartition("peak ")[2])
    return Ran(code=done.returncode, out=done.stdout, err=done.stderr), peak

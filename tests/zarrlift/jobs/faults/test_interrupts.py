"""Ctrl-C, once or twice, at a moment drawn at random: the command ends, says so, and `resume` completes.

With a limit of bandwidth under which a command would take hours.
"""

from __future__ import annotations

import json
import os
import random
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import zarr
from tests.support.bucket import Bucket, serving

pytestmark = [
    pytest.mark.needs_reader("once"),
    pytest.mark.skipif(sys.platform == "win32", reason="which has no groups of processes to signal"),
]

_PATIENCE = 60.0
"""Seconds after which a command that was interrupted is stuck."""
_START = 3.0
"""Seconds in which a command has begun to move chunks, on a busy machine."""
_LIMIT = "2kB/s"

ROUTES = {
    "copy": (),
    "large shards": ("--shards", "10,1"),
    "regrid": ("--chunks", "50,1000", "--shards", "20,1"),
}
EXECUTORS = {
    "threads": (),
    "processes": ("--executor", "processes", "--workers", "2"),
}


@dataclass(frozen=True)
class Way:
    """What is interrupted."""

    route: str
    executor: str
    end: str
    """Where the result is: "local" or "bucket"."""
    verb: str = "migrate"

    def __str__(self) -> str:
        return f"{self.verb}, {self.route}, {self.executor}, {self.end}"


class Site:
    """A folder with an archive of 4 MB, and a bucket."""

    def __init__(self, folder: Path, bucket: Bucket) -> None:
        self.folder, self.bucket = folder, bucket
        self.source = folder / "old.zarr"
        self.values = np.random.default_rng(0).integers(0, 255, (2000, 2000), dtype="u1")
        array = zarr.create_array(
            self.source / "a",
            shape=(2000, 2000),
            chunks=(100, 1000),
            dtype="u1",
            zarr_format=2,
            compressors=None,
        )
        array[:] = self.values

    def wrong(self, way: Way, chance: random.Random) -> list[str]:
        """What is wrong about one way, interrupted at a moment drawn from `chance`."""
        name = f"new-{secrets.token_hex(4)}.zarr"
        place = str(self.folder / name) if way.end == "local" else self.bucket.url(name)
        options = (
            ["--storage-options", f"dst:{json.dumps(self.bucket.options)}"] if way.end == "bucket" else []
        )
        job = ["--job", str(self.folder / f"{name}.zarrlift.db")]
        begun = [str(self.source), place, *ROUTES[way.route], *options, *job]
        problems = []
        words = ["migrate", *begun]
        if way.verb == "verify":
            problems = self._ended(words, 0)
            words = ["verify", str(self.source), place, "--full", *options, *job]
        twice = chance.random() < 0.5
        words += [*EXECUTORS[way.executor], "--bwlimit", _LIMIT]
        problems += self._interrupted(words, chance.uniform(0, _START), twice=twice, way=way)
        if way.verb == "verify":
            return problems
        problems += self._names(name, way, after_one=not twice)
        if Path(job[1]).exists():
            problems += self._ended(["resume", place, *job, *options, "--bwlimit", "off"], 0)
        else:
            problems += self._ended(["migrate", *begun], 0)
        problems += self._names(name, way, after_one=True)
        return problems + self._ended(["verify", str(self.source), place, "--full", *options, *job], 0)

    def _interrupted(self, words: list[str], seconds: float, *, twice: bool, way: Way) -> list[str]:
        with started(words) as process:
            with suppress(subprocess.TimeoutExpired):
                process.wait(seconds)
                return []  # it was faster
            for _ in range(2 if twice else 1):
                os.killpg(process.pid, signal.SIGINT)  # as a terminal does: everybody gets it
            try:
                _, said = process.communicate(timeout=_PATIENCE)
            except subprocess.TimeoutExpired:
                return ["the command did not end"]
        problems = []
        printed = "Traceback" in said
        if printed and "in entry" not in said:
            return []  # Python itself was starting
        # Before Python has a handler, the system ends the process; a run may end just before it.
        if process.returncode not in (130, -signal.SIGINT, 0):
            problems.append(f"exit code {process.returncode}: {said}")
        if printed:
            problems.append(said)
        if process.returncode == 130 and not twice and "interrupted" not in said and "Stopping" not in said:
            problems.append(f"no word of the stop: {said!r}")
        return problems

    def _ended(self, words: list[str], code: int) -> list[str]:
        with started(words) as process:
            out, err = process.communicate(timeout=10 * _PATIENCE)
        return [] if process.returncode == code else [f"{words[0]} exits {process.returncode}: {out} {err}"]

    def _names(self, name: str, way: Way, *, after_one: bool) -> list[str]:
        """Names of objects that are no part of a result, after a stop that could remove them."""
        if way.end == "bucket":
            names = sorted(self.bucket.stored(name))
        else:
            root = self.folder / name
            names = sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())
        expected = (".json", *map(str, range(10)))
        strange = [
            each for each in names if not each.endswith(expected) or "partial" in each or "zarrlift" in each
        ]
        return [f"left behind: {strange}"] if strange and after_one else []


@contextmanager
def started(words: list[str]) -> Iterator[subprocess.Popen[str]]:
    """A command in a group of its own, of which nothing is left."""
    process = subprocess.Popen(
        [sys.executable, "-m", "zarrlift", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


WAYS = (
    Way("large shards", "threads", "local"),
    Way("regrid", "processes", "bucket"),
    Way("copy", "threads", "bucket", verb="verify"),
)


@pytest.mark.slow(one_in=3)
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_what_is_interrupted_ends_and_is_resumed(way: Way, tmp_path: Path) -> None:
    with serving() as bucket:
        assert Site(tmp_path, bucket).wrong(way, random.Random(str(way))) == []

"""zarrita.js under node: another language, another set of codecs (pinned in tests/environments/zarrita)."""

from __future__ import annotations

import atexit
import base64
import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from threading import Timer
from typing import Any, Final

import numpy as np
from tests.end_to_end.readers.base import CannotRead, Seen
from tests.support.environments import ENVIRONMENTS

VARIABLES: Final = {"zarrita": "ZARRLIFT_ZARRITA", "neuroglancer": "ZARRLIFT_NEUROGLANCER"}
"""Reader -> the variable with the folder in which it is installed."""
PATIENCE = 300
"""How long one archive may take, in seconds."""


class _Node:
    """read.mjs in one node process, which answers one question a line."""

    def __init__(self, reader: str) -> None:
        folder = Path(os.environ.get(VARIABLES[reader]) or ENVIRONMENTS / reader)
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the process
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            ["node", str(folder / "read.mjs")], stdin=pipe, stdout=pipe, stderr=self.errors, text=True
        )

    def ask(self, *words: str) -> dict[str, Any]:
        """Every array of an archive, by path; RuntimeError with what node says if it ends instead."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        timer = Timer(PATIENCE, self.process.kill)
        timer.start()
        try:
            self.process.stdin.write(json.dumps(words) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            timer.cancel()
        if line.endswith("\n"):
            answers: dict[str, Any] = json.loads(line)
            return answers
        said = self.close()
        _node.cache_clear()  # the next question gets a new process
        raise RuntimeError(f"node ended with {self.process.returncode}: {said}")

    def close(self) -> str:
        """End the process, if it is there; what it said on its error stream."""
        if self.errors.closed:
            return ""
        self.process.communicate()
        self.errors.seek(0)
        said = self.errors.read()[-2000:]
        self.errors.close()
        return said


@cache
def _node(reader: str = "zarrita") -> _Node:
    """The process of this one, as long as it lives."""
    node = _Node(reader)
    atexit.register(node.close)
    return node


@cache
def _archive(root: Path, reader: str) -> dict[str, Any]:
    """Every array of an archive, read once."""
    return _node(reader).ask(str(root))


def read_served(url: str, paths: Sequence[str]) -> dict[str, Seen]:
    """Arrays of a hierarchy that is served over HTTP, by path."""
    answers = _node().ask(url, *paths)
    return {path: seen(answers[path], "zarrita") for path in paths}


def read(root: Path, path: str, reader: str = "zarrita") -> Seen:
    return seen(_archive(root, reader)[path], reader)


def seen(answer: dict[str, Any], reader: str) -> Seen:
    """What a script in an environment of its own said about an array."""
    if "refused" in answer:
        raise CannotRead(answer["refused"])
    shape = tuple(answer["shape"])
    if "objects" in answer:
        values: Any = np.empty(len(answer["objects"]), dtype=object)
        values[:] = answer["objects"]
        values = values.reshape(shape)
    else:
        raw = base64.b64decode(answer["base64"])
        values = np.frombuffer(raw, np.dtype(answer["numpy"])).reshape(shape)
    names = answer["dimension_names"]
    return Seen(
        reader=reader,
        dtype=answer["dtype"],
        values=values,
        attributes=answer["attributes"],
        dimension_names=None if names is None else tuple(names),
    )

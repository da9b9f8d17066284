"""zarrita.js under node: another language, another set of codecs (pinned in tests/environments/zarrita)."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from .base import CannotRead, Seen

ENVIRONMENT = Path(__file__).resolve().parent.parent / "environments" / "zarrita"


@cache
def _archive(root: Path) -> dict[str, Any]:
    """Every array of an archive in one node process; starting one takes longer than reading them all."""
    return _answers(str(root))


def read_served(url: str, paths: Sequence[str]) -> dict[str, Seen]:
    """Arrays of a hierarchy that is served over HTTP, by path."""
    answers = _answers(url, *paths)
    return {path: _seen(answers[path]) for path in paths}


def _answers(*arguments: str) -> dict[str, Any]:
    folder = Path(os.environ.get("ZARRLIFT_ZARRITA") or ENVIRONMENT)
    done = subprocess.run(
        ["node", str(folder / "read.mjs"), *arguments],
        capture_output=True,
        check=False,
        text=True,
        timeout=300,
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    answers: dict[str, Any] = json.loads(done.stdout)
    return answers


def read(root: Path, path: str) -> Seen:
    return _seen(_archive(root)[path])


def _seen(answer: dict[str, Any]) -> Seen:
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
        reader="zarrita",
        dtype=answer["dtype"],
        values=values,
        attributes=answer["attributes"],
        dimension_names=None if names is None else tuple(names),
    )

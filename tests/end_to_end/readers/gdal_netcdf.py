"""GDAL and netcdf-c, by the script in the environment of tests/environments/gdal."""

from __future__ import annotations

import json
import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

from tests.end_to_end.readers.base import Seen
from tests.end_to_end.readers.zarrita_js import seen
from tests.support.environments import ENVIRONMENTS


def ask(reader: str, *words: str, older: bool = False) -> dict[str, Any]:
    """What the script answers; `older`: with the older GDAL. RuntimeError if it ends instead."""
    folder = Path(os.environ["ZARRLIFT_GDAL"])
    command = [folder / "bin" / "python", ENVIRONMENTS / "gdal" / "read.py", reader, *words]
    there = {**os.environ, "PYTHONPATH": str(folder / "older")} if older else None
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, env=there)
    if done.returncode:
        raise RuntimeError(f"{reader} ended with {done.returncode}: {done.stderr[-500:]}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@cache
def _archive(root: Path, reader: str, older: bool) -> dict[str, Any]:
    """Every array of an archive, read once."""
    return ask(reader, str(root), older=older)


def read(root: Path, path: str, reader: str = "gdal", *, older: bool = False) -> Seen:
    return seen(_archive(root, reader, older)[path], reader)

"""Where the job file of a batch is."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from zarrstack.core.errors import JobError, UsageError

from ...storage.local.sibling_names import sibling, with_suffix
from ...storage.open_storage import is_url
from ..ledger.ledger import SUFFIX

APPLICATION: Final = 0x7A6C4274
"""Identifies the file of a batch to programs such as `file`: "zlBt" (https://www.sqlite.org/fileformat.html,
1.3.16).
"""
_SUFFIXES: Final = (".csv", ".jsonl", ".ndjson", ".toml")


def is_manifest(place: str) -> bool:
    """Whether a place is the path of a manifest."""
    return place.lower().endswith(_SUFFIXES) and "://" not in place and not os.path.isdir(place)


def default_path(places: Sequence[str], destination: str | None) -> Path:
    """The job file of a new batch: next to the results, in place next to the list; UsageError.

    For places in stores, it is in the working directory.
    """
    if not places:
        raise UsageError("there is nothing to migrate", expected="a folder, a glob or a manifest")
    if is_manifest(places[0]):
        base = places[0].rpartition(".")[0]
    else:
        base = places[0] if destination is None else destination
    constant: list[str] = []
    for part in base.rstrip("/").split("/"):
        if any(mark in part for mark in "{*?["):
            break
        constant.append(part)
    place = "/".join(constant)
    name = constant[-1] if constant and constant[-1] not in ("", ".", "..") else "batch"
    if is_url(base):
        return Path.cwd() / with_suffix(name, SUFFIX)
    folder = Path(os.path.abspath(os.path.expanduser(place or ".")))
    return folder / (name + SUFFIX) if name == "batch" else sibling(folder, SUFFIX)


def batch_path(target: str | os.PathLike[str]) -> Path:
    """The job file that a command names, itself or by a place next to it; JobError."""
    text = os.fspath(target)
    if "://" in text:
        raise UsageError("the job of a batch is a local file", found=text)
    path = Path(os.path.abspath(os.path.expanduser(text)))
    if path.is_file() and not is_manifest(text):
        return path
    beside = _beside(text)
    if beside.is_file():
        return beside
    raise JobError("there is no such job file", key=text, expected=str(beside))


def batch_at(target: str) -> Path | None:
    """The batch that a text names, itself or by a place next to it; None if there is none."""
    for path in (Path(target), _beside(target)):
        if is_batch(path):
            return path
    return None


def is_batch(path: str | os.PathLike[str]) -> bool:
    """Whether a path is the job file of a batch."""
    try:
        with open(path, "rb") as file:
            head = file.read(72)
    except (OSError, ValueError):
        return False
    return head[68:] == APPLICATION.to_bytes(4)  # https://www.sqlite.org/fileformat.html, 1.3


def _beside(text: str) -> Path:
    path = Path(os.path.abspath(os.path.expanduser(text)))
    base = path.with_name(path.stem) if is_manifest(text) else path
    return sibling(base, SUFFIX)

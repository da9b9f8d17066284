"""What a reader sees of a disturbed run, and what is left of it at the end."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from tests.zarrlift.jobs.faults.commands import HUNG, Ended
from tests.zarrlift.jobs.faults.scenarios import Scenario

Tree: TypeAlias = Mapping[str, bytes | None]
"""Content of every file and object by its path; None for a directory."""

_OPAQUE = (".db", ".inventory", ".jsonl", ".zarrlift.claim", ".zarrlift-claim")
"""Files that differ from run to run: only their names are compared."""
_OF_RUN = re.compile(r"(\.db\.part-[0-9]+)-[0-9a-f]{8}$")
"""The file of a run of a part, which has a random name."""
UPLOADS = "s3 uploads/"
"""Parts that a killed upload left: only a rule of the bucket removes them (docs/howto/object-stores.md)."""
_CHANGING = (".json", ".crc32c")
_CACHE = "cache/"
_DASK = "tmp/dask-scratch-space"
"""Where Dask's processes keep what they spill; those that are killed leave it."""
_CODES = frozenset({0, 1, 2, 130})
"""Exit codes that the documentation knows."""
_TRIALS = (b"", b"blat")
"""What Python's `tempfile` writes, and removes, to see whether TMPDIR can be written to."""
_FAULTS = ("Traceback", "bug in zarrlift", "did not foresee", "Exception ignored")


@dataclass(frozen=True, slots=True)
class Calm:
    """What a scenario does where nothing disturbs it."""

    calls: int
    changes: int
    source: Tree
    """What the scenario began with."""
    old: Tree
    """Before the command."""
    whole: Tree
    """Once every array is there."""
    then: Tree
    """After the command."""
    last: Tree
    """After all commands."""


def tree(home: Path) -> dict[str, bytes | None]:
    """Everything in a folder."""
    found: dict[str, bytes | None] = {}
    for path in sorted(home.rglob("*")):
        name = path.relative_to(home).as_posix()
        if not name.startswith((_CACHE, _DASK)):
            found[_OF_RUN.sub(r"\1", name)] = (
                None if path.is_dir() else b"" if is_opaque(name) else path.read_bytes()
            )
    return found


def is_opaque(name: str) -> bool:
    """Whether a file differs from run to run."""
    return name.endswith(_OPAQUE) or ".db.part-" in name


def wrong_now(now: Tree, scenario: Scenario, calm: Calm, *, replaced: bool = False) -> list[str]:
    """What a reader would see that is wrong, and what is lost.

    `replaced`: the new tree was whole before, so that the old one may be gone when the new one is taken back.
    """
    replaces = "--overwrite" in scenario.words
    if replaces and not _missing(now, _below(calm.old, "out.zarr/")):
        return []
    end = "source.zarr/" if scenario.in_place else "out.zarr/"
    wrong = _half_arrays(now, calm.whole, end) + _half_objects(now, calm.whole, end)
    if lost := _missing(now, _below(calm.source, "source.zarr")):
        either = scenario.kept == "either" and not _missing(now, _below(calm.whole, "source.zarr"))
        if not either:
            wrong.append(f"lost of the source: {lost[:3]}")
    if replaces and not replaced and _lost_old(now, calm):
        wrong.append("the old tree is gone and the new one is not whole")
    return wrong


def wrong_at_the_end(now: Tree, scenario: Scenario, calm: Calm) -> list[str]:
    """In what the end is not that of the calm run."""
    brought_back = {**_below(calm.old, "out.zarr"), **calm.last}
    if "--overwrite" in scenario.words and now == brought_back:
        return []
    more = [name for name in now if name not in calm.last and not name.startswith(UPLOADS)]
    more = [name for name in more if not (name.startswith("tmp/") and now[name] in _TRIALS)]
    return [f"left about: {len(more)} {more[:4]}"] * bool(more) + wrong_bytes(now, calm.last)


def wrong_bytes(now: Tree, wanted: Tree) -> list[str]:
    """What is missing, or other."""
    less = [name for name in wanted if name not in now]
    other = [name for name in wanted if name in now and now[name] != wanted[name]]
    lists = {"missing": less, "of other bytes": other}
    return [f"{what}: {len(names)} {names[:4]}" for what, names in lists.items() if names]


def said_badly(ended: Ended) -> list[str]:
    """What is wrong with the way a command ended that was not killed."""
    text = ended.out + ended.err
    if ended.code == HUNG or ended.code not in _CODES:
        return [f"ended with {ended.code}: {ended}"]
    if ended.code != 0 and not text.strip():
        return ["failed without a word"]
    if "resource_tracker: process died" in text:  # Python's own, if that is what was killed
        return []
    return [f"says {word!r}: {ended}" for word in _FAULTS if word in text]


def _below(now: Tree, prefix: str) -> Tree:
    """What is under a name, in the folder or in the bucket."""
    return {name: data for name, data in now.items() if name.removeprefix("s3/").startswith(prefix)}


def _missing(now: Tree, wanted: Tree) -> list[str]:
    return [name for name, data in wanted.items() if name not in now or now[name] != data]


def _half_arrays(now: Tree, whole: Tree, end: str) -> list[str]:
    """Arrays that are seen and not whole."""
    wrong = []
    for name, data in _below(now, end).items():
        if not name.endswith("/zarr.json") or data is None or json.loads(data)["node_type"] != "array":
            continue
        folder = name.removesuffix("zarr.json")
        wanted = {key: value for key, value in whole.items() if key.startswith(folder) and value is not None}
        if lost := [key for key in _missing(now, wanted) if not _is_record(key, now, wanted)]:
            count = f"{len(lost)} of {len(wanted)}"
            wrong.append(f"{folder} is seen, and {count} of its objects are not right: {lost[:3]}")
    return wrong


def _is_record(key: str, now: Tree, wanted: Tree) -> bool:
    """Whether a checksum's record has the right state among those that are possible during a write."""
    there, right = now.get(key), wanted[key]
    return key.endswith(".crc32c") and bool(there and right) and set(right.split()) <= set(there.split())


def _half_objects(now: Tree, whole: Tree, end: str) -> list[str]:
    """Objects under their own names that are not whole; documents and records change with what is done."""
    there = _below(now, end)
    names = [name for name in there if whole.get(name) is not None and not name.endswith(_CHANGING)]
    half = [name for name in names if there[name] != whole[name]]
    return [f"{len(half)} objects are not whole: {half[:3]}"] if half else []


def is_replaced(now: Tree, calm: Calm) -> bool:
    """Whether the new tree is whole."""
    return not _missing(now, _below(calm.then, "out.zarr/"))


def _lost_old(now: Tree, calm: Calm) -> bool:
    """Whether the old tree is under no name, and the new one is not whole."""
    if is_replaced(now, calm):
        return False
    old = _below(calm.old, "out.zarr/")
    aside = {name.partition("/")[0] for name in now if name.startswith("out.zarr.zarrlift-old-")}
    return all(
        _missing(now, {name.replace("out.zarr", other, 1): old[name] for name in old}) for other in aside
    )

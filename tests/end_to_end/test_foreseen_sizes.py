"""The bytes that a plan foresees beside those that its run writes, over all fixtures and what is measured.

Plans re-encode a few chunks of each array. `pytest -s` prints the table of errors.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.support.fixtures_index import FORMATS, archives

import zarrlift

ROOT = Path(__file__).parents[2]
WAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "zstd:3": {"codecs": "zstd:3"},
    "shards": {"shards": "auto", "codecs": "blosc:lz4"},
}
RECHUNK = {"chunks": (64, 64, 64), "shards": (4, 4, 4), "codecs": "zstd:3"}
WORKLOADS: dict[str, dict[str, Any]] = {
    "large.zarr": {},
    "float.zarr": {"codecs": "blosc:zstd:5:shuffle", "endian": "little", "order": "C"},
    "planes.zarr": RECHUNK,
    "container/blocks.n5": {"codecs": "zstd:3", "endian": "little"},
    "container/cut.n5": {},
    "tiny.zarr": {"shards": (7, 7, 7)},
    "store.zarr": {"codecs": "zstd:3"},
    "updated.zarr": {"codecs": "zstd:1"},
    "many.zarr": {"codecs": "gzip:6"},
}
"""Sources of benchmarks/sources.py, and what their workloads ask for."""


class Foreseen(NamedTuple):
    """One array in one way."""

    place: str
    route: str
    before: int
    foreseen: int
    written: int

    @property
    def error(self) -> float:
        """Relative to what was written."""
        return self.foreseen / self.written - 1


def foreseen(source: Path, place: Path, name: str, **options: Any) -> list[Foreseen]:
    """Every array of an archive that is written; refused ones are left out."""
    recipe = zarrlift.Recipe(base=zarrlift.ArrayRecipe(**options))
    try:
        plan = zarrlift.plan(source, place, recipe=recipe)
        zarrlift.migrate(source, place, recipe=recipe)
    except zarrlift.Error:  # no array has so many axes, or the archive is refused
        return []
    return [
        Foreseen(f"{name}:{array.path}", array.route.name, array.bytes_in, array.bytes_out, written)
        for array in plan.arrays
        if (written := stored(place / array.path))
    ]


def stored(place: Path) -> int:
    """Bytes of an array's chunks."""
    files = (file for file in place.rglob("*") if file.name != "zarr.json" and file.is_file())
    return sum(file.stat().st_size for file in files)


def shown(rows: list[Foreseen], what: str) -> float:
    """Print the errors of some arrays; the share of them that is foreseen within 15 %."""
    errors = sorted(abs(row.error) for row in rows)
    within = sum(error <= 0.15 for error in errors) / max(len(errors), 1)
    total = sum(row.foreseen for row in rows) / max(sum(row.written for row in rows), 1) - 1
    half, nine = (errors[int(len(errors) * part)] if errors else 0 for part in (0.5, 0.9))
    print(
        f"{what:24} {len(rows):5} arrays  within 15 %: {within:6.1%}  median {half:6.1%}"
        f"  90 %: {nine:6.1%}  of all bytes {total:+.1%}"
    )
    return within


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_nine_of_ten_arrays_of_the_fixtures_are_foreseen_within_15_percent(way: str, tmp_path: Path) -> None:
    rows = []
    for kind in FORMATS:
        for one in archives(kind):
            rows += foreseen(one.path, tmp_path / one.name.replace("/", "_"), one.name, **WAYS[way])
    assert len(rows) > 500
    for route in sorted({row.route for row in rows}):
        shown([row for row in rows if row.route == route], f"{way}, {route}")
    assert shown(rows, way) >= 0.9


@pytest.mark.slow
def test_what_is_measured_is_foreseen_within_15_percent(tmp_path: Path) -> None:
    script = ROOT / "benchmarks" / "sources.py"
    subprocess.run([sys.executable, script, tmp_path, "small", *WORKLOADS], check=True)
    rows = []
    for name, options in WORKLOADS.items():
        part = foreseen(tmp_path / name, tmp_path / f"{name.replace('/', '_')}.new", name, **options)
        shown(part, name)
        rows += part
    assert shown(rows, "all") >= 0.9

"""A folder of many small archives of all formats, some of them broken, from the fixtures."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path

from tests.support.fixtures_index import FORMATS, archives, bad_cases

_MOST_ARRAYS = 7


def small_archives() -> list[Path]:
    """Fixtures with few arrays, of every format and many writers."""
    found = (one for name in FORMATS for one in archives(name))
    return [
        one.path
        for one in found
        if len(one.arrays) <= _MOST_ARRAYS and one.name != "zarr_v3_draft/may-2022/extensions"
    ]


def broken_archives() -> list[Path]:
    """Fixtures with a damaged array beside a sound one, or with nothing that can be read."""
    cases = (case for name in FORMATS for case in bad_cases(name))
    return [case.path for case in cases if case.damaged and not case.readable]


def write_many(folder: Path, number: int, broken: int) -> dict[str, Path]:
    """Copies of `number` archives, of which `broken` are broken, in folders of 100; the sources by name."""
    sound = itertools.cycle(small_archives())
    bad = itertools.cycle(broken_archives())
    every = number // broken if broken else number + 1
    made = {}
    for place in range(number):
        is_broken = (place + 1) % every == 0 and (place + 1) // every <= broken
        source = next(bad if is_broken else sound)
        suffix = source.suffix if source.suffix in (".zarr", ".n5", ".zip") else ".zarr"
        name = f"{place // 100:02}/{'broken' if is_broken else 'sound'}-{place:04}{suffix}"
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target)
        else:
            shutil.copy(source, target)
        made[name] = source
    return made

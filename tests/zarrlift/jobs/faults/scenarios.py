"""What is killed, and what fails: commands over every route and option, as data.

`{src}` and `{dst}` stand for the two ends, `{home}` for the folder in which all of a run is.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import zarr
from tests.support.fixtures_index import archive
from tests.support.job_archives import other_archive, write_archive

Words = tuple[str, ...]
MIGRATE: Words = ("migrate", "{src}", "{dst}")
RESUME: Words = ("resume", "{dst}")
UNDO: Words = ("undo", "--yes", "{dst}")
IN_PLACE: Words = ("migrate", "{src}", "--in-place")
RESUME_IN_PLACE: Words = ("resume", "{src}")
VERIFY: Words = ("verify", "{src}")
FINISH: Words = ("finish", "--yes", "{src}")
UNDO_IN_PLACE: Words = ("undo", "--yes", "{src}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A command, what comes before it, and what goes on where it was stopped."""

    id: str
    words: Words
    """The command that is disturbed."""
    source: str = "mixed"
    """A key of `SOURCES`."""
    before: tuple[Words, ...] = ()
    """Commands that are not disturbed."""
    again: tuple[Words, ...] = ()
    """Any of them goes on with a stopped job; the same command does where there is no job yet."""
    after: tuple[Words, ...] = ()
    """Commands of which the last result consists, not disturbed."""
    whole: Literal["before", "words"] = "words"
    """After which of them every array is there."""
    in_place: bool = False
    kept: Literal["source", "either"] = "source"
    """What is always there: the source, or either that or all of what was made of it, as `finish` does."""
    remote: frozenset[Literal["src", "dst", "file", "icechunk"]] = frozenset()
    """The ends that are in a bucket; "file": both are local, by URL; "icechunk": the destination is a
    repository, of which the branch `main` is looked at.
    """
    tight: bool = False
    """So little memory that chunks change their shape in two passes."""


def _copy(id: str, *options: str, **fields: Any) -> Scenario:
    again = () if "--overwrite" in options else (RESUME,)
    words = (*MIGRATE, *options)
    return Scenario(id=id, words=words, again=(words, *again), **fields)


def _in_place(id: str, *options: str, **fields: Any) -> Scenario:
    words = (*IN_PLACE, *options)
    return Scenario(id=id, words=words, again=(words, RESUME_IN_PLACE), in_place=True, **fields)


_DST = frozenset({"dst"})
_BOTH = frozenset({"src", "dst"})
_ICECHUNK = frozenset({"icechunk"})
_ICECHUNK_S3 = frozenset({"icechunk", "dst"})
_FINISHED = (IN_PLACE, VERIFY, FINISH)
_PROCESSES = ("--executor", "processes", "--workers", "2")
_COLUMNS = ("--chunks", "-1,2", "--shards", "none")
_DASK = ("--executor", "dask", "--workers", "2")
_JOB = "{home}/job.db"

SCENARIOS = (
    _copy("copy"),
    _copy("copy, two workers", "--workers", "2", source="boxes"),
    _copy("copy, fsync", "--fsync"),
    _copy("copy, not checked", "--verify", "none"),
    _copy("copy, checked in full", "--verify", "full"),
    _copy("copy, consolidated", "--consolidate"),
    _copy("copy, recoded", "--codecs", "zstd:3"),
    _copy("copy, cast", "--dtype", "float64", source="boxes"),
    _copy("copy, large chunks", source="large"),
    _copy("copy, forked", "--workers", "2", source="tiny"),
    _copy("copy, processes", *_PROCESSES, source="boxes"),
    _copy("copy, file URLs", source="mixed", remote=frozenset({"file"})),
    _copy("copy, a job file elsewhere", "--job", "{home}/elsewhere.db"),
    _copy("shards", "--shards", "4,4", source="boxes"),
    _copy(
        "shards, index at the start", "--shards", "4,4", "--set", "shard-index-location=start", source="boxes"
    ),
    _copy("gathered", "--shards", "auto", "--workers", "2", source="tiny"),
    _copy("regrid", "--chunks", "9,11", source="boxes"),
    _copy("regrid in shards", "--chunks", "5,7", "--shards", "3x", source="boxes"),
    _copy("regrid, shards built together", "--chunks", "5,20", "--shards", "4,1", source="rows", tight=True),
    _copy("regrid in two passes", *_COLUMNS, source="rows", tight=True),
    _copy("regrid of shards in two passes", *_COLUMNS, source="row shards", tight=True),
    _copy("hard links", "--link", "hard", "--codecs", "keep"),
    _copy("hard links, fsync", "--link", "hard", "--codecs", "keep", "--fsync"),
    _copy("overwrite", "--overwrite", before=((*MIGRATE, "--codecs", "none"),)),
    _copy("overwrite what no job made", "--overwrite", before=(), source="mixed, and a stranger"),
    Scenario(
        id="overwrite, taken back",
        words=(*MIGRATE, "--overwrite"),
        again=(UNDO,),
        source="mixed, and a stranger",
    ),
    _copy("Zarr v1", source="v1"),
    _copy("2022 draft", source="draft"),
    _copy("N5", source="n5"),
    _copy("N5, axes kept", "--axes", "kept", source="n5"),
    _copy("a zip file", source="zip"),
    _in_place("in place"),
    _in_place("in place, fsync", "--fsync"),
    _in_place("in place, Zarr v1", source="v1"),
    _in_place("in place, N5", source="n5"),
    Scenario(id="in place, taken back", words=IN_PLACE, again=(UNDO_IN_PLACE,), in_place=True),
    Scenario(
        id="finish",
        before=(IN_PLACE, VERIFY),
        words=FINISH,
        again=(FINISH,),
        in_place=True,
        kept="either",
    ),
    Scenario(
        id="finish, taken back",
        before=(IN_PLACE, VERIFY),
        words=FINISH,
        again=(UNDO_IN_PLACE,),
        in_place=True,
        kept="either",
    ),
    Scenario(id="undo", before=(MIGRATE,), words=UNDO, again=(UNDO,), whole="before"),
    Scenario(
        id="undo of shards",
        before=((*MIGRATE, "--shards", "4,4"),),
        words=UNDO,
        again=(UNDO,),
        whole="before",
        source="boxes",
    ),
    Scenario(
        id="undo and migrate", before=(MIGRATE,), words=UNDO, again=(UNDO,), after=(MIGRATE,), whole="before"
    ),
    Scenario(
        id="undo in place",
        before=(IN_PLACE,),
        words=UNDO_IN_PLACE,
        again=(UNDO_IN_PLACE,),
        whole="before",
        in_place=True,
    ),
    Scenario(
        id="undo of finish",
        before=_FINISHED,
        words=UNDO_IN_PLACE,
        again=(UNDO_IN_PLACE,),
        whole="before",
        in_place=True,
        kept="either",
    ),
    Scenario(id="copy, taken back", words=MIGRATE, again=(UNDO,)),
    Scenario(
        id="two passes, taken back",
        words=(*MIGRATE, *_COLUMNS),
        again=(UNDO,),
        source="rows",
        tight=True,
    ),
    _copy("retry over the source", "--source-through", "retry"),
    _copy("log over the source", "--source-through", "log:{home}/events.jsonl"),
    _copy("cache over the source", "--source-through", "cache:disk={home}/cache"),
    _copy("retry over the destination", "--dest-through", "retry"),
    _copy(
        "log over the destination, shards",
        "--dest-through",
        "log:{home}/events.jsonl",
        "--shards",
        "4,4",
        source="boxes",
    ),
    Scenario(
        id="retry over the destination, taken back",
        words=(*MIGRATE, "--dest-through", "retry"),
        again=(UNDO,),
    ),
    _copy("from S3", remote=frozenset({"src"})),
    _copy("to S3", remote=_DST),
    _copy("from S3 to S3", remote=_BOTH),
    _copy("from S3 to S3, processes", *_PROCESSES, source="boxes", remote=_BOTH),
    _copy("to S3, retry over the destination", "--dest-through", "retry", remote=_DST),
    _copy("to S3, shards", "--shards", "4,4", source="boxes", remote=_DST),
    _copy("to S3, regrid", "--chunks", "5,7", "--shards", "3x", source="boxes", remote=_DST),
    _copy("to S3, regrid in two passes", *_COLUMNS, source="rows", tight=True, remote=_DST),
    _copy("to S3, a shard in parts", "--shards", "12", source="megabytes", remote=_DST),
    Scenario(id="to S3, taken back", words=MIGRATE, again=(UNDO,), remote=_DST),
    _copy("to Icechunk", remote=_ICECHUNK),
    _copy("to Icechunk, checked in full", "--verify", "full", source="boxes", remote=_ICECHUNK),
    _copy("to Icechunk, shards", "--shards", "4,4", source="boxes", remote=_ICECHUNK),
    _copy("to Icechunk, regrid", "--chunks", "9,11", source="boxes", remote=_ICECHUNK),
    _copy("to Icechunk, N5", source="n5", remote=_ICECHUNK),
    Scenario(id="to Icechunk, taken back", words=MIGRATE, again=(UNDO,), remote=_ICECHUNK),
    _copy("to Icechunk on S3", source="boxes", remote=_ICECHUNK_S3),
    _copy(
        "to Icechunk on S3, processes",
        *_PROCESSES,
        source="boxes",
        remote=_ICECHUNK_S3,
    ),
    _copy("to Icechunk on S3, Dask", *_DASK, source="boxes", remote=_ICECHUNK_S3),
    Scenario(id="undo on S3", before=(MIGRATE,), words=UNDO, again=(UNDO,), whole="before", remote=_DST),
)

BY_ID = {scenario.id: scenario for scenario in SCENARIOS}


def _mixed(path: Path) -> None:
    write_archive(path)


def _stranger(path: Path) -> None:
    write_archive(path)
    zarr.create_array(path.with_name("out.zarr"), shape=(4,), chunks=(2,), dtype="u1")[:] = 9


def _boxes(path: Path) -> None:
    """Two arrays of thirty chunks each, every seventh of which is missing."""
    root = zarr.open_group(str(path), mode="w", zarr_format=2)
    for name in ("a", "b"):
        array = root.create_array(name, shape=(36, 35), chunks=(6, 7), dtype="<i4", compressors=None)
        array[...] = np.random.default_rng(5).integers(1, 99, (36, 35))
        for number, file in enumerate(sorted((path / name).glob("[0-9]*"))):
            if number % 7 == 0:
                file.unlink()


def _rows(path: Path) -> None:
    array = zarr.create_array(
        path / "a",
        shape=(120, 100),
        chunks=(1, 100),
        dtype=">i4",
        compressors=None,
        zarr_format=2,
        fill_value=7,
    )
    values = np.random.default_rng(1).integers(-999, 999, (120, 100))
    array[:100] = values[:100]
    array[110] = 1
    (path / ".zgroup").write_text('{"zarr_format": 2}')


def _row_shards(path: Path) -> None:
    import zarrlift

    rows = path.with_name("rows")
    _rows(rows)
    recipe = zarrlift.Recipe(base=zarrlift.ArrayRecipe(shards="16,1"))
    assert zarrlift.migrate(rows, path, recipe=recipe).ok
    shutil.rmtree(rows)
    path.with_name(path.name + ".zarrlift.db").unlink()


def _large(path: Path) -> None:
    """Chunks that are copied inside the kernel."""
    array = zarr.create_array(
        path, shape=(6 << 17,), chunks=(1 << 17,), dtype="<i4", compressors=None, zarr_format=2
    )
    array[...] = np.random.default_rng(2).integers(0, 1 << 30, 6 << 17)


def _megabytes(path: Path) -> None:
    """Enough of them for a shard that is sent in parts."""
    array = zarr.create_array(
        path, shape=(12 << 20,), chunks=(1 << 20,), dtype="u1", compressors=None, zarr_format=2
    )
    array[...] = np.random.default_rng(2).integers(0, 256, 12 << 20)


def _tiny(path: Path) -> None:
    """2,100 chunks of a few bytes: as many as are worth a fork."""
    path.mkdir()
    document = {
        "zarr_format": 2, "shape": [42, 50], "chunks": [1, 1], "dtype": "<u2", "order": "C",
        "fill_value": 0, "compressor": None, "filters": None,
    }  # fmt: skip
    (path / ".zarray").write_text(json.dumps(document))
    for row in range(42):
        for column in range(50):
            (path / f"{row}.{column}").write_bytes(np.uint16(row * 50 + column + 1).tobytes())


def _zip(path: Path) -> None:
    write_archive(path.with_name("zipped"))
    shutil.make_archive(str(path), "zip", path.with_name("zipped"))
    path.with_name(path.name + ".zip").rename(path)
    shutil.rmtree(path.with_name("zipped"))


def _n5(path: Path) -> None:
    """Without the node inside an array, which is refused."""
    shutil.copytree(archive("n5/java-3.5.1/tree").path, path, ignore=shutil.ignore_patterns("child"))


SOURCES: dict[str, Callable[[Path], None]] = {
    "mixed": _mixed,
    "mixed, and a stranger": _stranger,
    "boxes": _boxes,
    "rows": _rows,
    "row shards": _row_shards,
    "large": _large,
    "megabytes": _megabytes,
    "tiny": _tiny,
    "zip": _zip,
    "n5": _n5,
    "v1": lambda path: other_archive("zarr_v1", path) and None,
    "draft": lambda path: other_archive("zarr_v3_draft", path) and None,
}
"""Writes an archive at a path, and what else belongs beside it."""

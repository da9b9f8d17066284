"""Every option of `migrate`: it arrives by each way of giving it, and what it changes is verified.

A new option needs a line in `OPTIONS`: a value, an archive on which it acts, and options that it needs.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from numcodecs import JSON, Pickle
from tests.support.job_archives import cells, ocean, results, spots, written_once

import zarrlift
from zarrlift.cli.options import flags
from zarrlift.cli.parser import parsed
from zarrlift.core.draft_v3.nodes import Dialect, DraftEntryPoint, write_entry
from zarrlift.recipe.changes import ARRAY_OPTIONS, WHOLE_OPTIONS
from zarrlift.recipe.options import JobPlace, Request, Running, Watching, rows
from zarrlift.recipe.toml_file import load_recipe

REQUEST = rows(Request)
OTHERS = rows(JobPlace, Running, Watching)
ROWS = {**ARRAY_OPTIONS, **WHOLE_OPTIONS, **REQUEST, **OTHERS}

# The archives


@written_once
def numbers(path: Path) -> None:
    """Two arrays of Zarr v2 with names of axes, a chunk of zeros and bare NaN among the attributes."""
    group = zarr.open_group(path, mode="w", zarr_format=2, attributes={"valid_min": float("nan")})
    values = 2 * np.arange(128, dtype="<i4").reshape(8, 16)
    values[:4, :4] = 0
    for name in "ab":
        array = group.create_array(name, data=values, chunks=(4, 4), config={"write_empty_chunks": True})
        array.attrs["_ARRAY_DIMENSIONS"] = ["y", "x"]


def numbers_twice(path: Path) -> None:
    """The same with a document of N5."""
    numbers(path)
    (path / "attributes.json").write_text('{"n5": "2.0.0"}')


def linked_numbers(path: Path) -> None:
    """The same, of which an array is elsewhere."""
    numbers(path)
    (path / "a").rename(path.with_name("elsewhere"))
    (path / "a").symlink_to(path.with_name("elsewhere").absolute())


def documents(path: Path) -> None:
    """Objects as JSON."""
    zarr.open_group(path, mode="w", zarr_format=2)
    write_objects(path / "a", JSON(), [{"a": 1}, [2], 3])


def pickles(path: Path) -> None:
    """Objects as pickles."""
    zarr.open_group(path, mode="w", zarr_format=2)
    write_objects(path / "a", Pickle(), ["a", "b", "c"])


def write_objects(path: Path, codec: Any, values: list[Any]) -> None:
    path.mkdir()
    document = {
        "zarr_format": 2, "shape": [3], "chunks": [3], "dtype": "|O", "order": "C", "fill_value": None,
        "filters": [codec.get_config()], "compressor": None,
    }  # fmt: skip
    array = np.empty(3, object)
    array[:] = values
    (path / ".zarray").write_text(json.dumps(document))
    (path / "0").write_bytes(codec.encode(array))


def texts(path: Path) -> None:
    """Text whose fill value is the number 0, without one of its chunks."""
    path.mkdir()
    (path / ".zgroup").write_text('{"zarr_format": 2}')
    array = zarr.create_array(path / "a", shape=(4,), chunks=(2,), dtype="<U2", zarr_format=2)
    array[:2] = ["x", "y"]
    document = json.loads((path / "a" / ".zarray").read_text())
    (path / "a" / ".zarray").write_text(json.dumps({**document, "fill_value": 0}))


def draft(path: Path) -> None:
    """An array of the 2022 draft with a data type that only its fallback makes readable."""
    document = {
        "shape": [2], "data_type": {"extension": "http://example.org/x", "type": "x", "fallback": "int32"},
        "chunk_grid": {"type": "regular", "chunk_shape": [2], "separator": "/"},
        "chunk_memory_layout": "C", "fill_value": 0, "extensions": [], "attributes": {},
    }  # fmt: skip
    for name, content in {
        "zarr.json": json.dumps(write_entry(DraftEntryPoint(dialect=Dialect.TEXT))).encode(),
        "meta/a.array.json": json.dumps(document).encode(),
        "data/a/c0": np.array([1, 2], "<i4").tobytes(),
    }.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(content)


# The options


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A value of an option, the archive on which it acts, and the options that it needs."""

    value: Any
    archive: Callable[[Path], None] = numbers
    others: dict[str, Any] = field(default_factory=dict)
    changes: bool = True
    """Whether the result differs from that without the option."""
    verified: bool = True
    """Whether a comparison finds that the option was not applied; False for what has the same meaning."""


def same_meaning(value: Any, **others: Any) -> Asked:
    """Of an option that changes how values are stored."""
    return Asked(value=value, others=others, verified=False)


def same_result(value: Any, **others: Any) -> Asked:
    """Of an option that changes how the work is done."""
    return Asked(value=value, others=others, changes=False, verified=False)


OPTIONS = {
    # of arrays
    "codecs": same_meaning("gzip:1"),
    "dtype": Asked(value="int64"),
    "casting": Asked(value="clamp", others={"dtype": "int8"}),
    "endian": same_meaning("big"),
    "order": same_meaning("F"),
    "key_encoding": same_meaning("v2"),
    "separator": same_meaning("."),
    "chunks": same_meaning("8,16"),
    "shards": same_meaning("2x"),
    "shard_index": same_meaning("bytes", shards="2x"),
    "shard_index_location": same_meaning("start", shards="2x"),
    "drop_empty": Asked(value=True, verified=False),
    "objects": Asked(value="json", archive=documents),
    "allow_pickle": Asked(value=True, archive=pickles),
    "zero_fill": Asked(value="text", archive=texts),
    "attributes": Asked(value="keep"),
    "conventions": Asked(value="none", archive=ocean),
    "multiscale": Asked(value="ome", archive=cells),
    "ome": Asked(value="0.6", archive=spots),
    # of an archive
    "memory": same_result("1GB", chunks="8,16"),
    "include": Asked(value=["a"]),
    "exclude": Asked(value=["a"]),
    "consolidate": Asked(value=True, verified=False),
    "model": same_result("model.json"),
    # of reading and of the request
    "follow_links": Asked(value=True, archive=linked_numbers),
    "axes": Asked(value="kept", archive=cells),
    "allow_fallback": Asked(value=True, archive=draft),
    "format": Asked(value="zarr2", archive=numbers_twice, verified=False),
    "in_place": Asked(value=True, verified=False),
    "source_through": same_result("retry"),
    "dest_through": same_result("retry"),
    "link": same_result("hard"),
    "overwrite": same_result(True),
    "verify": same_result("full"),
    # of the run
    "job": same_result("elsewhere.zarrlift.db"),
    "workers": same_result(2),
    "executor": same_result("threads"),
    "bwlimit": same_result("1GB/s"),
    "take_over": same_result(True),
    "fsync": same_result(True),
    "no_list": same_result(True),
    "log": same_result("log.jsonl"),
}


def options_of(name: str) -> dict[str, Any]:
    """The option with all that it needs; a model as an absolute path, which no file is beside."""
    value = OPTIONS[name].value
    return {**OPTIONS[name].others, name: str(Path(value).absolute()) if name == "model" else value}


def words(options: dict[str, Any]) -> list[str]:
    """Options as words of the command line."""
    found: list[str] = []
    for name, value in options.items():
        for each in value if isinstance(value, list) else [value]:
            text = "true" if each is True else str(each)
            if ROWS[name].rare:
                found += ["--set", f"{name.replace('_', '-')}={text}"]
            else:
                found += flags(name, ROWS[name])[:1] + ([] if each is True else [text])
    return found


def row_of(options: dict[str, Any]) -> Any:
    """What the list of a batch asks for, in which these are the options of an archive."""
    places = (
        {"source": "old.zarr"} if "in_place" in options else {"source": "old.zarr", "destination": "new.zarr"}
    )
    Path("list.jsonl").write_text(json.dumps({**places, **options}))
    (row,) = zarrlift.Batch("list.jsonl").rows
    return row.request


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with a model that every archive fulfils."""
    monkeypatch.chdir(tmp_path)
    Path("model.json").write_text('{"properties": {}}')


def test_every_option_has_a_value_here() -> None:
    assert {*OPTIONS} == {*ROWS}
    signature = inspect.signature(zarrlift.migrate).parameters
    assert [name for name in OPTIONS if name not in signature] == [], "UPDATE=1 adds keywords"


@pytest.mark.parametrize("name", [*ARRAY_OPTIONS, *WHOLE_OPTIONS])
def test_an_option_of_a_recipe_arrives_by_command_line_python_toml_and_list(name: str) -> None:
    options = options_of(name)
    recipe = parsed("migrate", ["old.zarr", "new.zarr", *words(options)]).recipe()
    assert recipe != parsed("migrate", ["old.zarr", "new.zarr", *words(OPTIONS[name].others)]).recipe()
    OPTIONS[name].archive(Path("old.zarr"))
    assert zarrlift.plan("old.zarr", **options).recipe == recipe
    Path("recipe.toml").write_text(
        "".join(f"{key} = {json.dumps(value)}\n" for key, value in options.items())
    )
    assert load_recipe(Path("recipe.toml")) == recipe
    assert row_of(options).recipe == recipe
    assert zarrlift.Recipe.from_json(json.loads(json.dumps(recipe.to_json()))) == recipe


@pytest.mark.parametrize("name", REQUEST)
def test_an_option_of_a_request_arrives_by_command_line_and_list(name: str) -> None:
    options = options_of(name)
    given = parsed("migrate", ["old.zarr", "new.zarr", *words(options)])
    assert given.of(Request) | given.reading() == options
    numbers(Path("old.zarr"))
    assert getattr(row_of(options), name) == options[name]


@pytest.mark.parametrize("name", OTHERS)
def test_an_option_of_a_run_arrives_by_command_line(name: str) -> None:
    given = parsed("migrate", ["old.zarr", "new.zarr", *words(options_of(name))])
    assert given.of(JobPlace, Running, Watching) == options_of(name)


def migrated(destination: str, options: dict[str, Any]) -> dict[str, bytes]:
    """What a migration writes, if it is not refused."""
    place = None if "in_place" in options else destination
    with suppress(zarrlift.Error):
        zarrlift.migrate("old.zarr", place, **options)
    return results(Path(place or "old.zarr"))


@cache
def without(archive: Callable[[Path], None], others: tuple[tuple[str, Any], ...]) -> dict[str, bytes]:
    """What a migration writes without the option, in the working directory, which has such an archive."""
    return migrated("without.zarr", dict(others))


@pytest.mark.parametrize("name", OPTIONS)
def test_what_an_option_changes_is_in_the_result_and_is_verified(name: str) -> None:
    asked, options = OPTIONS[name], options_of(name)
    asked.archive(Path("old.zarr"))
    result = migrated("new.zarr", options)
    assert (result != without(asked.archive, tuple(asked.others.items()))) is asked.changes

    place = None if name == "in_place" else "new.zarr"
    job = {key: value for key, value in options.items() if key == "job"}
    report = zarrlift.verify("old.zarr", place, full=True, **job)
    assert report.ok, report.problems
    assert report.arrays > 0
    if asked.verified:
        migrated("without.zarr", asked.others)
        recipe = {key: value for key, value in options.items() if key not in REQUEST}
        reading = {key: value for key, value in options.items() if key in REQUEST}
        assert not zarrlift.verify("old.zarr", "without.zarr", full=True, recipe=recipe, **reading).ok

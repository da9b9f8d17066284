"""An option that no array takes is refused before anything is written; others get a warning."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import zarrlift
from zarrlift import ArrayRecipe, Recipe
from zarrlift.cli import main
from zarrlift.jobs.batch.state import reason_path
from zarrstack.core.errors import UsageError


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Two arrays with three axes in a group."""
    group = zarr.open_group(str(tmp_path / "old.zarr"), mode="w", zarr_format=2)
    for name in ("g/a", "g/b"):
        group.create_array(name, data=np.arange(1000).reshape(10, 10, 10), chunks=(5, 5, 5))
    return tmp_path / "old.zarr"


def with_table(source: Path) -> Path:
    """Also one with two axes."""
    group = zarr.open_group(str(source), mode="r+", zarr_format=2)
    group.create_array("table", data=np.arange(400).reshape(20, 20), chunks=(5, 5))
    return source


def shapes(plan: zarrlift.Plan) -> dict[str, tuple[tuple[int, ...], tuple[int, ...]]]:
    return {
        array.path: (array.destination.chunk_shape, array.destination.object_shape) for array in plan.arrays
    }


NOTHING = [
    (("--shards", "4,4", "--chunks", "10,10"), "no array takes --chunks 10,10 or --shards 4,4"),
    (("--chunks", "10,10"), "no array takes --chunks 10,10"),
    (("--set", "shard-index=bytes"), "no array takes --set shard-index=bytes"),
    (("--set", "shard-index-location=start"), "no array takes --set shard-index-location=start"),
    (("--set", "multiscale=ome"), "no array takes --set multiscale=ome"),
]


@pytest.mark.slow(one_in=5)
@pytest.mark.parametrize("command", ["migrate --dry-run", "migrate", "batch run"])
@pytest.mark.parametrize(("words", "text"), NOTHING, ids=lambda case: "".join(case[:1]))
def test_an_option_that_no_array_takes_is_refused(
    words: tuple[str, ...],
    text: str,
    command: str,
    source: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = sorted(os.walk(tmp_path))
    if command == "batch run":
        file = tmp_path.with_suffix(".zarrlift.jsonl")
        to = f"{tmp_path}/v3/{{name}}.zarr"
        assert main(["batch", "run", str(source), "--to", to, "-o", str(file), *words, "--quiet"]) != 0
        (row,) = zarrlift.Batch(file).outcome.rows
        assert (row.state, row.problems[0].kind) == ("refused", "usage")
        assert text in row.problems[0].message
        Path(reason_path(row)).unlink()
        (tmp_path / "v3").rmdir()
    else:
        ends = [str(source), str(tmp_path / "new.zarr")]
        assert main([*command.split(), *ends, *words]) == 2
        error = capsys.readouterr().err
        assert text in error
        assert error.count("\n") == 1
    assert sorted(os.walk(tmp_path)) == before


def test_a_casting_without_a_cast_is_refused(source: Path) -> None:
    recipe = Recipe(base=ArrayRecipe(casting="clamp"))
    with pytest.raises(UsageError, match="no array takes casting = 'clamp'"):
        zarrlift.plan(source, recipe=recipe)


def test_the_reason_is_given(source: Path) -> None:
    recipe = Recipe(base=ArrayRecipe(shards="4,4"))
    with pytest.raises(UsageError) as caught:
        zarrlift.plan(source, recipe=recipe)
    assert caught.value.problem.found == "3 axes (/g/a), 3 axes (/g/b)"


@pytest.mark.parametrize("option", [{"chunks": "10,10"}, {"shards": "2,2"}], ids=str)
def test_where_some_arrays_take_it_each_other_one_gets_a_warning(
    option: dict[str, Any], source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = Recipe(base=ArrayRecipe(**option))
    plan = zarrlift.plan(with_table(source), recipe=recipe)
    (first, *others) = plan.all_problems()
    assert [(each.node, each.severity) for each in others] == [("g/a", "warning"), ("g/b", "warning")]
    assert first.message.endswith(" is applied to 1 of 3 arrays: /table")
    assert shapes(plan)["g/a"] == ((5, 5, 5), (5, 5, 5))
    assert shapes(plan)["table"][1] == (10, 10)
    words = [word for name, value in option.items() for word in (f"--{name}", value)]
    for command in (["migrate", "--dry-run"], ["migrate"]):
        assert main([*command, str(source), str(tmp_path / "new.zarr"), *words]) == 0
        text = " ".join(capsys.readouterr().out.split())
        assert "warning:" in text
        assert f"--{words[0][2:]} and the array have different numbers of axes" in text


@pytest.fixture
def climate(tmp_path: Path) -> Path:
    """As xarray writes it: the dimensions are in attributes, and have arrays of their own."""
    group = zarr.open_group(str(tmp_path / "air.zarr"), mode="w", zarr_format=2)
    sizes = {"time": 200, "lat": 60, "lon": 30}
    for name, n in sizes.items():
        group.create_array(name, data=np.arange(n), chunks=(n,)).attrs["_ARRAY_DIMENSIONS"] = [name]
    air = np.arange(360_000, dtype="i4").reshape(*sizes.values())
    made = group.create_array("air", data=air, chunks=(10, 20, 30), compressors=None)
    made.attrs["_ARRAY_DIMENSIONS"] = [*sizes]
    group.create_array("crs", data=np.array(0)).attrs["_ARRAY_DIMENSIONS"] = []
    return tmp_path / "air.zarr"


NAMED = {"time": 100, "lat": -1}
SHARDED = {"time": 2, "lon": 3}


@pytest.mark.parametrize("way", ["command line", "keywords", "TOML", "list"])
def test_axes_are_named_as_people_know_them_and_others_keep_their_length(
    way: str, climate: Path, tmp_path: Path
) -> None:
    new = tmp_path / "new.zarr"
    toml = tmp_path / "recipe.toml"
    toml.write_text("chunks = {time = 100, lat = -1}\nshards = 'time=2,lon=3'")
    row = {"source": str(climate), "destination": str(new), "chunks": "time=100,lat=-1", "shards": SHARDED}
    if way == "command line":
        words = ["--chunks", "time=100,lat=-1", "--shards", "time=2,lon=3"]
        assert main(["migrate", str(climate), str(new), *words]) == 0
    elif way == "keywords":
        assert zarrlift.migrate(climate, new, chunks=NAMED, shards=SHARDED).ok
    elif way == "TOML":
        assert zarrlift.migrate(climate, new, recipe=toml).ok
    else:
        (tmp_path / "all.jsonl").write_text(json.dumps(row))
        assert main(["batch", "run", str(tmp_path / "all.jsonl"), "--quiet"]) == 0
    group = zarr.open_group(str(new), mode="r")
    assert (group["air"].chunks, group["air"].shards) == ((100, 60, 30), (200, 60, 90))
    assert (group["lat"].chunks, group["lat"].shards) == ((60,), None)
    assert np.array_equal(group["air"][...], zarr.open_array(str(climate), path="air", mode="r")[...])


def test_arrays_without_a_named_dimension_keep_theirs_and_a_name_of_none_is_refused(climate: Path) -> None:
    plan = zarrlift.plan(climate, chunks=NAMED)
    (first, *others) = warned(plan)
    assert first == (None, "--chunks time=100,lat=-1 is applied to 1 of 5 arrays: /air")
    assert {node for node, _ in others} == {"time", "lat", "lon"}
    with pytest.raises(UsageError, match="no array takes --shards tme=4") as caught:
        zarrlift.plan(climate, shards={"tme": 4})
    assert caught.value.problem.found.startswith("time, lat, lon (/air), ")
    with pytest.raises(UsageError, match="numbers: no axis has a name"):
        zarrlift.plan(climate, chunks=NAMED, conventions="none")


def test_dimensions_have_the_names_of_the_result_in_every_format(tmp_path: Path) -> None:
    options: Any = {"data": np.zeros((4, 6)), "chunks": (2, 2), "dimension_names": ("y", "x")}
    zarr.create_array(str(tmp_path / "v3"), **options)
    (tmp_path / "n5/s0").mkdir(parents=True)
    head = {"dimensions": [6, 4], "blockSize": [2, 2], "dataType": "uint8", "axes": ["x", "y"]}
    text = json.dumps({**head, "compression": {"type": "raw"}})
    (tmp_path / "n5/s0/attributes.json").write_text(text)
    group = zarr.open_group(str(tmp_path / "ome"), mode="w", zarr_format=2)
    group.create_array("s0", data=np.zeros((4, 6)), chunks=(2, 2))
    axes = [{"name": axis, "type": "space"} for axis in "yx"]
    datasets = [{"path": "s0", "coordinateTransformations": [{"type": "scale", "scale": [1, 1]}]}]
    group.attrs["multiscales"] = [{"version": "0.4", "axes": axes, "datasets": datasets}]
    for name in ("v3", "n5", "ome"):
        (planned,) = zarrlift.plan(tmp_path / name, chunks={"x": 3}).arrays
        assert (planned.destination.dimension_names, planned.destination.chunk_shape) == (("y", "x"), (2, 3))


def test_a_size_of_shards_is_about_that_of_the_objects(climate: Path, tmp_path: Path) -> None:
    new = tmp_path / "new.zarr"
    assert main(["migrate", str(climate), str(new), "--codecs", "none", "--shards", "200kB"]) == 0
    sizes = [file.stat().st_size for file in (new / "air/c").rglob("*") if file.is_file()]
    assert 100_000 <= max(sizes) <= 205_000
    assert zarr.open_array(str(new), path="lat", mode="r").shards is None
    assert zarrlift.verify(climate, new, full=True).ok


def test_an_option_of_a_section_counts_for_the_arrays_of_the_section(source: Path) -> None:
    sections = (("table", (("chunks", "10,10"),)), ("g/**", (("shards", "4,4"),)))
    with pytest.raises(UsageError, match=r"no array takes shards = '4,4' of 'g/\*\*'"):
        zarrlift.plan(with_table(source), recipe=Recipe(sections=sections))
    plan = zarrlift.plan(source, recipe=Recipe(sections=sections[:1]))
    assert (shapes(plan)["table"][0], plan.all_problems()) == ((10, 10), ())


def test_an_index_of_shards_is_a_warning_where_there_are_none(source: Path) -> None:
    base = ArrayRecipe(shards="2,2", shard_index_location="start")
    plan = zarrlift.plan(with_table(source), recipe=Recipe(base=base))
    messages = [problem.message for problem in plan.all_problems() if problem.node == "g/a"]
    assert "no effect of --set shard-index-location: the array has no shards" in messages


NO_INDEX = "no effect of --set shard-index: the array has no shards"


def warned(plan: zarrlift.Plan) -> list[tuple[str | None, str]]:
    return [(each.node, each.message) for each in plan.all_problems() if each.severity == "warning"]


def test_an_index_beside_no_shards_is_a_warning(source: Path) -> None:
    plan = zarrlift.plan(source, recipe=Recipe(base=ArrayRecipe(shard_index="bytes", shards="none")))
    assert warned(plan) == [("g/a", NO_INDEX), ("g/b", NO_INDEX)]


def test_where_auto_finds_shards_unnecessary_a_note_says_so(source: Path) -> None:
    recipe = Recipe(base=ArrayRecipe(shard_index="bytes", shards="auto", chunks="10,10,10"))
    notes = [(each.severity, each.message) for each in zarrlift.plan(source, recipe=recipe).all_problems()]
    assert notes == [("note", "no shards: the array is a single chunk")] * 2


def test_an_index_of_shards_is_a_warning_in_a_format_that_has_shards(source: Path, tmp_path: Path) -> None:
    """Arrays of Zarr v3 keep the shards that they have: the option applies to such as there are."""
    new = tmp_path / "new.zarr"
    assert zarrlift.migrate(source, new).ok
    plan = zarrlift.plan(new, recipe=Recipe(base=ArrayRecipe(shard_index="bytes")))
    assert warned(plan) == [("g/a", NO_INDEX), ("g/b", NO_INDEX)]


def test_shards_that_a_data_type_cannot_have_are_a_warning(tmp_path: Path) -> None:
    """It is zarrlift that leaves them out, since zarr-python cannot read them."""
    zarr.create_array(str(tmp_path / "old.zarr"), data=np.zeros(4, "V3"), chunks=(2,), zarr_format=2)
    plan = zarrlift.plan(tmp_path / "old.zarr", recipe=Recipe(base=ArrayRecipe(shards="2")))
    (problem,) = plan.all_problems()
    assert (problem.severity, problem.kind) == ("warning", "grid")
    assert shapes(plan)[""] == ((2,), (2,))


def test_shards_with_other_axes_are_refused_where_arrays_keep_theirs(tmp_path: Path) -> None:
    options = {"shape": (4, 4, 4), "chunks": (1, 1, 1), "shards": (2, 2, 2), "dtype": "i4"}
    zarr.create_array(str(tmp_path / "old.zarr"), **options)
    with pytest.raises(UsageError, match="no array takes --shards 4,4"):
        zarrlift.plan(tmp_path / "old.zarr", recipe=Recipe(base=ArrayRecipe(shards="4,4")))


@pytest.mark.parametrize("shards", ["auto", "2x", "none"])
def test_an_array_without_axes_needs_no_shards(shards: str, tmp_path: Path) -> None:
    zarr.create_array(str(tmp_path / "old.zarr"), data=np.array(7), zarr_format=2)
    plan = zarrlift.plan(tmp_path / "old.zarr", recipe=Recipe(base=ArrayRecipe(shards=shards)))
    assert shapes(plan) == {"": ((), ())}


@pytest.mark.parametrize(
    "option",
    [
        {"objects": "json"},
        {"zero_fill": "text"},
        {"allow_pickle": True},
        {"endian": "big"},
        {"shards": "auto"},
    ],
    ids=str,
)
def test_what_only_says_how_to_treat_some_values_is_no_request(option: dict[str, Any], source: Path) -> None:
    """And `auto` may find that no shards are needed."""
    assert zarrlift.plan(source, recipe=Recipe(base=ArrayRecipe(**option))).arrays


def test_an_array_that_is_refused_might_take_it(source: Path) -> None:
    with_table(source)
    document = source / "table/.zarray"
    document.write_bytes(document.read_bytes().replace(b'"<i8"', b'"<q9"'))
    recipe = Recipe(base=ArrayRecipe(chunks="10,10"))
    assert zarrlift.plan(source, recipe=recipe).refusals

"""Names of axes and pyramids of scales that programs leave on N5, and OME-NGFF inside it."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaozarrs
from hypothesis import given
from hypothesis import strategies as st
from tests.support.chances import json_values
from tests.support.fixtures_index import archive
from tests.support.v2_trees import n5, tree

import zarrlift
from zarrlift.conventions.apply import apply_conventions
from zarrlift.conventions.n5.pyramids import axis_names
from zarrlift.recipe.options import Axes
from zarrlift.recipe.recipe import ArrayRecipe, Recipe
from zarrstack.core.errors import UsageError

# Names of axes and pyramids of scales that programs leave on N5, and `--set multiscale=ome`.


MULTISCALE = archive("n5/java-3.5.1/multiscale")
OME = Recipe(base=ArrayRecipe(multiscale="ome"))


def level(*transforms):
    """A dataset's coordinate transformations: a scale, and a translation."""
    scale, translation = transforms
    return [{"type": "scale", "scale": scale}, {"type": "translation", "translation": translation}]


def image(name, unit, *levels):
    """OME-Zarr 0.5 metadata of an image whose levels lie in s0, s1, ..., with axes reversed."""
    more = {} if unit is None else {"unit": unit}
    return {
        "version": "0.5",
        "multiscales": [
            {
                "name": name,
                "axes": [{"name": axis, "type": "space", **more} for axis in "zyx"],
                "datasets": [
                    {"path": f"s{i}", "coordinateTransformations": level(*one)}
                    for i, one in enumerate(levels)
                ],
            }
        ],
    }


BDV = (([4.0, 1.0, 1.0], [0.0, 0.0, 0.0]), ([8.0, 2.0, 2.0], [2.0, 0.5, 0.5]))
IMAGES = {
    # The writer's own numbers, s1 as the group's `multiscales` has it too.
    "cosem/em": image(
        "em",
        "nanometer",
        ([5.24, 4.0, 4.0], [0.0, 0.0, 0.0]),
        ([10.48, 8.0, 8.0], [2.62, 2.0, 2.0]),
    ),
    "viewer/c0": image(
        "c0",
        "micrometer",
        ([0.18, 0.097, 0.097], [0.0, 0.0, 0.0]),
        ([0.36, 0.194, 0.194], [0.09, 0.0485, 0.0485]),
        ([0.72, 0.388, 0.388], [0.27, 0.1455, 0.1455]),
    ),
    "viewer/c1": image("c1", None, ([0.3, 0.1, 0.1], [0.0, 0.0, 0.0]), ([0.6, 0.2, 0.2], [0.15, 0.05, 0.05])),
    "paintera/raw/data": image(
        "data", None, ([40.0, 4.0, 4.0], [-40.0, 0.0, 100.0]), ([80.0, 8.0, 8.0], [-20.0, 2.0, 102.0])
    ),
    **{f"bdv/setup{s}/timepoint{t}": image(f"timepoint{t}", None, *BDV) for s in (0, 1) for t in (0, 1)},
}
"""What the pyramids that Java wrote are, worked out by hand from what each program says."""


def nearly(value):
    """Numbers to some twelve digits."""
    if isinstance(value, float):
        return pytest.approx(value, rel=1e-12)
    if isinstance(value, list):
        return [nearly(item) for item in value]
    if isinstance(value, dict):
        return {key: nearly(item) for key, item in value.items()}
    return value


def documents(place: Path) -> dict[str, dict]:
    """Every `zarr.json`, by the node's path."""
    return {
        file.parent.relative_to(place).as_posix().replace(".", "", 1) if file.parent == place else
        file.parent.relative_to(place).as_posix(): json.loads(file.read_text())
        for file in place.rglob("zarr.json")
    }  # fmt: skip


@pytest.fixture(scope="module")
def lifted(tmp_path_factory) -> Path:
    """The fixture, migrated with `--set multiscale=ome`."""
    place = tmp_path_factory.mktemp("ome") / "out.zarr"
    zarrlift.migrate(MULTISCALE.path, place, recipe=OME)
    return place


@pytest.mark.parametrize("path", IMAGES)
def test_a_pyramid_becomes_an_image_of_ome_zarr(path, lifted):
    found = documents(lifted)
    assert found[path]["attributes"]["ome"] == nearly(IMAGES[path])
    for dataset in IMAGES[path]["multiscales"][0]["datasets"]:
        # 0.5: dimension_names of each level equal the names of the axes.
        assert found[f"{path}/{dataset['path']}"]["dimension_names"] == ["z", "y", "x"]


@pytest.mark.parametrize("path", IMAGES)
def test_an_independent_reader_of_ome_zarr_finds_nothing_wrong(path, lifted):
    yaozarrs.validate_zarr_store(str(lifted / path))


def test_the_originals_stay_and_nothing_else_changes(lifted):
    for path, found in documents(lifted).items():
        before = MULTISCALE[path].attributes if path in MULTISCALE.arrays else MULTISCALE.groups[path]
        assert {name: value for name, value in found["attributes"].items() if name != "ome"} == before
        assert ("ome" in found["attributes"]) == (path in IMAGES)


def test_verification_knows_what_was_added(lifted):
    report = zarrlift.verify(MULTISCALE.path, lifted, full=True)
    assert {problem.node for problem in report.problems} <= {"paintera/labels/data/s0"}


def test_a_translation_says_where_the_same_place_lies_in_each_level():
    """The centre of a level's first voxel is that of the voxels it is the mean of."""
    for found in IMAGES.values():
        first, *more = (
            (
                dataset["coordinateTransformations"][0]["scale"],
                dataset["coordinateTransformations"][1]["translation"],
            )
            for dataset in found["multiscales"][0]["datasets"]
        )
        for scale, translation in more:
            for size, start, full, origin in zip(scale, translation, *first, strict=True):
                assert start - size / 2 == pytest.approx(origin - full / 2)


def test_axes_are_named_unasked_and_kept_axes_are_named_in_their_order(tmp_path):
    for axes, names in (("reversed", ["z", "y", "x"]), ("kept", ["x", "y", "z"])):
        zarrlift.migrate(MULTISCALE.path, tmp_path / axes, axes=axes)
        found = documents(tmp_path / axes)
        named = {path: node["dimension_names"] for path, node in found.items() if "dimension_names" in node}
        assert named.keys() == MULTISCALE.arrays.keys() - {"paintera/labels/data/s0"}
        assert set(map(tuple, named.values())) == {tuple(names)}
        assert not any("ome" in node["attributes"] for node in found.values())


def test_with_axes_kept_the_image_is_described_in_their_order(tmp_path):
    zarrlift.migrate(MULTISCALE.path, tmp_path / "out", axes="kept", recipe=OME)
    (found,) = documents(tmp_path / "out")["cosem/em"]["attributes"]["ome"]["multiscales"]
    assert [axis["name"] for axis in found["axes"]] == ["x", "y", "z"]
    assert found["datasets"][1]["coordinateTransformations"] == level([8.0, 8.0, 10.48], [2.0, 2.0, 2.62])


def test_pyramids_may_become_0_6(tmp_path):
    recipe = Recipe(base=ArrayRecipe(multiscale="ome", ome="0.6"))
    zarrlift.migrate(MULTISCALE.path, tmp_path / "out", recipe=recipe)
    block = documents(tmp_path / "out")["cosem/em"]["attributes"]["ome"]
    [system] = block["multiscales"][0]["coordinateSystems"]
    assert (block["version"], [axis["unit"] for axis in system["axes"]]) == ("0.6", ["nanometer"] * 3)
    assert not [
        problem
        for problem in zarrlift.verify(MULTISCALE.path, tmp_path / "out").problems
        if problem.kind == "verify-attributes"
    ]


def test_it_makes_no_sense_without_the_convention(tmp_path):
    recipe = Recipe(base=ArrayRecipe(conventions="none", multiscale="ome"))
    with pytest.raises(UsageError, match="--set multiscale"):
        zarrlift.plan(MULTISCALE.path, tmp_path / "out", recipe=recipe)


# ----- what is said otherwise, or wrongly

LEVEL = {"dimensions": [8, 8, 8], "blockSize": [4, 4, 4], "dataType": "uint8", "compression": {"type": "raw"}}


def applied(root, entries, recipe=OME):
    """What the conventions make of an archive of these documents."""
    files = {
        f"{path}/attributes.json" if path else "attributes.json": document
        for path, document in entries.items()
    }
    storage = tree(root, files)
    return apply_conventions(n5.read(storage), storage, recipe)


def ome_of(result, path):
    """The image that a group becomes."""
    attributes = result.change(path).attributes
    return None if attributes is None else attributes["ome"]["multiscales"][0]


def test_factors_nobody_says_are_powers_of_two(tmp_path):
    result = applied(
        tmp_path, {"": {"n5": "4.0.0"}, "a": {"pixelResolution": [1, 1, 2]}, "a/s0": LEVEL, "a/s2": LEVEL}
    )
    datasets = ome_of(result, "a")["datasets"]
    assert [dataset["path"] for dataset in datasets] == ["s0", "s2"]
    assert datasets[1]["coordinateTransformations"] == level([8.0, 4.0, 4.0], [3.0, 1.5, 1.5])


def test_fortran_ordering_is_n5s_own(tmp_path):
    transform = {
        "axes": ["x", "y", "z"],
        "ordering": "F",
        "scale": [1, 2, 3],
        "translate": [4, 5, 6],
        "units": ["nm"] * 3,
    }
    result = applied(tmp_path, {"": {"n5": "4.0.0"}, "a/s0": {**LEVEL, "transform": transform}})
    found = ome_of(result, "a")
    assert [axis["name"] for axis in found["axes"]] == ["z", "y", "x"]
    assert found["datasets"][0]["coordinateTransformations"] == level([3.0, 2.0, 1.0], [6.0, 5.0, 4.0])


def test_levels_without_a_word_about_them_are_no_image(tmp_path):
    result = applied(tmp_path, {"": {"n5": "4.0.0"}, "a/s0": LEVEL, "a/s1": LEVEL})
    assert result.changes == {}


@pytest.mark.parametrize(
    ("second", "recipe"),
    [
        (LEVEL, Recipe(base=OME.base, exclude=("a/s1",))),
        ({**LEVEL, "compression": {"type": "snappy"}}, OME),
    ],
    ids=["left out", "refused"],
)
def test_a_level_that_is_not_migrated_leaves_no_image(second, recipe, tmp_path):
    entries = {"": {"n5": "4.0.0"}, "a": {"pixelResolution": [1, 1, 2]}, "a/s0": LEVEL, "a/s1": second}
    result = applied(tmp_path, entries, recipe)
    assert ome_of(result, "a") is None
    assert "a level of an image is not migrated" in result.problems_of("a")[0].message


def test_an_attribute_ome_that_is_there_stays(tmp_path):
    entries = {"": {"n5": "4.0.0"}, "a": {"pixelResolution": [1, 1, 2], "ome": "mine"}, "a/s0": LEVEL}
    result = applied(tmp_path, entries)
    assert result.change("a").attributes is None
    assert "already has an attribute `ome`" in result.problems_of("a")[0].message


def test_a_unit_nobody_knows_is_left_out_and_told(tmp_path):
    resolution = {"dimensions": [1, 1, 2], "unit": "furlong"}
    result = applied(tmp_path, {"": {"n5": "4.0.0"}, "a/s0": {**LEVEL, "pixelResolution": resolution}})
    assert all("unit" not in axis for axis in ome_of(result, "a")["axes"])
    assert result.problems_of("a")[0].found == '"furlong"'


@pytest.mark.parametrize(
    ("value", "names"),
    [
        (["x", "y", "z"], ("x", "y", "z")),
        (["x", "", "t"], ("x", None, "t")),
        (["z", "y", "x"], None),
        (["x", "x", "y"], None),
        (["", "", ""], None),
        (["x", "y"], None),
        ("xyz", None),
        ([1, 2, 3], None),
    ],
    ids=str,
)
def test_names_of_axes(value, names):
    assert axis_names(value, 3) == names


def test_an_array_names_its_axes_in_n5s_order(tmp_path):
    result = applied(tmp_path, {"": {"n5": "4.0.0"}, "a": {**LEVEL, "axes": ["x", "y", "t"]}}, Recipe())
    assert result.change("a").dimension_names == ("t", "y", "x")


MEMBERS = ("dimensions", "unit", "axes", "scale", "datasets", "path")
JSON = json_values(["x", "nm", "C"], keys=MEMBERS, leaves=8)
NAMES = (
    "axes",
    "transform",
    "pixelResolution",
    "downsamplingFactors",
    "scales",
    "multiscales",
    "resolution",
    "offset",
    "units",
)


@given(
    st.dictionaries(st.sampled_from(NAMES), JSON, max_size=4),
    st.dictionaries(st.sampled_from(NAMES), JSON, max_size=4),
)
def test_nothing_escapes_whatever_attributes_hold(tmp_path_factory, group, array):
    result = applied(
        tmp_path_factory.mktemp("any"), {"": {"n5": "4.0.0"}, "a": group, "a/s0": {**LEVEL, **array}}
    )
    names = result.change("a/s0").dimension_names
    assert names is None or len(names) == 3
    assert isinstance(result.problems, dict)


# OME-NGFF inside N5, whose writers list axes in N5's order or in its reverse.


IMAGE_OF_JAVA = Recipe(base=ArrayRecipe(multiscale="ome"))
LEVEL_OF_IMAGE = {
    "dimensions": [8, 6, 4],
    "blockSize": [4, 4, 4],
    "dataType": "uint8",
    "compression": {"type": "raw"},
}
SCALE, TRANSLATION = {"x": 1.0, "y": 2.0, "z": 3.0}, {"x": 10.0, "y": 20.0, "z": 30.0}


def ngff_image(order: str, version: str | None = "0.4") -> dict[str, Any]:
    """An image of one level, each list in this order of axes."""
    vectors = [
        {"type": "scale", "scale": [SCALE[axis] for axis in order]},
        {"type": "translation", "translation": [TRANSLATION[axis] for axis in order]},
    ]
    return {
        "name": "em",
        **({"version": version} if version else {}),
        "axes": [{"name": axis, "type": "space", "unit": "nanometer"} for axis in order],
        "datasets": [{"path": "s0", "coordinateTransformations": vectors}],
    }


def ngff_archive(place: Path, group: dict[str, Any]) -> Path:
    """An N5 container with one image, of dimensions [8, 6, 4] in N5's order."""
    entries = {
        "attributes.json": {"n5": "4.0.0"},
        "a/attributes.json": group,
        "a/s0/attributes.json": LEVEL_OF_IMAGE,
    }
    tree(place, entries)
    return place


def migrated(
    place: Path, group: dict[str, Any], recipe: Recipe = IMAGE_OF_JAVA, axes: Axes = "reversed"
) -> Any:
    """What becomes of an image: (the group's attributes, shape and dimension names of its level, notes)."""
    source, out = ngff_archive(place / "old.n5", copy.deepcopy(group)), place / "new.zarr"
    plan = zarrlift.plan(source, out, recipe=recipe, axes=axes)
    assert zarrlift.migrate(source, out, recipe=recipe, axes=axes).ok
    assert zarrlift.verify(source, out, full=True).ok
    told = [problem for problem in plan.all_problems() if problem.kind == "convention"]
    level = json.loads((out / "a" / "s0" / "zarr.json").read_bytes())
    attributes = json.loads((out / "a" / "zarr.json").read_bytes())["attributes"]
    return attributes, level["shape"], level.get("dimension_names"), told


WRITERS = {
    "n5-universe 1 and 2, zarr-python": ngff_image("zyx"),
    "n5-universe 3": ngff_image("xyz"),
    "no version": ngff_image("zyx", version=None),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_0_4_becomes_0_5_in_the_order_of_the_arrays(writer: str, tmp_path: Path) -> None:
    attributes, shape, names, told = migrated(tmp_path, {"multiscales": [WRITERS[writer]], "mine": [1, 2, 3]})
    assert attributes == {
        "ome": {"version": "0.5", "multiscales": [ngff_image("zyx", version=None)]},
        "mine": [1, 2, 3],
    }
    assert (shape, names, told) == ([4, 6, 8], ["z", "y", "x"], [])
    yaozarrs.validate_zarr_store(str(tmp_path / "new.zarr" / "a"))


@pytest.mark.parametrize("order", ["zyx", "xyz"])
def test_with_axes_kept_too(order: str, tmp_path: Path) -> None:
    attributes, shape, names, _ = migrated(tmp_path, {"multiscales": [ngff_image(order)]}, axes="kept")
    assert attributes["ome"]["multiscales"] == [ngff_image("xyz", version=None)]
    assert (shape, names) == ([8, 6, 4], ["x", "y", "z"])


def test_the_transformations_of_the_image_turn_with_those_of_its_levels(tmp_path: Path) -> None:
    stated = {**ngff_image("xyz"), "coordinateTransformations": [{"type": "scale", "scale": [7.0, 8.0, 9.0]}]}
    attributes, *_ = migrated(tmp_path, {"multiscales": [stated]})
    (found,) = attributes["ome"]["multiscales"]
    assert found["coordinateTransformations"] == [{"type": "scale", "scale": [9.0, 8.0, 7.0]}]


def test_unasked_it_stays_with_a_note_that_says_how(tmp_path: Path) -> None:
    group = {"multiscales": [ngff_image("xyz")]}
    attributes, _, _, told = migrated(tmp_path, group, Recipe())
    assert attributes == group
    assert [(problem.severity, problem.node) for problem in told] == [("note", "a")]
    assert "--set multiscale=ome" in str(told[0].advice)


UNTOLD = {
    "x in the middle": {**ngff_image("zyx"), "axes": [{"name": "z"}, {"name": "x"}, {"name": "y"}]},
    "other names": {**ngff_image("zyx"), "axes": [{"name": "a"}, {"name": "b"}, {"name": "c"}]},
    "a scale that is stored elsewhere": {
        **ngff_image("xyz"),
        "coordinateTransformations": [{"type": "scale", "path": "scales"}],
    },
    "an order that OME-NGFF does not have": {
        **ngff_image("xyz"),
        "axes": [
            {"name": "x", "type": "space"},
            {"name": "t", "type": "time"},
            {"name": "c", "type": "channel"},
        ],
    },
}


@pytest.mark.parametrize("case", UNTOLD)
def test_what_cannot_be_turned_without_guessing_stays_with_a_note(case: str, tmp_path: Path) -> None:
    group = {"multiscales": [UNTOLD[case]]}
    attributes, _, _, told = migrated(tmp_path, group)
    assert attributes == group
    assert [(problem.severity, problem.advice) for problem in told] == [("note", None)]
    assert "x first or last" in str(told[0].expected)


def test_ome_ngff_counts_before_what_other_programs_say(tmp_path: Path) -> None:
    group = {"multiscales": [ngff_image("zyx")], "pixelResolution": [5.0, 5.0, 5.0]}
    attributes, *_ = migrated(tmp_path, group)
    assert attributes["ome"]["multiscales"] == [ngff_image("zyx", version=None)]
    assert attributes["pixelResolution"] == [5.0, 5.0, 5.0]


@pytest.mark.parametrize(
    ("recipe", "order"), [(IMAGE_OF_JAVA, "zyx"), (Recipe(), "xyz")], ids=["asked", "unasked"]
)
def test_0_5_in_the_order_of_n5_turns_where_it_is_asked_for(
    recipe: Recipe, order: str, tmp_path: Path
) -> None:
    group = {"ome": {"version": "0.5", "multiscales": [ngff_image("xyz", version=None)]}}
    attributes, _, _, told = migrated(tmp_path, group, recipe)
    assert attributes == {"ome": {"version": "0.5", "multiscales": [ngff_image(order, version=None)]}}
    assert [problem.severity for problem in told] == ([] if order == "zyx" else ["note"])


def test_older_versions_stay_with_a_note(tmp_path: Path) -> None:
    group = {"multiscales": [{**ngff_image("zyx", version="0.3"), "axes": ["z", "y", "x"]}]}
    attributes, _, _, told = migrated(tmp_path, group)
    assert attributes == group
    assert [(problem.severity, problem.found) for problem in told] == [("note", "version 0.3")]


def test_an_image_that_contradicts_its_arrays_is_refused_where_it_is_asked_for(tmp_path: Path) -> None:
    stated = ngff_image("zyx")
    stated["datasets"][0]["path"] = "s7"
    source = ngff_archive(tmp_path / "old.n5", {"multiscales": [stated]})
    told = zarrlift.plan(source, tmp_path / "new", recipe=IMAGE_OF_JAVA).all_problems()
    assert "there is no such array" in str([problem for problem in told if problem.severity == "refusal"])
    assert zarrlift.migrate(source, tmp_path / "plain").ok

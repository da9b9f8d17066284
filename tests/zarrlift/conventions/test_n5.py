"""Names of axes and pyramids of scales that programs leave on N5, and `--set multiscale=ome`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaozarrs
from hypothesis import given
from hypothesis import strategies as st
from tests.support.damaged_archives import run
from tests.support.fixtures_index import archive
from tests.support.format_readers import n5
from tests.support.v2_trees import tree

import zarrlift
from zarrlift.conventions.apply import apply_conventions
from zarrlift.conventions.n5.pyramids import axis_names
from zarrlift.recipe.recipe import ArrayRecipe, Recipe
from zarrstack.core.errors import UsageError

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


def test_conventions_none_names_nothing(tmp_path):
    recipe = Recipe(base=ArrayRecipe(conventions="none"))
    zarrlift.migrate(MULTISCALE.path, tmp_path / "out", recipe=recipe)
    assert not any("dimension_names" in node for node in documents(tmp_path / "out").values())


def test_the_command_line_and_recipes_ask_for_it(tmp_path):
    assert run("migrate", MULTISCALE.path, tmp_path / "out", "--set", "multiscale=ome").code == 1
    assert "ome" in documents(tmp_path / "out")["cosem/em"]["attributes"]
    (tmp_path / "recipe.toml").write_text('[arrays."viewer/**"]\nmultiscale = "ome"\n')
    run("migrate", MULTISCALE.path, tmp_path / "some", "--recipe", tmp_path / "recipe.toml")
    with_ome = {path for path, node in documents(tmp_path / "some").items() if "ome" in node["attributes"]}
    assert with_ome == {"viewer/c0", "viewer/c1"}


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


def test_a_level_that_is_left_out_leaves_no_image(tmp_path):
    entries = {"": {"n5": "4.0.0"}, "a": {"pixelResolution": [1, 1, 2]}, "a/s0": LEVEL, "a/s1": LEVEL}
    result = applied(tmp_path, entries, Recipe(base=OME.base, exclude=("a/s1",)))
    assert ome_of(result, "a") is None
    assert "a level of an image is not migrated" in result.problems_of("a")[0].message


def test_a_refused_level_leaves_no_image(tmp_path):
    broken = {**LEVEL, "compression": {"type": "snappy"}}
    result = applied(
        tmp_path,
        {"": {"n5": "4.0.0"}, "a": {"scales": [[1, 1, 1], [2, 2, 2]]}, "a/s0": LEVEL, "a/s1": broken},
    )
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
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["x", "nm", "C"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(MEMBERS), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
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

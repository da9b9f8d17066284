"""OME-NGFF becomes OME-Zarr 0.5, or is refused where it contradicts its arrays or no rule decides."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaozarrs
from tests.support.fixtures_index import archive as fixture
from tests.zarrlift.conventions.trees import Storage, applied, archive, array

import zarrlift
from zarrlift.conventions.apply import apply_conventions
from zarrlift.recipe.recipe import ArrayRecipe, Recipe
from zarrstack.core.errors import UsageError

# OME-NGFF 0.4 becomes OME-Zarr 0.5, or is refused where it contradicts its arrays.


AXES = [{"name": "y", "type": "space"}, {"name": "x", "type": "space"}]


def image(**changes: Any) -> dict[str, Any]:
    """One image of one level."""
    level = {"path": "0", "coordinateTransformations": [{"type": "scale", "scale": [1.0, 1.0]}]}
    return {"version": "0.4", "name": "cells", "axes": AXES, "datasets": [level], **changes}


def test_only_ome_keys_move_and_only_their_versions_go() -> None:
    attributes = {
        "multiscales": [image(metadata={"version": "Bio-Formats 6.13"}), image(name="again")],
        "omero": {"version": "0.4", "channels": [{"label": "DAPI"}]},
        "image-label": {"version": "0.4", "colors": [{"label-value": 1}]},
        "mine": {"version": "0.4"},
        "version": "0.4",
    }
    before = copy.deepcopy(attributes)
    change = applied(archive({"im": attributes}, array("im/0", 2))).change("im")
    unversioned = [{k: v for k, v in one.items() if k != "version"} for one in attributes["multiscales"]]
    assert change.attributes == {
        "ome": {
            "version": "0.5",
            "multiscales": unversioned,
            "omero": {"channels": [{"label": "DAPI"}]},
            "image-label": {"colors": [{"label-value": 1}]},
        },
        "mine": {"version": "0.4"},
        "version": "0.4",
    }
    assert attributes == before
    assert set(change.replaced) == {
        "/multiscales/0/version", "/multiscales/1/version", "/omero/version", "/image-label/version",
    }  # fmt: skip


def test_empty_lists_that_0_5_forbids_are_left_out_with_a_note() -> None:
    """The first is what Java's writers leave (n5-universe 2.3, `MultiscalesAdapter`)."""
    attributes = {
        "multiscales": [image(coordinateTransformations=[])],
        "image-label": {"colors": [], "properties": [], "source": {}},
        "omero": {"channels": []},
    }
    found = applied(archive({"im": attributes}, array("im/0", 2)))
    plain = {name: value for name, value in image().items() if name != "version"}
    assert found.change("im").attributes["ome"] == {
        "version": "0.5",
        "multiscales": [plain],
        "image-label": {"source": {}},
        "omero": {"channels": []},
    }
    assert [(problem.severity, problem.found) for problem in found.problems_of("im")] == [
        ("note", "multiscales/0/coordinateTransformations"),
        ("note", "image-label/colors"),
        ("note", "image-label/properties"),
    ]


def test_dimensions_without_names_bear_those_of_the_axes() -> None:
    one = archive({"im": {"multiscales": [image()]}}, array("im/0", 2), array("im/other", 2))
    assert applied(one).change("im/0").dimension_names == ("y", "x")
    assert applied(one).change("im/other").dimension_names is None


def test_other_names_stay_with_a_warning() -> None:
    one = archive({"im": {"multiscales": [image()]}}, array("im/0", 2, ("lat", "lon")))
    found = applied(one, "ome")
    assert found.change("im/0").dimension_names is None
    assert [problem.severity for problem in found.problems_of("im/0")] == ["warning"]


def test_plates_wells_labels_and_layouts_move_with_their_images() -> None:
    groups = {
        "p": {"plate": {"version": "0.4", "wells": [{"path": "A/1", "rowIndex": 0}]}},
        "p/A/1": {"well": {"version": "0.4", "images": [{"path": "0"}]}},
        "p/A/1/0": {"multiscales": [image(datasets=[{**image()["datasets"][0], "path": "l/0"}])]},
        "p/A/1/0/labels": {"labels": ["n"]},
        "p/A/1/0/labels/n": {"multiscales": [image()], "image-label": {}},
        "b": {"bioformats2raw.layout": 3, "other": 1},
        "b/OME": {"series": ["0"]},
        "b/0": {"multiscales": [image()]},
    }
    arrays = (array("p/A/1/0/l/0", 2), array("p/A/1/0/labels/n/0", 2), array("b/0/0", 2))
    found = applied(archive(groups, *arrays))
    moved = {path: set(found.change(path).attributes["ome"]) - {"version"} for path in groups}
    assert moved == {
        "p": {"plate"},
        "p/A/1": {"well"},
        "p/A/1/0": {"multiscales"},
        "p/A/1/0/labels": {"labels"},
        "p/A/1/0/labels/n": {"multiscales", "image-label"},
        "b": {"bioformats2raw.layout"},
        "b/OME": {"series"},
        "b/0": {"multiscales"},
    }
    assert found.change("b").attributes["other"] == 1
    assert [seen.summary for seen in found.seen] == [
        "1 bioformats2raw layout, 2 images, 1 plate, 1 well, 1 label image of 0.4"
    ]
    assert found.problems == {}


@pytest.mark.parametrize(
    ("changes", "version"),
    [
        ({"version": None, "axes": None}, None),
        ({"version": None, "axes": ["lat", "lon"]}, None),
        ({"version": "0.6", "axes": None}, "version 0.6"),
        ({"version": "0.5-dev"}, "version 0.5-dev"),
    ],
)
def test_other_versions_stay_as_they_are_with_a_note(changes: dict[str, Any], version: str | None) -> None:
    entry = {key: value for key, value in image(**changes).items() if value is not None}
    groups = {"im": {"multiscales": [entry], "omero": {}}, "im/labels": {"labels": ["a"]}}
    found = applied(archive(groups, array("im/0", 2)))
    assert found.changes == {}
    told = found.problems_of("im")
    assert [(problem.severity, problem.found) for problem in told] == [("note", version)]


def test_a_version_may_be_told_from_the_axes() -> None:
    entry = {key: value for key, value in image().items() if key != "version"}
    found = applied(archive({"im": {"multiscales": [entry]}}, array("im/0", 2)))
    assert found.change("im").attributes["ome"]["version"] == "0.5"


def test_rasters_of_spatialdata_stay_as_spatialdata_reads_them() -> None:
    attributes = {"multiscales": [image()], "spatialdata_attrs": {"version": "0.1"}}
    found = applied(archive({"im": attributes}, array("im/0", 2)))
    assert found.changes == {}
    assert [problem.severity for problem in found.problems_of("im")] == ["note"]


LEVEL = image()["datasets"][0]
BROKEN = {
    "no such array": (image(datasets=[{**LEVEL, "path": "1"}]), "no such array"),
    "a group instead": (image(datasets=[{**LEVEL, "path": "g"}]), "no such array"),
    "out of the image": (image(datasets=[{**LEVEL, "path": "../im/0"}]), "no such array"),
    "too many axes": (image(axes=[{"name": "z"}, *AXES]), "3 axes do not fit"),
    "a name twice": (image(axes=[{"name": "x"}, {"name": "x"}]), "used twice"),
    "axes without names": (image(axes=[{"type": "space"}, {"name": "x"}]), "not objects with names"),
    "no datasets": (image(datasets=[]), "not a list of levels"),
    "datasets are names": (image(datasets=["0"]), "no path"),
    "a scale too long": (
        image(datasets=[{"path": "0", "coordinateTransformations": [{"type": "scale", "scale": [1, 1, 1]}]}]),
        "scale does not fit",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_contradicts_its_arrays_is_kept_and_refused_whole_if_ome_is_asked_for_by_name(case: str) -> None:
    entry, words = BROKEN[case]
    groups = {
        "bad": {"multiscales": [entry]},
        "bad/labels": {"labels": []},
        "bad/g": {},
        "good": {"multiscales": [image()]},
    }
    one = archive(groups, array("bad/0", 2), array("good/0", 2))
    kept = applied(one)
    assert {path.partition("/")[0] for path in kept.changes} == {"good"}
    [warning] = kept.problems_of("bad")
    assert (warning.severity, words in warning.message) == ("warning", True)
    assert "kept unchanged, with everything below: multiscales/0" in warning.message
    assert [kept.problems_of(path) for path in ("bad/0", "bad/labels", "bad/g")] == [(), (), ()]
    found = applied(one, "ome")
    refusal = found.problems_of("bad")[0]
    assert (refusal.severity, words in refusal.message) == ("refusal", True)
    assert "multiscales/0" in refusal.message
    assert "--conventions none" in (refusal.advice or "")
    for path in ("bad/0", "bad/labels", "bad/g"):
        assert [problem.severity for problem in found.problems_of(path)] == ["refusal"]
    assert {path.partition("/")[0] for path in found.changes} == {"good"}


@pytest.mark.parametrize("wish", [{"conventions": "none"}, {"conventions": "xarray"}, {"bad": "none"}])
def test_what_is_broken_is_plain_data_where_the_convention_is_not_asked_for(wish: dict[str, str]) -> None:
    one = archive({"bad": {"multiscales": [image(datasets=[{**LEVEL, "path": "1"}])]}}, array("bad/0", 2))
    found = applied(one, **wish)
    assert (found.changes, found.problems) == ({}, {})


@pytest.mark.parametrize(("conventions", "severity"), [("auto", "warning"), ("auto,ome", "refusal")])
def test_metadata_of_both_versions_is_not_converted(conventions: str, severity: str) -> None:
    found = applied(archive({"im": {"multiscales": [image()], "ome": {}}}, array("im/0", 2)), conventions)
    assert [problem.severity for problem in found.problems_of("im")] == [severity]
    assert found.changes == {}


def test_numbers_as_paths_are_read_as_text() -> None:
    """As ez_zarr's plates have them, in levels and in the images of wells."""
    attributes = {"multiscales": [image(datasets=[{**LEVEL, "path": 0}])]}
    well = {"version": "0.4", "images": [{"path": 0}]}
    found = applied(archive({"A/1": {"well": well}, "A/1/0": attributes}, array("A/1/0/0", 2)))
    block = found.change("A/1/0").attributes["ome"]
    assert block["multiscales"][0]["datasets"] == [LEVEL]
    assert found.change("A/1").attributes["ome"]["well"] == {"images": [{"path": "0"}]}
    assert found.change("A/1/0/0").dimension_names == ("y", "x")
    for path, place in (("A/1", "well/images/0/path"), ("A/1/0", "multiscales/0/datasets/0/path")):
        [note] = found.problems_of(path)
        assert (note.severity, note.found) == ("note", place)
        assert f"/{place}" in found.change(path).replaced


@pytest.mark.parametrize("path", [True, 0.0, None, ["0"]])
def test_other_values_are_no_paths(path: Any) -> None:
    found = applied(
        archive({"im": {"multiscales": [image(datasets=[{**LEVEL, "path": path}])]}}, array("im/0", 2))
    )
    assert found.changes == {}
    assert "no path" in str(found.problems_of("im")) or "is not text" in str(found.problems_of("im"))


def test_what_a_plate_lists_and_has_not_is_a_warning() -> None:
    plate = {"version": "0.4", "wells": [{"path": "A/1"}, {"path": "B/7"}]}
    found = applied(archive({"p": {"plate": plate}, "p/A/1": {}}))
    assert [(p.severity, p.found) for p in found.problems_of("p")] == [("warning", "no group at B/7")]
    assert found.change("p").attributes["ome"]["plate"] == {"wells": plate["wells"]}


@pytest.mark.parametrize(
    "attributes",
    [
        {"multiscales": "many"},
        {"multiscales": [{"levels": 3}]},
        {"plate": "steel"},
        {"well": {"depth": 12}},
        {"labels": ["a", "b"]},
        {"omero": {}},
        {"series": [1, 2]},
    ],
)
def test_others_may_use_the_same_words(attributes: dict[str, Any]) -> None:
    found = applied(archive({"g": attributes}))
    assert (found.changes, found.problems, found.seen) == ({}, {}, ())


def test_the_xml_of_a_layout_goes_along() -> None:
    groups = {
        "b": {"bioformats2raw.layout": 3},
        "b/OME": {"series": ["0"]},
        "b/0": {"multiscales": [image()]},
    }
    files = ("b/OME/METADATA.ome.xml", "b/OME/.zattrs", "b/0/notes.txt", "b/mine.txt")
    found = applied(archive(groups, array("b/0/0", 2)), files=files)
    assert found.files == {"b/OME": ("b/OME/METADATA.ome.xml",)}
    assert applied(archive(groups, array("b/0/0", 2)), "none", files=files).files == {}


# ----- OME-Zarr 0.6, on request

NEWEST = Recipe(base=ArrayRecipe(ome="0.6"))
SCALE: dict[str, Any] = {"type": "scale", "scale": [2.0, 2.0]}
SHIFT: dict[str, Any] = {"type": "translation", "translation": [0.5, 0.5]}
UNITS = [{**axis, "unit": "micrometer"} for axis in AXES]


def newest(attributes: dict[str, Any]) -> Any:
    """What becomes of the image `im` with one level."""
    one = archive({"im": attributes}, array("im/0", 2))
    return apply_conventions(one, Storage(()), NEWEST)


def with_transforms(*transforms: Any, **members: Any) -> dict[str, Any]:
    level = {"path": "0", "coordinateTransformations": list(transforms)}
    return image(axes=UNITS, datasets=[level], **members)


@pytest.mark.parametrize(
    ("transforms", "expected"),
    [((SCALE,), SCALE), ((SCALE, SHIFT), {"type": "sequence", "transformations": [SCALE, SHIFT]})],
)
def test_in_0_6_a_level_leads_to_a_system_of_axes(transforms: Any, expected: dict[str, Any]) -> None:
    found = newest({"multiscales": [with_transforms(*transforms)], "omero": {"channels": []}})
    block = found.change("im").attributes["ome"]
    ends = {"input": {"path": "0"}, "output": {"name": "physical"}}
    assert block == {
        "version": "0.6",
        "omero": {"channels": []},
        "multiscales": [
            {
                "name": "cells",
                "coordinateSystems": [{"name": "physical", "axes": UNITS}],
                "datasets": [{"path": "0", "coordinateTransformations": [{**expected, **ends}]}],
            }
        ],
    }
    assert found.change("im/0").dimension_names == ("y", "x")


def test_in_0_6_units_hold_after_the_transformations_of_the_whole_image() -> None:
    found = newest({"multiscales": [with_transforms(SCALE, coordinateTransformations=[SHIFT | SCALE])]})
    [made] = found.change("im").attributes["ome"]["multiscales"]
    assert made["coordinateSystems"] == [
        {"name": "intrinsic", "axes": AXES},
        {"name": "physical", "axes": UNITS},
    ]
    assert made["datasets"][0]["coordinateTransformations"][0]["output"] == {"name": "intrinsic"}
    [whole] = made["coordinateTransformations"]
    assert (whole["input"], whole["output"]) == ({"name": "intrinsic"}, {"name": "physical"})


@pytest.mark.parametrize(
    "transforms",
    [(), ({"type": "identity"},), (SHIFT, SCALE), (SCALE, SCALE), ({"type": "scale", "path": "s"},),
     ({"type": "scale", "scale": [0.0, 1.0]},)],
)  # fmt: skip
def test_what_has_no_form_in_0_6_is_refused(transforms: Any) -> None:
    found = newest({"multiscales": [with_transforms(*transforms)]})
    refusals = [one for one in found.problems_of("im") if one.severity == "refusal"]
    assert [one.advice for one in refusals] == ["Omit --set ome=0.6, for all or for this path in a recipe."]
    assert "im" not in found.changes


def test_0_5_becomes_0_6_too() -> None:
    plain = {name: value for name, value in with_transforms(SCALE).items() if name != "version"}
    found = newest({"ome": {"version": "0.5", "multiscales": [plain]}})
    block = found.change("im").attributes["ome"]
    assert (block["version"], "axes" in block["multiscales"][0]) == ("0.6", False)
    assert found.seen[0].summary == "1 group as OME-Zarr 0.6"
    assert newest({"ome": {"version": "0.7", "multiscales": [plain]}}).changes == {}


def test_0_6_needs_the_convention(tmp_path) -> None:
    recipe = Recipe(base=ArrayRecipe(ome="0.6", conventions="xarray"))
    with pytest.raises(UsageError, match="requires the convention ome"):
        zarrlift.plan(fixture("applications/plate").path, tmp_path / "new", recipe=recipe)


# ----- whole archives


@pytest.mark.parametrize("name", ["plate", "series"])
def test_the_result_validates(name: str, tmp_path) -> None:
    outcome = zarrlift.migrate(fixture(f"applications/{name}").path, tmp_path / "new.zarr")
    assert [problem for problem in outcome.problems if problem.severity != "note"] == []
    yaozarrs.validate_zarr_store(str(tmp_path / "new.zarr"))
    assert zarrlift.verify(fixture(f"applications/{name}").path, tmp_path / "new.zarr", full=True).ok


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> dict[str, tuple[Path, Path]]:
    """A series of images, migrated to each version of OME-Zarr, and what ome-zarr-py wrote of older ones."""
    place, series = tmp_path_factory.mktemp("results"), fixture("applications/series").path
    pairs = {version: (series, place / version) for version in ("0.5", "0.6")}
    pairs["older"] = (fixture("applications/ome_older").path, place / "older")
    for version, (source, result) in pairs.items():
        recipe = Recipe(base=ArrayRecipe(ome="0.6" if version == "0.6" else "0.5"))
        outcome = zarrlift.migrate(source, result, recipe=recipe)
        assert outcome.ok
        assert version != "older" or outcome.problems == ()
    return pairs


@contextmanager
def restored(document: Path) -> Iterator[Path]:
    """A document that a test may edit, which is put back afterwards."""
    before = document.read_text()
    try:
        yield document
    finally:
        document.write_text(before)


def _edit(path, change) -> None:
    document = json.loads(path.read_text())
    change(document["attributes"]["ome"])
    path.write_text(json.dumps(document))


def scale_of(ome: Any) -> dict[str, Any]:
    """The scale of the second level of an image."""
    scale: dict[str, Any] = ome["multiscales"][0]["datasets"][1]["coordinateTransformations"][0]
    return scale


@pytest.mark.parametrize(
    ("version", "change"),
    [
        ("0.5", lambda ome: ome.pop("omero")),
        ("0.5", lambda ome: ome["multiscales"][0].pop("name")),
        ("0.5", lambda ome: ome["multiscales"][0]["datasets"][1].update(path="0")),
        ("0.5", lambda ome: ome.update(version="0.4")),
        ("0.5", lambda ome: ome["multiscales"][0].update(version="0.4")),
        ("0.5", lambda ome: ome.update(more=1)),
        ("0.6", lambda ome: ome["multiscales"][0]["coordinateSystems"][0]["axes"].reverse()),
        ("0.6", lambda ome: ome["multiscales"][0]["coordinateSystems"][0].update(name="other")),
        ("0.6", lambda ome: scale_of(ome).update(input={"path": "0"})),
        ("0.6", lambda ome: scale_of(ome).update(scale=[1] * 5)),
        ("0.6", lambda ome: ome["multiscales"][0]["datasets"][1].pop("coordinateTransformations")),
        ("older", lambda ome: ome["multiscales"][0]["axes"].reverse()),
        ("older", lambda ome: ome["multiscales"][0]["axes"][0].update(type="space")),
        ("older", lambda ome: ome["multiscales"][0]["datasets"][0].pop("coordinateTransformations")),
        ("older", lambda ome: ome["multiscales"][0]["datasets"][0].update(path="1")),
        ("older", lambda ome: scale_of(ome).update(scale=[1, 0.5, 2])),
    ],
)
def test_verification_finds_what_is_lost_or_wrong(version, change, results) -> None:
    (source, result), node = results[version], "v03/cyx" if version == "older" else "1"
    with restored(result / node / "zarr.json") as document:
        _edit(document, change)
        report = zarrlift.verify(source, result)
    assert {(problem.kind, problem.node) for problem in report.problems} == {("verify-attributes", node)}


# OME-NGFF 0.1, 0.2 and 0.3 become OME-Zarr 0.5, or are refused where no rule decides.


LETTERS = {"t": "time", "c": "channel", "z": "space", "y": "space", "x": "space"}
BIOFORMATS = {"metadata": {"method": "loci.common.image.SimpleImageScaler", "version": "Bio-Formats 6.5.1"}}


def older_image(*paths: str, **members: Any) -> dict[str, Any]:
    """An entry of `multiscales` with these levels."""
    return {"datasets": [{"path": path} for path in paths or ("0",)], **members}


def lifted(members: dict[str, Any], *shapes: tuple[int, ...], **attributes: Any) -> Any:
    """What becomes of the image `im` with a level of each shape."""
    names = [str(number) for number in range(len(shapes))]
    groups = {"im": {"multiscales": [older_image(*names, **members)], **attributes}}
    levels = (array(f"im/{name}", len(shape), shape=shape) for name, shape in zip(names, shapes, strict=True))
    return applied(archive(groups, *levels))


def scales(found: Any) -> list[list[float]]:
    [entry] = found.change("im").attributes["ome"]["multiscales"]
    return [level["coordinateTransformations"][0]["scale"] for level in entry["datasets"]]


def refusal(found: Any, path: str = "im") -> tuple[str, str | None]:
    [problem] = [one for one in found.problems_of(path) if one.severity == "refusal"]
    assert "--conventions none" in problem.advice
    return problem.message, problem.found


@pytest.mark.parametrize("version", ["0.1", "0.2"])
def test_images_of_0_1_and_0_2_have_five_axes(version: str) -> None:
    found = lifted({"version": version, "name": "cells"}, (1, 2, 3, 8, 8), (1, 2, 3, 4, 4))
    [entry] = found.change("im").attributes["ome"]["multiscales"]
    assert entry["axes"] == [{"name": name, "type": kind} for name, kind in LETTERS.items()]
    assert entry["name"] == "cells"
    assert "version" not in entry
    assert scales(found) == [[1, 1, 1, 1, 1], [1, 1, 1, 2, 2]]
    assert found.change("im/0").dimension_names == tuple("tczyx")
    [note] = found.problems_of("im")
    assert (note.severity, note.found) == ("note", None)


@pytest.mark.parametrize("version", ["0.3", None])
def test_axes_of_0_3_get_their_type_by_name(version: str | None) -> None:
    """A version is optional: axes that are letters are those of 0.3."""
    found = lifted({"axes": list("cyx"), **({"version": version} if version else {})}, (2, 8, 8))
    [entry] = found.change("im").attributes["ome"]["multiscales"]
    assert entry["axes"] == [{"name": name, "type": LETTERS[name]} for name in "cyx"]
    assert found.seen[0].summary == "1 image of 0.3"


def test_a_scale_is_the_length_of_the_first_level_over_that_of_the_level() -> None:
    found = lifted({"version": "0.3", "axes": list("zyx")}, (9, 21, 16), (9, 10, 8), (3, 5, 4))
    assert scales(found) == [[1, 1, 1], [1, 2.1, 2], [3, 4.2, 4]]
    [note] = found.problems_of("im")
    assert note.found == "multiscales/0/datasets/1: 1, 2.1, 2"


def test_bioformats2raw_halves_and_drops_the_last_pixel_of_an_odd_length() -> None:
    """Its own 0.4 has powers of two (bioformats2raw 0.5.0, `Converter.setSeriesLevelMetadata`)."""
    members = {"version": "0.2", **BIOFORMATS}
    found = lifted(members, (2, 1, 1, 21, 16), (2, 1, 1, 10, 8), (2, 1, 1, 5, 3))
    assert scales(found) == [[1, 1, 1, 1, 1], [1, 1, 1, 2, 2], [1, 1, 1, 4, 16 / 3]]


def test_scales_that_are_there_stay() -> None:
    transforms = [{"type": "scale", "scale": [0.5, 0.5]}]
    entry = {"version": "0.3", "axes": ["y", "x"]}
    level = {"path": "0", "coordinateTransformations": transforms}
    found = applied(archive({"im": {"multiscales": [{**entry, "datasets": [level]}]}}, array("im/0", 2)))
    assert scales(found) == [[0.5, 0.5]]


UNDECIDED = {
    "not five dimensions": ({"version": "0.1"}, [(2, 8, 8)], "5 axes do not fit the array"),
    "no axes in 0.3": ({"version": "0.3"}, [(8, 8)], "not the axes of version 0.3"),
    "objects in 0.3": ({"version": "0.3", "axes": [{"name": "y"}, {"name": "x"}]}, [(8, 8)], "not the axes"),
    "another letter": ({"version": "0.3", "axes": ["q", "y", "x"]}, [(1, 8, 8)], "not the axes of version"),
    "channels last": ({"version": "0.3", "axes": ["y", "x", "c"]}, [(8, 8, 3)], "no image with these axes"),
    "one axis of space": ({"version": "0.3", "axes": ["c", "x"]}, [(8, 8)], "no image with these axes"),
    "twice": ({"version": "0.3", "axes": ["x", "x"]}, [(8, 8)], "used twice"),
    "a larger level": ({"version": "0.3", "axes": ["y", "x"]}, [(8, 8), (4, 9)], "larger than the first"),
    "an empty level": ({"version": "0.3", "axes": ["y", "x"]}, [(8, 8), (0, 4)], "it has no y"),
    "no such level": ({"version": "0.2"}, [(1, 1, 1, 8, 8), None], "no such array"),
    "order of bioformats2raw 0.2": ({"version": "0.1", **BIOFORMATS}, [(2, 1, 3, 8, 8)], "order of its"),
}  # fmt: skip


@pytest.mark.parametrize("case", UNDECIDED)
def test_what_no_rule_decides_is_refused(case: str) -> None:
    members, shapes, words = UNDECIDED[case]
    names = [str(number) for number in range(len(shapes))]
    arrays = [array(f"im/{n}", len(s), shape=s) for n, s in zip(names, shapes, strict=True) if s]
    found = applied(archive({"im": {"multiscales": [older_image(*names, **members)]}}, *arrays), "ome")
    assert words in refusal(found)[0]
    assert found.changes == {}


def test_only_some_levels_with_a_scale_are_refused() -> None:
    level = {"path": "0", "coordinateTransformations": [{"type": "scale", "scale": [1, 1]}]}
    entry = {"version": "0.3", "axes": ["y", "x"], "datasets": [level, {"path": "1"}]}
    found = applied(archive({"im": {"multiscales": [entry]}}, array("im/0", 2), array("im/1", 2)), "ome")
    assert "only some levels" in refusal(found)[0]


@pytest.mark.parametrize(
    ("layout", "shape", "decided"),
    [(3, (2, 1, 3, 8, 8), True), (1, (1, 1, 1, 8, 8), True), (1, (2, 1, 1, 8, 8), False)],
)
def test_the_order_of_bioformats2raw_is_known_from_layout_3_on(
    layout: int, shape: tuple[int, ...], decided: bool
) -> None:
    groups = {
        "": {"bioformats2raw.layout": layout},
        "0": {"multiscales": [older_image(version="0.1", **BIOFORMATS)]},
    }
    found = applied(archive(groups, array("0/0", 5, shape=shape)))
    assert ("0" in found.changes) == decided
    assert ("" in found.changes) == (layout == 3)  # OME-Zarr 0.5 has no other layout


def test_the_xml_of_a_layout_goes_along_where_its_folder_is_no_group() -> None:
    """bioformats2raw 0.3 and 0.4."""
    groups = {
        "b": {"bioformats2raw.layout": 3},
        "b/0": {"multiscales": [older_image(version="0.2", **BIOFORMATS)]},
    }
    files = ("b/OME/METADATA.ome.xml", "b/mine.txt")
    found = applied(archive(groups, array("b/0/0", 5)), files=files)
    assert found.files == {"b": ("b/OME/METADATA.ome.xml",)}


def test_channels_without_what_ome_zarr_requires_are_kept_with_a_note() -> None:
    channels = [{"window": {"start": 0, "end": 1}}]
    found = lifted({"version": "0.1"}, (1, 1, 1, 8, 8), omero={"channels": channels})
    assert found.change("im").attributes["ome"]["omero"] == {"channels": channels}
    assert [problem.found for problem in found.problems_of("im")] == [
        None,
        "no color, window/max, window/min",
    ]


# ----- plates


def plate(*wells: Any, **members: Any) -> Any:
    rows, columns = ([{"name": name} for name in names] for names in ("AB", ("1", "2", "10")))
    given = {"version": "0.2", "rows": rows, "columns": columns, "wells": list(wells), **members}
    attributes = {name: value for name, value in given.items() if value is not None}
    return applied(archive({"p": {"plate": attributes}}), "ome")


@pytest.mark.parametrize("version", ["0.1", "0.2", "0.3", None])
def test_wells_get_the_indices_of_their_row_and_column(version: str | None) -> None:
    found = plate({"path": "B/10"}, {"path": "A/2", "acquired": 1}, version=version)
    assert found.change("p").attributes["ome"]["plate"]["wells"] == [
        {"path": "B/10", "rowIndex": 1, "columnIndex": 2},
        {"path": "A/2", "acquired": 1, "rowIndex": 0, "columnIndex": 1},
    ]


@pytest.mark.parametrize(
    ("well", "members", "words"),
    [
        ({"path": "2020-10-10/A/1"}, {}, "not the names of a row and of a column"),
        ({"path": "A1"}, {}, "not the names of a row and of a column"),
        ({}, {}, "not the names of a row and of a column"),
        ({"path": "C/1"}, {}, "'C' is not one of rows"),
        ({"path": "A/1"}, {"rows": [{"name": "A"}, {"name": "A"}]}, "'A' is not one of rows"),
        ({"path": "A/1"}, {"columns": None}, "'1' is not one of columns"),
        ({"path": "A/1", "rowIndex": 1}, {}, "not the place of 'A' in rows"),
    ],
)
def test_a_well_without_a_place_is_refused(well: Any, members: Any, words: str) -> None:
    found = plate(well, **members)
    assert words in refusal(found, "p")[0]
    assert found.changes == {}


# ----- the archive that ome-zarr-py of that time wrote


def test_every_value_is_equal(results) -> None:
    assert zarrlift.verify(*results["older"], full=True).ok


@pytest.mark.parametrize(
    "path", ["plate01", "plate02", "plate03", "v02", *(f"v03/{axes}" for axes in ("yx", "cyx", "tczyx"))]
)
def test_the_result_of_an_older_archive_validates(path: str, results) -> None:
    """Except of `v01`, whose channels lack what 0.1 required of them too."""
    yaozarrs.validate_zarr_store(str(results["older"][1] / path))


def test_numbers_as_paths_are_no_difference(tmp_path: Path) -> None:
    source, result = tmp_path / "source.zarr", tmp_path / "new.zarr"
    shutil.copytree(fixture("zarr_v2/applications/plate").path, source)
    (source / ".zmetadata").unlink(missing_ok=True)
    _edit_number(source / "A/1/.zattrs", lambda found: found["well"]["images"][0])
    _edit_number(source / "A/1/0/.zattrs", lambda found: found["multiscales"][0]["datasets"][0])
    assert zarrlift.migrate(source, result).ok
    assert zarrlift.verify(source, result).ok
    _edit(result / "A/1/0/zarr.json", lambda ome: ome["multiscales"][0]["datasets"][0].update(path="1"))
    assert not zarrlift.verify(source, result).ok


def _edit_number(document: Path, entry: Callable[[Any], Any]) -> None:
    """Make the path of an entry a number, as ez_zarr does."""
    content = json.loads(document.read_text())
    entry(content)["path"] = int(entry(content)["path"])
    document.write_text(json.dumps(content))


def test_the_arrays_of_an_image_that_cannot_be_converted_are_migrated(tmp_path: Any) -> None:
    source, result = tmp_path / "source.zarr", tmp_path / "out.zarr"
    shutil.copytree(fixture("zarr_v2/applications/plate").path, source)
    document = source / "A/1/0/.zattrs"
    attributes = json.loads(document.read_text())
    attributes["multiscales"][0]["datasets"][0]["path"] = "elsewhere"
    document.write_text(json.dumps(attributes))
    (source / ".zmetadata").unlink(missing_ok=True)
    outcome = zarrlift.migrate(source, result, verify="full")
    assert outcome.ok
    warnings = [p for p in outcome.plan.all_problems() if p.node == "A/1/0"]
    assert [(p.severity, "no such array" in p.message) for p in warnings] == [("warning", True)]
    kept = json.loads((result / "A/1/0/zarr.json").read_text())["attributes"]
    assert kept == attributes
    assert "ome" in json.loads((result / "A/1/zarr.json").read_text())["attributes"]
    assert zarrlift.verify(source, result).ok
    named = Recipe(base=ArrayRecipe(conventions=("auto", "ome")))
    refused = {one.path for one in zarrlift.plan(source, tmp_path / "other.zarr", recipe=named).refusals}
    assert {"A/1/0", "A/1/0/0"} <= refused


@pytest.mark.parametrize("name", ["plate", "series", "ome_older"])
def test_the_result_of_0_6_equals_its_source(name: str, tmp_path) -> None:
    source = fixture(f"applications/{name}").path
    assert zarrlift.migrate(source, tmp_path / "new", recipe=NEWEST).ok
    assert zarrlift.verify(source, tmp_path / "new").ok


def test_the_result_validates_where_a_list_was_empty(tmp_path) -> None:
    source, out = tmp_path / "old.zarr", tmp_path / "new.zarr"
    shutil.copytree(fixture("zarr-2.18/people/cells").path, source)
    attributes = json.loads((source / ".zattrs").read_text())
    attributes["multiscales"][0]["coordinateTransformations"] = []
    (source / ".zattrs").write_text(json.dumps(attributes))
    (source / ".zmetadata").unlink(missing_ok=True)
    assert zarrlift.migrate(source, out).ok
    yaozarrs.validate_zarr_store(str(out))
    assert zarrlift.verify(source, out, full=True).ok

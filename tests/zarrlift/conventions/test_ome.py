"""OME-NGFF 0.4 becomes OME-Zarr 0.5, or is refused where it contradicts its arrays."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaozarrs
from tests.support.convention_trees import Storage, applied, archive, array
from tests.support.fixtures_index import archive as fixture

import zarrlift
from zarrlift.conventions.apply import apply_conventions
from zarrlift.recipe.recipe import ArrayRecipe, Recipe
from zarrstack.core.errors import UsageError

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


@pytest.mark.parametrize("path", [True, 0.0, None, ["0"]])
def test_other_values_are_no_paths(path: Any) -> None:
    found = applied(
        archive({"im": {"multiscales": [image(datasets=[{**LEVEL, "path": path}])]}}, array("im/0", 2))
    )
    assert found.changes == {}
    assert "no path" in str(found.problems_of("im")) or "is not text" in str(found.problems_of("im"))


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


@pytest.mark.parametrize("name", ["plate", "series", "ome_older"])
def test_the_result_of_0_6_equals_its_source(name: str, tmp_path) -> None:
    source = fixture(f"applications/{name}").path
    assert zarrlift.migrate(source, tmp_path / "new", recipe=NEWEST).ok
    assert zarrlift.verify(source, tmp_path / "new").ok


@pytest.mark.parametrize(
    "change",
    [
        lambda image: image["coordinateSystems"][0]["axes"].reverse(),
        lambda image: image["coordinateSystems"][0].update(name="other"),
        lambda image: image["datasets"][1]["coordinateTransformations"][0].update(input={"path": "0"}),
        lambda image: image["datasets"][1]["coordinateTransformations"][0].update(scale=[1] * 5),
        lambda image: image["datasets"][1].pop("coordinateTransformations"),
    ],
)
def test_verification_of_0_6_finds_what_is_wrong(change, tmp_path) -> None:
    source = fixture("applications/series").path
    zarrlift.migrate(source, tmp_path / "new", recipe=NEWEST)
    _edit(tmp_path / "new" / "1" / "zarr.json", lambda ome: change(ome["multiscales"][0]))
    report = zarrlift.verify(source, tmp_path / "new")
    assert {(problem.kind, problem.node) for problem in report.problems} == {("verify-attributes", "1")}


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


def test_0_4_stays_0_4_on_request(tmp_path) -> None:
    source = fixture("applications/plate").path
    zarrlift.migrate(source, tmp_path / "new", recipe=Recipe(base=ArrayRecipe(conventions="none")))
    for old in source.rglob(".zattrs"):
        new = json.loads((tmp_path / "new" / old.parent.relative_to(source) / "zarr.json").read_text())
        assert new["attributes"] == json.loads(old.read_text())


def _edit(path, change) -> None:
    document = json.loads(path.read_text())
    change(document["attributes"]["ome"])
    path.write_text(json.dumps(document))


@pytest.mark.parametrize(
    "change",
    [
        lambda ome: ome.pop("omero"),
        lambda ome: ome["multiscales"][0].pop("name"),
        lambda ome: ome["multiscales"][0]["datasets"][1].update(path="0"),
        lambda ome: ome.update(version="0.4"),
        lambda ome: ome["multiscales"][0].update(version="0.4"),
        lambda ome: ome.update(more=1),
    ],
)
def test_verification_finds_what_is_lost(change, tmp_path) -> None:
    source = fixture("applications/series").path
    zarrlift.migrate(source, tmp_path / "new")
    _edit(tmp_path / "new" / "1" / "zarr.json", change)
    report = zarrlift.verify(source, tmp_path / "new")
    assert {(problem.kind, problem.node) for problem in report.problems} == {("verify-attributes", "1")}

"""OME-NGFF 0.1, 0.2 and 0.3 become OME-Zarr 0.5, or are refused where no rule decides."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaozarrs
import zarr
from tests.support.convention_trees import applied, archive, array
from tests.support.fixtures_index import archive as fixture

import zarrlift

LETTERS = {"t": "time", "c": "channel", "z": "space", "y": "space", "x": "space"}
BIOFORMATS = {"metadata": {"method": "loci.common.image.SimpleImageScaler", "version": "Bio-Formats 6.5.1"}}


def image(*paths: str, **members: Any) -> dict[str, Any]:
    """An entry of `multiscales` with these levels."""
    return {"datasets": [{"path": path} for path in paths or ("0",)], **members}


def lifted(members: dict[str, Any], *shapes: tuple[int, ...], **attributes: Any) -> Any:
    """What becomes of the image `im` with a level of each shape."""
    names = [str(number) for number in range(len(shapes))]
    groups = {"im": {"multiscales": [image(*names, **members)], **attributes}}
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
    found = applied(archive({"im": {"multiscales": [image(*names, **members)]}}, *arrays), "ome")
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
        "0": {"multiscales": [image(version="0.1", **BIOFORMATS)]},
    }
    found = applied(archive(groups, array("0/0", 5, shape=shape)))
    assert ("0" in found.changes) == decided
    assert ("" in found.changes) == (layout == 3)  # OME-Zarr 0.5 has no other layout


def test_the_xml_of_a_layout_goes_along_where_its_folder_is_no_group() -> None:
    """bioformats2raw 0.3 and 0.4."""
    groups = {"b": {"bioformats2raw.layout": 3}, "b/0": {"multiscales": [image(version="0.2", **BIOFORMATS)]}}
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


@pytest.fixture(scope="module")
def migrated(tmp_path_factory) -> tuple[Path, Path]:
    source, result = fixture("applications/ome_older").path, tmp_path_factory.mktemp("older") / "new.zarr"
    outcome = zarrlift.migrate(source, result)
    assert (outcome.state, outcome.problems) == ("done", ())
    return source, result


def test_every_value_is_equal(migrated: tuple[Path, Path]) -> None:
    assert zarrlift.verify(*migrated, full=True).ok


@pytest.mark.parametrize(
    "path", ["plate01", "plate02", "plate03", "v02", *(f"v03/{axes}" for axes in ("yx", "cyx", "tczyx"))]
)
def test_the_result_validates(path: str, migrated: tuple[Path, Path]) -> None:
    """Except of `v01`, whose channels lack what 0.1 required of them too."""
    yaozarrs.validate_zarr_store(str(migrated[1] / path))


def test_a_pixel_lies_where_its_level_was_sampled(migrated: tuple[Path, Path]) -> None:
    """ome-zarr-py 0.2.1 resizes the whole plane to half its sides, by the nearest pixel."""
    group = zarr.open_group(migrated[1] / "v03" / "yx", mode="r")
    [entry] = group.attrs["ome"]["multiscales"]
    first, second = (np.asarray(group[level["path"]][:]) for level in entry["datasets"])
    scale = entry["datasets"][1]["coordinateTransformations"][0]["scale"]
    taken = [
        np.floor((np.arange(length) + 0.5) * factor).astype(int)
        for length, factor in zip(second.shape, scale, strict=True)
    ]
    assert np.mean(first[np.ix_(*taken)] == second) > 0.9


def scale_of(block: Any) -> dict[str, Any]:
    """The scale of the second level."""
    scale: dict[str, Any] = block["multiscales"][0]["datasets"][1]["coordinateTransformations"][0]
    return scale


@pytest.mark.parametrize(
    "change",
    [
        lambda block: block["multiscales"][0]["axes"].reverse(),
        lambda block: block["multiscales"][0]["axes"][0].update(type="space"),
        lambda block: block["multiscales"][0]["datasets"][0].pop("coordinateTransformations"),
        lambda block: block["multiscales"][0]["datasets"][0].update(path="1"),
        lambda block: scale_of(block).update(scale=[1, 0.5, 2]),
    ],
)
def test_verification_finds_what_is_wrong(change, migrated: tuple[Path, Path]) -> None:
    source, result = migrated
    document = result / "v03" / "cyx" / "zarr.json"
    before = document.read_text()
    edited = json.loads(before)
    change(edited["attributes"]["ome"])
    document.write_text(json.dumps(edited))
    try:
        report = zarrlift.verify(source, result)
    finally:
        document.write_text(before)
    assert {(problem.kind, problem.node) for problem in report.problems} == {("verify-attributes", "v03/cyx")}

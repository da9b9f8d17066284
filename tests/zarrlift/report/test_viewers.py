"""Which image the reports link to, and how each viewer is given its address."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
import zarr
from tests.support.job_archives import write_archive
from tests.support.report_examples import write_images

import zarrlift
from zarrlift.cli import main
from zarrlift.cli.serve_command import _HOST, _PORT
from zarrlift.planning.images import first_image
from zarrlift.report.viewers import SERVED_AT, viewer_links


@pytest.mark.parametrize("shown_as", ["zarr3", "zarr2", "n5"])
@pytest.mark.parametrize(
    ("image", "key"), [("", ""), ("a b/\u00fc", "a%20b/%C3%BC"), ('"#?&', "%22%23%3F%26")]
)
def test_each_viewer_gets_the_address_in_its_form(image: str, key: str, shown_as: str) -> None:
    rows = dict(viewer_links(image, "http://localhost:1/", shown_as).rows)
    place = f"http://localhost:1/{key}"
    state = json.loads(unquote(urlsplit(rows["neuroglancer"]).fragment.removeprefix("!")))
    assert [layer["source"] for layer in state["layers"]] == [f"{shown_as}://{place}"]
    assert (
        rows.pop("Fiji (Plugins > BigDataViewer > HDF5/N5/Zarr/OME-NGFF Viewer)") == f"{shown_as}://{place}"
    )
    assert ("vizarr" in rows, "napari" in rows) == (shown_as != "n5", shown_as == "zarr3")
    if "vizarr" in rows:
        assert parse_qs(urlsplit(rows["vizarr"]).query) == {"source": [place]}
    if "napari" in rows:
        assert rows["napari"].split() == ["napari", "--plugin", "napari-ome-zarr", place]


def test_reports_link_to_where_a_server_without_options_listens() -> None:
    assert f"http://{_HOST}:{_PORT}/" == SERVED_AT


def write_plain(path: Path) -> Path:
    write_archive(path)
    return path


def write_pyramid(path: Path) -> Path:
    root = zarr.create_group(path, zarr_format=2)
    for level, side in enumerate((256, 128, 64)):
        root.create_array(f"volume/s{level}", shape=(side, side), chunks=(64, 64), dtype="u1")
    return path


@pytest.mark.parametrize(
    ("write", "image"),
    [(write_images, "image"), (write_pyramid, "volume/s0"), (write_plain, None)],
    ids=["ome", "levels without a convention", "no image"],
)
def test_a_report_links_to_the_first_image(
    write, image: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = zarrlift.plan(write(tmp_path / "a"))
    assert first_image(plan) == image
    assert first_image(plan, "n5") == first_image(plan, "zarr2") == ("image/0" if image == "image" else image)
    outcome = zarrlift.migrate(tmp_path / "a", tmp_path / "b")
    assert outcome.ok
    assert zarrlift.job_report(tmp_path / "b").image == image
    capsys.readouterr()
    main(["status", str(tmp_path / "b"), "--verbose"])
    text = capsys.readouterr().out
    assert (f"zarrlift serve {tmp_path / 'b'} --open" in text) is (image is not None)
    for _, link in viewer_links(image or "").rows:
        assert (f"    {link}\n" in text) is (image is not None)

"""neuroglancer and vizarr, as they are published, open in a browser what `zarrlift serve` serves.

Their pages are of another origin than the archive, as on the web: what they see has passed the browser's
rules on origins (CORS).
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from tests.support import web_servers
from tests.support.readers import ENVIRONMENTS
from tests.zarrlift.views.test_http_server import fetch, serving

import zarrlift
from zarrlift.report.viewers import viewer_links

pytestmark = [
    pytest.mark.needs_reader("chromium"),
    pytest.mark.needs_reader("viewers"),
    pytest.mark.needs_reader("once"),
    pytest.mark.slow,
]
NAME = "a b/\u00fc"
"""A path that has to be quoted."""


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    """The origin of the pages of both viewers."""
    folder = Path(os.environ["ZARRLIFT_VIEWERS"]) / "site"
    with web_servers.serving(partial(web_servers.Files, directory=folder)) as origin:
        yield origin


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An image of OME-NGFF 0.4, the left half of which is green and the right half red."""
    path = tmp_path_factory.mktemp("viewers") / "old"
    axes = [{"name": "c", "type": "channel"}, *({"name": name, "type": "space"} for name in "yx")]
    scale = [{"type": "scale", "scale": [1, 1, 1]}]
    levels = [{"path": "0", "coordinateTransformations": scale}]
    window = {"min": 0, "max": 65535, "start": 0, "end": 1000}
    channels = [{"color": colour, "active": True, "window": window} for colour in ("00FF00", "FF0000")]
    attributes = {
        "multiscales": [{"version": "0.4", "axes": axes, "datasets": levels}],
        "omero": {"version": "0.4", "channels": channels},
    }
    root = zarr.create_group(path, zarr_format=2)
    group = root.create_group(NAME, attributes=attributes)
    array = group.create_array("0", shape=(2, 256, 256), chunks=(1, 64, 64), dtype="<u2")
    values = np.zeros(array.shape, array.dtype)
    values[0, :, :128] = values[1, :, 128:] = 1000
    array[...] = values
    return path


@pytest.fixture(scope="module")
def sharded(image: Path) -> Path:
    """The same as OME-Zarr 0.5, a shard for each channel, of which viewers read ranges."""
    path = image.with_name("new")
    assert zarrlift.migrate(
        image, path, recipe=zarrlift.Recipe(base=zarrlift.ArrayRecipe(shards=(1, 4, 4)))
    ).ok
    return path


def look(address: str, site: str, path: str, shown_as: str = "zarr3", until: str = "") -> dict[str, Any]:
    """What Chromium saw in each viewer that has a link, on our copies of their pages."""
    rows = dict(viewer_links(path, address, shown_as).rows)
    ends = {"neuroglancer": ".com/", "vizarr": "/vizarr/"}
    pages = {
        name: f"{site}/{name}/{rows[name].partition(end)[2]}" for name, end in ends.items() if name in rows
    }
    done = subprocess.run(
        [
            "node",
            ENVIRONMENTS / "viewers/look.mjs",
            os.environ["ZARRLIFT_CHROMIUM"],
            address,
            until,
            *pages.values(),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return dict(zip(pages, json.loads(done.stdout), strict=True))


@pytest.mark.parametrize("written", ["image", "sharded"])
def test_each_viewer_shows_the_colours_of_an_image_where_they_are(
    written: str, site: str, request: pytest.FixtureRequest
) -> None:
    with serving(request.getfixturevalue(written), "--allow-origin", site) as address:
        document = fetch(address + "zarr.json")[2].decode()
        looks = look(address, site, NAME)
    for viewer, one in looks.items():
        red, green = one["seen"]["red"], one["seen"]["green"]
        assert min(red["pixels"], green["pixels"]) > 2000, (viewer, one)
        # neuroglancer 2.41.2 looks for `omero` beside `ome` alone, and colours the first channel red.
        assert (green["x"] < red["x"]) is (viewer == "vizarr"), viewer
        chunks = [answer for answer in one["answers"] if "/c/" in answer[3] and answer[1] != 404]
        assert {status for _, status, _, _ in chunks} <= {200, 206}, viewer
        ranges = [asked for _, status, asked, _ in chunks if status == 206]
        assert bool(ranges) is (written == "sharded"), (viewer, chunks)
        assert one["suffix"] == [206, document[-9:]], viewer


@pytest.mark.parametrize(("shown_as", "chunk"), [("zarr2", r"/0/\d+\.\d+\.\d+$"), ("n5", r"/0/\d+/\d+/\d+$")])
def test_viewers_read_chunks_of_an_array_in_older_formats(
    shown_as: str, chunk: str, site: str, sharded: Path
) -> None:
    with serving(sharded, "--allow-origin", site, "--as", shown_as) as address:
        looks = look(address, site, f"{NAME}/0", shown_as, until=chunk)
    assert set(looks) == ({"neuroglancer", "vizarr"} if shown_as == "zarr2" else {"neuroglancer"})
    for viewer, one in looks.items():
        assert [key for _, status, _, key in one["answers"] if status == 200 and re.search(chunk, key)], (
            viewer
        )


def test_a_page_whose_origin_is_not_allowed_sees_nothing(image: Path, site: str) -> None:
    with serving(image) as address:
        looks = look(address, site, NAME)
    for viewer, one in looks.items():
        assert one["seen"]["red"]["pixels"] + one["seen"]["green"]["pixels"] == 0, viewer
        assert {why for why, _ in one["failed"]} == {"net::ERR_FAILED"}, viewer
        assert one["suffix"] == "TypeError: Failed to fetch", viewer

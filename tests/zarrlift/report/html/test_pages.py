"""What pages and notebooks show of results, what they never hold, whatever names say, and how much."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import os
import re
import shutil
import struct
import subprocess
import zlib
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from tests.support import report_examples as examples
from tests.support.job_archives import write_archive
from tests.zarrlift.report.html.archives import HOSTILE, plane, write_hostile, write_images

import zarrlift
from zarrlift.archive.nodes import ArrayNode, GroupNode
from zarrlift.cli import main
from zarrlift.core.units import safe
from zarrlift.errors import StorageError
from zarrlift.jobs.status import Status
from zarrlift.report.html import pages
from zarrlift.report.html.pages import job_page
from zarrlift.report.html.pictures import (
    MAX_READ,
    Picture,
    Pictures,
    _opener,
    images_of,
    middle_plane,
    pictures,
    png,
)
from zarrlift.storage.open_storage import open_storage
from zarrlift.views.legacy import view_of


class Page(HTMLParser):
    """The elements and the text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        self._inside = tag

    def handle_data(self, data):
        if self._inside not in ("style", "script"):
            self.text += data


def status_of(arrays: int = 4, **changes: object) -> Status:
    rows = tuple(replace(examples.STATUS.arrays[0], path=f"images/{number}") for number in range(arrays))
    done = {"state": "done", "activity": None, "problems": (), "arrays": rows}
    return replace(examples.STATUS, **{**done, **changes})


def test_a_page_of_a_job_has_its_arrays_and_pictures_before_and_after(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_images(tmp_path / "a")
    zarrlift.migrate("a", "b")
    assert main(["status", "--check", "b", "--html", "b.html"]) == 0
    page = Page((tmp_path / "b.html").read_text())
    pictures = [found["src"] for tag, found in page.found if tag == "img"]
    assert len(pictures) == 2 * 3  # the multiscale, its labels, and the photo; before and after
    assert all(src.startswith("data:image/png;base64,") for src in pictures)
    assert all(before == after for before, after in zip(pictures[::2], pictures[1::2], strict=True))
    for array in zarrlift.status("b").arrays:
        assert f"/{array.path}" in page.text
    assert main(["status", "b", "--html", "b.html", "--no-pictures"]) == 0
    assert "img" not in dict(Page((tmp_path / "b.html").read_text()).found)


def test_what_is_gone_has_no_picture(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_images(tmp_path / "a")
    zarrlift.migrate("a", in_place=True)
    zarrlift.verify("a")
    zarrlift.finish("a")
    write_images(tmp_path / "c")
    zarrlift.migrate("c", "d")
    zarrlift.undo("d")
    for job, side in (("a", "after"), ("d", "before")):
        assert main(["status", job, "--html", "page.html"]) in (0, 1)
        sides = [found["alt"] for tag, found in Page(Path("page.html").read_text()).found if tag == "img"]
        assert [alt.partition(":")[0] for alt in sides] == [side] * 3


def test_a_source_that_is_gone_leaves_the_pictures_after_and_is_asked_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plan = zarrlift.migrate(write_images(tmp_path / "a"), "b").plan
    shutil.rmtree("a")
    assert main(["status", "b", "--html", "page.html"]) == 0
    page = Page(Path("page.html").read_text())
    assert [found["alt"].partition(":")[0] for tag, found in page.found if tag == "img"] == ["after"] * 3
    assert "3 pictures could not be made: " in page.text
    requests = []

    def gone():
        requests.append("")
        raise StorageError("no such bucket")

    assert len(pictures(plan, {"before": _opener(gone)}).notes) == 1
    assert len(requests) == 1


def test_a_page_loads_and_runs_nothing(tmp_path, monkeypatch):
    """Its policy allows its own style, by its hash, and pictures inside it."""
    text = job_page(status_of(), Pictures())
    style = re.search("<style>(.*?)</style>", text, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    (policy,) = [
        found["content"]
        for tag, found in Page(text).found
        if found.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policy.split("; ") == [
        *("default-src 'none'", f"style-src 'sha256-{digest}'", "img-src data:"),
        *("base-uri 'none'", "form-action 'none'"),
    ]
    assert not {"script", "link", "a", "form", "iframe"} & {tag for tag, _ in Page(text).found}


def test_nothing_of_a_hostile_archive_is_markup(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_hostile(tmp_path / "a")
    zarrlift.migrate("a", "b")
    main(["status", "--check", "--verbose", "b", "--html", "b.html"])
    text = (tmp_path / "b.html").read_text()
    page = Page(text)
    assert {tag for tag, _ in page.found} <= ALLOWED | {
        "html", "head", "meta", "title", "body", "main", "h1", "img", "footer"
    }  # fmt: skip
    assert not [found for _, found in page.found if any(key.startswith("on") for key in found)]
    assert {found["src"][:15] for tag, found in page.found if tag == "img"} == {"data:image/png;"}
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u200f\u202a-\u202e\u2066-\u2069]", text)
    for hostile in HOSTILE:
        assert safe(hostile.replace("/", "_"))[:60] in page.text, hostile


def test_what_is_too_much_for_a_page_is_counted(monkeypatch):
    fragment = pages._fragment
    monkeypatch.setattr(pages, "_fragment", lambda blocks, rows: fragment(blocks, rows=rows // 100))
    assert "5 more arrays" in Page(job_page(status_of(25), Pictures())).text


@pytest.mark.parametrize("state", ["incomplete", "done", "finished", "undone"])
def test_a_job_in_any_state_has_a_page(state):
    for in_place in (False, True):
        status = status_of(state=state, in_place=in_place, destination="/data/old/a.zarr")
        assert state in Page(job_page(status, Pictures())).text


def test_a_page_of_a_batch_has_what_is_wrong_with_each_archive(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_images(tmp_path / "all/images.zarr")
    write_hostile(tmp_path / "all/hostile.zarr")
    main(["batch", "run", "all", "--to", "v3/{name}", "--quiet"])
    main(["status", "v3.zarrlift.jsonl", "--html", "batch.html"])
    page = Page((tmp_path / "batch.html").read_text())
    assert "img" not in dict(page.found)
    for text in ("2 archives: 1 done, 1 failed", "images.zarr", "the payload does not inflate"):
        assert text in page.text


def test_a_page_that_cannot_be_written_is_an_error_and_leaves_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_archive(tmp_path / "a")
    zarrlift.migrate("a", "b")
    before = sorted(path.name for path in tmp_path.iterdir())
    assert main(["status", "b", "--html", str(Path("missing") / "page.html")]) == 1
    assert "cannot write the page" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == before


# Which images are shown, how much is read for them, and that pictures show what is there.


def decoded(file: bytes) -> np.ndarray:
    """The pixels of a file that `png` wrote."""
    width, height, _, kind = struct.unpack(">IIBB", file[16:26])
    start = file.index(b"IDAT")
    (size,) = struct.unpack(">I", file[start - 4 : start])
    channels = 3 if kind == 2 else 1
    rows = np.frombuffer(zlib.decompress(file[start + 4 : start + 4 + size]), np.uint8).reshape(height, -1)
    pixels = rows[:, 1:].reshape(height, width, channels)
    return pixels if channels == 3 else pixels[..., 0]


@pytest.mark.parametrize("shape", [(3, 5), (4, 2, 3)])
def test_a_file_holds_its_pixels(shape):
    pixels = np.random.default_rng(0).integers(0, 255, shape).astype(np.uint8)
    assert np.array_equal(decoded(png(pixels)), pixels)


@pytest.mark.parametrize(
    ("shape", "dtype", "is_image"),
    [
        ((100, 200), "<u2", True),
        ((5, 100, 200), "<f4", True),
        ((100, 200, 3), "|u1", True),
        ((100, 200, 3), "<u2", False),
        ((63, 200), "<u2", False),
        ((200,), "<u2", False),
        ((0, 100, 200), "<u2", False),
        ((100, 200), "<c8", False),
    ],
)
def test_images_have_two_long_axes_of_numbers(shape, dtype, is_image, tmp_path):
    zarr.create_array(
        tmp_path / "a", shape=shape, chunks=[max(n, 1) for n in shape], dtype=dtype, zarr_format=2
    )
    assert bool(list(images_of(zarrlift.plan(tmp_path / "a")))) is is_image


def test_the_smallest_level_stands_for_all_and_images_with_numbers_for_names_are_no_levels(tmp_path):
    found = [array.path for array, _ in images_of(zarrlift.plan(write_images(tmp_path / "a")))]
    assert found == ["image/2", "image/labels/cells/0", "photo"]
    root = zarr.open_group(tmp_path / "b", mode="w", zarr_format=2)
    for name in ("0", "1", "pyramid/s0", "pyramid/s1"):
        side = 64 if name == "pyramid/s1" else 128
        root.create_array(name, shape=(side, side), chunks=(64, 64), dtype="<u2")
    found = [array.path for array, _ in images_of(zarrlift.plan(tmp_path / "b"))]
    assert found == ["0", "1", "pyramid/s1"]


@pytest.mark.parametrize(
    "chunks", [(1, 64, 64), (1, 4096, 4096), (64, 256, 256), (1, 1, 65536), (8, 1000, 1000)]
)
@pytest.mark.parametrize("shape", [(100, 65536, 65536), (3, 300, 300), (1, 64, 100_000)])
def test_no_selection_reads_more_than_it_may(chunks, shape):
    if math.prod(chunks) * 2 > MAX_READ:
        with pytest.raises(ValueError, match="larger than"):
            middle_plane(shape, (1, 2), chunks, 2)
        return
    middle, *parts = middle_plane(shape, (1, 2), chunks, 2)
    assert middle == shape[0] // 2
    touched = 1
    for part, chunk in zip(parts, chunks[1:], strict=True):
        touched *= len({place // chunk for place in range(part.start, part.stop, part.step)})
        assert 0 < len(range(part.start, part.stop, part.step)) <= 256
    assert touched * math.prod(chunks) * 2 <= MAX_READ


def pictures_of(place: Path) -> Pictures:
    view = view_of(open_storage(place))
    return pictures(
        view.plan, {"before": lambda path: zarr.open_array(view, path=path, mode="r", zarr_format=3)}
    )


def pixels_of(picture: Picture) -> np.ndarray:
    return decoded(base64.b64decode(picture.sides[0][1].partition(",")[2]))


def test_a_picture_is_the_middle_plane(tmp_path):
    values = np.zeros((5, 96, 128), "<u2")
    values[2] = plane()
    root = zarr.open_group(tmp_path / "a", mode="w", zarr_format=2)
    root.create_array("a", shape=values.shape, chunks=(2, 50, 50), dtype="<u2")[...] = values
    (picture,) = pictures_of(tmp_path / "a").shown
    low, high = np.percentile(plane(), (1, 99))
    expected = np.rint(np.clip((plane() - low) / (high - low), 0, 1) * 255).astype(np.uint8)
    assert np.array_equal(pixels_of(picture), expected)


@pytest.mark.parametrize("channels", [3, 4])
def test_colours_are_those_of_the_image(channels, tmp_path):
    values = np.random.default_rng(0).integers(0, 256, (2, 70, 80, channels)).astype("u1")
    zarr.create_array(tmp_path / "a", data=values, chunks=(1, 40, 40, 2), zarr_format=2)
    (picture,) = pictures_of(tmp_path / "a").shown
    assert np.array_equal(pixels_of(picture), values[1, ..., :3])


@pytest.mark.parametrize("values", [[np.nan], [7.0], [np.inf, -np.inf, np.nan, 1.0], [0.0, 1e308]])
def test_every_number_has_a_brightness(values, tmp_path):
    array = np.resize(np.array(values, "<f8"), (64, 64))
    zarr.create_array(tmp_path / "a", data=array, chunks=(64, 64), zarr_format=2)
    (picture,) = pictures_of(tmp_path / "a").shown
    assert pixels_of(picture).shape == (64, 64)


def test_damaged_images_and_those_without_room_are_counted(tmp_path, monkeypatch):
    monkeypatch.setattr("zarrlift.report.html.pictures._MAX_IMAGES", 2)
    root = zarr.open_group(tmp_path / "a", mode="w", zarr_format=2)
    for name in "abc":
        root.create_array(name, shape=(96, 128), chunks=(96, 128), dtype="<u2")[...] = plane()
    (tmp_path / "a/a/0.0").write_bytes(b"damaged")
    found = pictures_of(tmp_path / "a")
    assert [picture.path for picture in found.shown] == ["b"]
    assert [note.partition(" not")[0] for note in found.notes][:1] == ["1 further image"]
    assert "1 picture could not be made: ChunkError" in found.notes[1]


def test_the_pictures_of_a_page_can_be_sent_by_mail(tmp_path):
    root = zarr.open_group(tmp_path / "a", mode="w", zarr_format=2)
    noise = np.random.default_rng(0).integers(0, 256, (256, 256)).astype("u1")
    for number in range(50):
        root.create_array(f"a{number}", data=noise, chunks=(256, 256), compressors=None)
    found = pictures_of(tmp_path / "a")
    assert 2_900_000 < sum(len(url) for picture in found.shown for _, url in picture.sides) < 3_100_000
    assert found.notes == (f"{50 - len(found.shown)} further images not shown.",)


# What notebooks show of results: a tree that folds, safe whatever names say, and never too much.

RESULTS = {
    "archive": examples.ARCHIVE,
    "plan": examples.PLAN,
    "plan-with-requests": examples.CODECS,
    "outcome": examples.FAILED,
    "status": examples.STATUS,
    "verification": examples.DIFFERENT,
}
ALLOWED = {
    *("style", "div", "p", "b", "span", "code", "pre", "dl", "dt", "dd", "details", "summary", "ul", "li"),
    *("table", "thead", "tbody", "tr", "th", "td"),
}  # fmt: skip
"""Elements; none of them loads or runs anything."""


class Fragment(HTMLParser):
    """The text of a fragment, which fails for elements and attributes that are not ours."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = ""
        self.open: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ALLOWED
        assert {name for name, _ in attrs} <= {"class", "open", "scope"}
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "style":
            assert "url(" not in data
            assert "@import" not in data
        else:
            self.text += data


def shown(result: Any) -> str:
    return Fragment(result._repr_html_()).text


@pytest.mark.parametrize("name", RESULTS)
def test_each_result_is_shown_with_light_and_dark_colours(name: str) -> None:
    html = RESULTS[name]._repr_html_()
    assert "{{" not in html  # neither in its template nor in its style
    assert "prefers-color-scheme: dark" in html
    assert "--jp-layout-color0" in html
    assert type(RESULTS[name]).__name__ in shown(RESULTS[name])


def test_a_tree_has_each_node_below_its_group() -> None:
    html = examples.ARCHIVE._repr_html_()
    group = html.index('<summary><span class="name depth-1"><code>a</code></span>')
    image = html.index('<summary><span class="name depth-2"><code>image</code></span>')
    assert group < image
    assert html.index("<span>512x512x512</span><span>uint16</span>") > image
    assert re.search('<code>objects</code>.*<span class="bad">REFUSED</span></summary>', html)


def test_a_plan_shows_what_changes() -> None:
    text = shown(examples.PLAN)
    assert "bytes:little > zlib:1 -> bytes:little > gzip:1" in text
    assert "/data/new.zarr" in text
    assert "objects are stored with pickle" in text


def test_a_result_shows_what_went_wrong_and_where() -> None:
    text = shown(examples.FAILED)
    assert "incorrect header check" in text
    assert "temperature/3.1" in text
    assert "Not equal" in shown(examples.DIFFERENT)
    assert "Equal." in shown(examples.EQUAL)


def test_long_results_are_cut_and_the_rest_is_counted() -> None:
    html = examples.MANY._repr_html_()
    assert "and 50 more arrays" in html
    assert len(html) < 200_000
    nodes = tuple(
        ArrayNode(path=f"{'g/' * 500}a{number:04}", layout=examples.IMAGE, attributes={"note": "x" * 100_000})
        for number in range(300)
    )
    archive = replace(examples.ARCHIVE, nodes=(GroupNode(path=""), *nodes))
    assert len(archive._repr_html_()) < 500_000
    assert "and 101 more nodes" in shown(archive)
    differing = replace(examples.EQUAL, differences=tuple((f"n{number}", 1) for number in range(300)))
    assert "and 100 more nodes" in shown(differing)


def test_names_and_attributes_of_others_are_text(tmp_path: Path) -> None:
    """`Fragment` fails for an element that a name has opened."""
    place = write_hostile(tmp_path / "hostile.zarr")
    outcome = zarrlift.migrate(place, tmp_path / "new.zarr")
    results = (
        zarrlift.inspect(place),
        zarrlift.plan(place),
        outcome,
        zarrlift.status(tmp_path / "new.zarr"),
        zarrlift.verify(place, tmp_path / "new.zarr"),
    )
    texts = [shown(result) for result in results]
    for hostile in HOSTILE:
        assert safe(hostile)[:30] in texts[0]
    assert not any("\x1b" in text or "\u202e" in text for text in texts)


CELLS = """
import json, sys
import nbclient, nbformat
cells = [nbformat.v4.new_code_cell(text) for text in json.load(sys.stdin)]
notebook = nbformat.v4.new_notebook(cells=cells)
nbclient.NotebookClient(notebook, kernel_name="python3", timeout=100).execute()
print(json.dumps([[dict(output) for output in cell.outputs] for cell in notebook.cells]))
"""
"""Runs the cells that it reads in a kernel, and prints their outputs."""


@pytest.mark.needs_reader("engines")
@pytest.mark.slow(one_in=25)
def test_the_cells_of_the_docs_are_shown_by_a_kernel(tmp_path: Path) -> None:
    page = Path(__file__).parents[4] / "docs" / "howto" / "jobs.md"
    _, _, section = page.read_text().partition("## In a notebook\n")
    cells = re.findall(r"^```python\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)
    # As the page says: a kernel's loop is running.
    cells = [cell.replace("asyncio.run(work())", "await work()") for cell in cells]
    folder = Path(os.environ["ZARRLIFT_ENGINES"]) / "bin"
    subprocess.run([folder / "zarrlift", "demo", "old"], cwd=tmp_path, check=True, capture_output=True)
    done = subprocess.run(
        [folder / "python", "-c", CELLS],
        cwd=tmp_path / "old",
        env={**os.environ, "HOME": str(tmp_path)},
        input=json.dumps(cells),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    archive, plan, outcome, report, quiet, waiting = json.loads(done.stdout)
    kinds = ("Archive", "Plan", "Outcome", "VerificationReport")
    for kind, outputs in zip(kinds, (archive, plan, outcome, report), strict=True):
        assert kind in Fragment(outputs[-1]["data"]["text/html"]).text
    assert [output["data"] for output in outcome[:-1]] == [{"text/plain": ""}]  # of the bar
    assert [output["name"] for output in quiet] == ["stdout"]
    assert waiting[0]["text"] == "done\n"

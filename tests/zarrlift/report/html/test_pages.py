"""What pages and notebooks show of results, what they never hold, whatever names say, and how much."""

from __future__ import annotations

import base64
import json
import math
import os
import re
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
from tests.support.readers import ENVIRONMENTS
from tests.support.report_examples import HOSTILE, plane, write_hostile, write_images

import zarrlift
from zarrlift.archive.nodes import ArrayNode, GroupNode
from zarrlift.cli import main
from zarrlift.errors import Problem
from zarrlift.jobs.batch.rows import BatchOutcome, BatchRow
from zarrlift.jobs.job_report import ArrayReport, JobReport, StoredForm
from zarrlift.jobs.ledger.last_run import Reached
from zarrlift.jobs.units import safe
from zarrlift.planning.images import MAX_READ, Image, cost, images_of
from zarrlift.recipe.options import Reading
from zarrlift.report.html.pages import batch_page, job_page, pictures
from zarrlift.report.html.pictures import PictureMaker, png
from zarrlift.storage.open_storage import open_storage


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


def report_of(arrays: int = 4, **changes: object) -> JobReport:
    form = StoredForm(data_type="uint16", chunk_shape=(64, 64), shard_shape=None, codecs="bytes > zstd:3")
    rows = tuple(
        ArrayReport(
            path=f"images/{number}", state="done", route="recode", reason="bytes codecs", shape=(512, 512),
            before=form, after=form, objects_before=64, objects_after=64, bytes_before=9000, bytes_after=8000,
            bytes_read=9000, bytes_written=8000,
        )
        for number in range(arrays)
    )  # fmt: skip
    report = JobReport(
        job="/data/a.zarrlift.db", source="/data/old/a.zarr", destination="/data/new/a.zarr", in_place=False,
        format="zarr2", state="done", activity=None, created=1.8e9, updated=1.8e9, seconds=3.0, retries=2,
        checked="sample", verified=None, arrays=rows, groups_done=1, groups_total=1, problems=(),
    )  # fmt: skip
    return replace(report, **changes)


def many(number: int) -> str:
    """The page on a batch, one of twenty archives refused."""
    problem = Problem(kind="metadata", message="not JSON", key=".zarray", advice="Restore the document.")
    good = report_of()
    rows = tuple(
        BatchRow(
            number=place, source=f"/data/{place}", destination=f"/new/{place}", format="zarr2", state="done",
            relative=f"plate-{place // 96}/well-{place % 96}.zarr", arrays=4,
        )
        if place % 20
        else BatchRow(
            number=place, source=f"/data/{place}", destination=f"/new/{place}", state="refused",
            relative=f"broken-{place}.zarr", problems=(problem,),
        )
        for place in range(number)
    )  # fmt: skip
    outcome = BatchOutcome(list_file="all.zarrlift.jsonl", state="incomplete", rows=rows)
    return batch_page(outcome, {row.number: good for row in rows if row.state == "done"})


def test_a_page_of_a_job_links_each_picture_to_its_array(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_images(tmp_path / "a")
    zarrlift.migrate("a", "b")
    assert main(["status", "--check", "--verbose", "b", "--html", "b.html"]) == 0
    page = Page((tmp_path / "b.html").read_text())
    pictures = [found["src"] for tag, found in page.found if tag == "img"]
    assert len(pictures) == 2 * 3  # the multiscale, its labels, and the photo; before and after
    assert all(src.startswith("data:image/png;base64,") for src in pictures)
    assert all(before == after for before, after in zip(pictures[::2], pictures[1::2], strict=True))
    targets = {found.get("id") for _, found in page.found}
    links = [found["href"] for tag, found in page.found if tag == "a"]
    assert {link.removeprefix("#") for link in links} <= targets
    for array in zarrlift.job_report("b").arrays:
        assert f"/{array.path}" in page.text


def test_nothing_of_a_hostile_archive_is_markup(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_hostile(tmp_path / "a")
    zarrlift.migrate("a", "b")
    main(["status", "--check", "--verbose", "b", "--html", "b.html"])
    main(["inspect", "a", "--html", "a.html"])
    for name in ("a.html", "b.html"):
        text = (tmp_path / name).read_text()
        page = Page(text)
        assert sum(tag == "script" for tag, _ in page.found) == 1
        assert not [found for _, found in page.found if any(key.startswith("on") for key in found)]
        assert {found["src"][:15] for tag, found in page.found if tag == "img"} == {"data:image/png;"}
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u200f\u202a-\u202e\u2066-\u2069]", text)
        assert "49" not in re.findall(r"\{\{.*?\}\}|49\{%", page.text)
        for hostile in HOSTILE:
            shown = safe(hostile.replace("/", "_"))[:60]
            assert shown in page.text, (name, shown)


@pytest.mark.slow
def test_a_thousand_archives_are_grouped_and_fit_in_a_page():
    text = many(1000)
    assert len(text) < 5_000_000
    page = Page(text)
    assert "1,000 archives" in page.text
    assert re.search("50 . metadata", page.text)
    assert page.text.count("Restore the document.") == 51  # once for all, and once for each archive
    assert sum(found.get("class") == "page" for _, found in page.found) == 10


@pytest.mark.slow
def test_what_is_too_much_for_a_page_is_counted():
    page = Page(job_page(report_of(2500)))
    assert "500 more arrays" in page.text


def test_a_time_line_is_told_in_words_too():
    points = tuple(Reached(float(second), second * 1_000_000, 0) for second in range(10))
    page = Page(job_page(report_of(throughput=points)))
    (label,) = [
        found["aria-label"] for tag, found in page.found if tag == "svg" and found.get("role") == "img"
    ]
    assert label == "9.00 MB read in 9.00 s: 1.00 MB/s on average, 1.00 MB/s at most."
    assert label in page.text


@pytest.mark.parametrize("state", ["incomplete", "done", "finished", "undone"])
def test_a_job_in_any_state_has_a_page(state):
    for in_place in (False, True):
        report = report_of(state=state, in_place=in_place, destination="/data/old/a.zarr")
        assert state in Page(job_page(report)).text


def test_a_page_that_cannot_be_written_is_an_error_and_leaves_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_archive(tmp_path / "a")
    assert main(["inspect", "a", "--html", str(Path("missing") / "page.html")]) == 1
    assert "cannot write the page" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a"]


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


def test_one_level_of_a_multiscale_stands_for_all_and_labels_are_known(tmp_path):
    found = {image.path: image for image in images_of(zarrlift.plan(write_images(tmp_path / "a")))}
    assert found.keys() == {"image/2", "image/labels/cells/0", "photo"}
    assert (found["image/2"].levels, found["image/2"].labels) == (3, False)
    assert found["image/labels/cells/0"].labels
    assert found["photo"].channels == 2


@pytest.mark.parametrize(
    ("names", "shape", "axes"),
    [
        (["y", "x", "t"], (100, 200, 5), (0, 1)),
        (["lon", "lat"], (100, 200), (1, 0)),
        (["time", "cell", "gene"], (5, 100, 200), (1, 2)),
        (["y", "x"], (63, 200), None),
    ],
)
def test_spatial_axes_are_those_with_such_names_else_the_last_two(names, shape, axes, tmp_path):
    attributes = {"_ARRAY_DIMENSIONS": names}
    root = zarr.open_group(tmp_path / "a", mode="w", zarr_format=2)
    root.create_array("a", shape=shape, chunks=shape, dtype="<u2", attributes=attributes)
    found = [(image.rows, image.columns) for image in images_of(zarrlift.plan(tmp_path / "a"))]
    assert found == ([] if axes is None else [axes])


@pytest.mark.parametrize(
    "chunks", [(1, 64, 64), (1, 4096, 4096), (64, 256, 256), (1, 1, 65536), (8, 1000, 1000)]
)
@pytest.mark.parametrize("shape", [(100, 65536, 65536), (3, 300, 300), (1, 64, 100_000)])
def test_no_selection_reads_more_than_it_may(chunks, shape):
    image = Image(path="a", shape=shape, rows=1, columns=2, channels=None, labels=None)
    selection = image.selection(chunks, 2, 256)
    if selection is None:
        assert math.prod(chunks) * 2 > MAX_READ
        return
    assert cost(selection, shape, chunks, 2) <= MAX_READ
    sizes = [len(range(*part.indices(length))) for part, length in zip(selection[1:], shape[1:], strict=True)]
    assert all(0 < size <= 256 for size in sizes)


def test_a_picture_is_the_middle_plane(tmp_path):
    values = np.zeros((5, 96, 128), "<u2")
    values[2] = plane()
    root = zarr.open_group(tmp_path / "a", mode="w", zarr_format=2)
    root.create_array("a", shape=values.shape, chunks=(2, 50, 50), dtype="<u2")[...] = values
    storage = open_storage(tmp_path / "a")
    (picture,) = pictures(storage, None, Reading(), PictureMaker()).shown
    pixels = decoded(base64.b64decode(picture.sides[0][1].partition(",")[2]))
    low, high = np.percentile(plane(), (1, 99))
    expected = (np.clip((plane() - low) / (high - low), 0, 1) * 255).astype(np.uint8)
    assert np.array_equal(pixels, expected)


def window(start: object, end: object) -> dict[str, object]:
    return {"min": 0, "max": 65535, "start": start, "end": end}


@pytest.mark.parametrize(
    ("omero", "colours", "limits"),
    [
        (
            [
                {"color": "ff8000", "active": True, "window": window(0, 200)},
                {"color": "0000FF", "active": False},
            ],
            [(255, 128, 0), (0, 0, 0)],
            [(0, 200), None],
        ),
        ([{"color": "#00FF00", "active": False}] * 2, [(0, 255, 0)] * 2, [None, None]),
        (None, [(255, 0, 255), (0, 255, 0)], [None, None]),
        (
            [{"color": 7, "window": window("0", float("nan"))}, "x"],
            [(255, 0, 255), (0, 255, 0)],
            [None, None],
        ),
        ({"0": {}}, [(255, 0, 255), (0, 255, 0)], [None, None]),
    ],
    ids=["one is off", "all are off", "no omero", "no colours and limits", "no channels"],
)
def test_channels_are_mixed_as_omero_says(omero, colours, limits, tmp_path):
    values = np.stack([plane(), plane()[::-1]]).reshape(1, 2, 96, 128)
    axes = [{"name": "z", "type": "space"}, {"name": "wave", "type": "channel"}]
    axes += [{"name": name, "type": "space"} for name in "yx"]
    entry = {"version": "0.4", "axes": axes, "datasets": [{"path": "0"}]}
    attributes = {"multiscales": [entry], **({} if omero is None else {"omero": {"channels": omero}})}
    root = zarr.open_group(tmp_path / "a", mode="w", zarr_format=2, attributes=attributes)
    root.create_array("0", shape=values.shape, chunks=(1, 1, 50, 50), dtype="<u2")[...] = values
    (picture,) = pictures(open_storage(tmp_path / "a"), None, Reading(), PictureMaker()).shown
    light = np.zeros((96, 128, 3))
    for channel, colour, ends in zip(values[0], colours, limits, strict=True):
        low, high = np.percentile(channel, (1, 99)) if ends is None else ends
        light += np.clip((channel - low) / (high - low), 0, 1)[..., None] * colour
    pixels = decoded(base64.b64decode(picture.sides[0][1].partition(",")[2]))
    assert np.array_equal(pixels, np.clip(light, 0, 255).astype(np.uint8))
    assert picture.about == "1x2x96x128, 2 channels"


@pytest.mark.parametrize(
    ("shape", "chunks", "about"),
    [
        ((20, 64, 64), (1, 64, 64), "20x64x64, 8 of 20 channels"),
        ((5, 64, 3_000_000), (1, 64, 60_000), "5x64x3000000, 4 of 5 channels"),
    ],
    ids=["many channels", "large chunks"],
)
def test_as_many_channels_are_mixed_as_may_be_read(shape, chunks, about, tmp_path):
    attributes = {"_ARRAY_DIMENSIONS": ["channel", "y", "x"]}
    root = zarr.open_group(tmp_path / "a", mode="w", zarr_format=2)
    root.create_array("a", shape=shape, chunks=chunks, dtype="<u2", attributes=attributes)
    (picture,) = pictures(open_storage(tmp_path / "a"), None, Reading(), PictureMaker()).shown
    assert picture.about.startswith(about)


def test_equal_labels_have_equal_colours_and_zero_is_black(tmp_path):
    values = (plane() // 100).astype("<u8")
    root = zarr.open_group(tmp_path / "a", mode="w", zarr_format=2)
    root.create_array("segmentation", shape=values.shape, chunks=(50, 50), dtype="<u8")[...] = values
    (picture,) = pictures(open_storage(tmp_path / "a"), None, Reading(), PictureMaker()).shown
    pixels = decoded(base64.b64decode(picture.sides[0][1].partition(",")[2]))
    colours = {
        int(label): {tuple(colour) for colour in pixels[values == label].tolist()}
        for label in np.unique(values)
    }
    assert colours[0] == {(0, 0, 0)}
    assert all(len(of_label) == 1 for of_label in colours.values())
    assert len(set().union(*colours.values())) > len(colours) // 2


def test_damaged_images_and_those_without_room_are_counted(tmp_path):
    root = zarr.open_group(tmp_path / "a", mode="w", zarr_format=2)
    for name in "abc":
        root.create_array(name, shape=(96, 128), chunks=(96, 128), dtype="<u2")[...] = plane()
    (tmp_path / "a/a/0.0").write_bytes(b"damaged")
    found = pictures(open_storage(tmp_path / "a"), None, Reading(), PictureMaker(images=2))
    assert [picture.path for picture in found.shown] == ["b"]
    assert (found.left_out, len(found.unread), len(found.notes)) == (1, 1, 2)


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
    assert re.search('<code>objects</code>.*<span class="pill bad">REFUSED</span></span></summary>', html)


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
    assert "and 1,300 more arrays" in html
    assert len(html) < 200_000
    nodes = tuple(
        ArrayNode(path=f"{'g/' * 500}a{number:04}", layout=examples.IMAGE, attributes={"note": "x" * 100_000})
        for number in range(1000)
    )
    archive = replace(examples.ARCHIVE, nodes=(GroupNode(path=""), *nodes))
    assert len(archive._repr_html_()) < 500_000
    assert "and 801 more nodes" in shown(archive)
    differing = replace(examples.EQUAL, differences=tuple((f"n{number}", 1) for number in range(1000)))
    assert "and 800 more nodes" in shown(differing)


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
    page = Path(__file__).parents[4] / "docs" / "howto" / "long-jobs.md"
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
    archive, plan, outcome, report, stack, quiet, waiting = json.loads(done.stdout)
    kinds = ("Archive", "Plan", "Outcome", "VerificationReport", "stack")
    for kind, outputs in zip(kinds, (archive, plan, outcome, report, stack), strict=True):
        assert kind in Fragment(outputs[-1]["data"]["text/html"]).text
    assert [output["data"] for output in outcome[:-1]] == [{"text/plain": ""}]  # of the bar
    assert [output["name"] for output in quiet] == ["stdout"]
    assert waiting[0]["text"] == "done\n"


# The pages in a browser: nothing scrolls sideways, nothing is requested, nothing of an archive runs.


def look(*pages: str) -> list[dict]:
    """What happened on each page, at each width, light and dark."""
    command = ["node", str(ENVIRONMENTS / "chromium/look.mjs"), os.environ["ZARRLIFT_CHROMIUM"], *pages]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def url(path: Path) -> str:
    return path.absolute().as_uri()


@pytest.mark.needs_reader("chromium")
def test_pages_of_images_and_of_a_hostile_archive(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for write, name in ((write_images, "images"), (write_hostile, "hostile")):
        write(tmp_path / name)
        zarrlift.migrate(name, f"{name}.v3")
        main(["status", "--check", "--verbose", f"{name}.v3", "--html", f"{name}.html"])
        main(["inspect", name, "--html", f"{name}-inspect.html"])
    (tmp_path / "many.html").write_text(many(250))
    fragments = "".join(result._repr_html_() for result in RESULTS.values())
    head = '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>cells</title></head>'
    (tmp_path / "notebook.html").write_text(f"{head}<body>{fragments}</body></html>")
    write_images(tmp_path / "all/images.zarr")
    write_hostile(tmp_path / "all/hostile.zarr")
    (tmp_path / "all/broken.zarr").mkdir()
    (tmp_path / "all/broken.zarr/zarr.json").write_text("{")
    main(["batch", "run", "all", "--to", "v3/{name}", "--quiet"])
    main(["status", "v3", "--html", "batch.html"])
    stopped = report_of(
        state="incomplete",
        problems=examples.FAILED.problems,
        throughput=(Reached(0.0, 0, 0), Reached(9.0, 7, 1)),
    )
    (tmp_path / "stopped.html").write_text(job_page(stopped))
    pages = [url(path) for path in sorted(tmp_path.glob("*.html"))]
    assert len(pages) == 8
    found = look(*pages)
    assert len(found) == 4 * 8
    for page in found:
        assert (page["told"], page["wider"], page["hacked"], page["faults"]) == ([], 0, False, []), page
        assert page["details"] > 0

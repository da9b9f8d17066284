"""What notebooks show of results: a tree that folds, safe whatever names say, and never too much."""

from __future__ import annotations

import json
import os
import re
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from tests.support import report_examples as examples
from tests.support.readers import ENVIRONMENTS
from tests.support.report_examples import HOSTILE, write_hostile, write_images
from tests.zarrlift.report.html.test_pages import many, report_of, write_census
from tests.zarrlift.views.test_http_server import serving

import zarrlift
from zarrlift.archive.nodes import ArrayNode, GroupNode
from zarrlift.cli import main
from zarrlift.jobs.ledger.last_run import Reached
from zarrlift.jobs.units import safe
from zarrlift.report.html.pages import job_page

RESULTS = {
    "archive": examples.ARCHIVE,
    "plan": examples.PLAN,
    "plan-with-requests": examples.CODECS,
    "outcome": examples.FAILED,
    "status": examples.STATUS,
    "verification": examples.DIFFERENT,
    "diff": examples.DIFF,
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
    write_census(tmp_path / "all")
    main(["inspect", "all", "--html", "census.html"])
    main(["batch", "run", "all", "--to", "v3/{name}", "--quiet"])
    main(["status", "v3", "--html", "batch.html"])
    stopped = report_of(
        state="incomplete",
        problems=examples.FAILED.problems,
        throughput=(Reached(0.0, 0, 0), Reached(9.0, 7, 1)),
    )
    (tmp_path / "stopped.html").write_text(job_page(stopped))
    pages = [url(path) for path in sorted(tmp_path.glob("*.html"))]
    assert len(pages) == 9
    with serving(tmp_path / "hostile") as address:
        found = look(*pages, address)
    assert len(found) == 4 * 10
    for page in found:
        assert (page["told"], page["wider"], page["hacked"], page["faults"]) == ([], 0, False, []), page
        assert page["details"] > 0

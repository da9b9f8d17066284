"""The pages in a browser: nothing scrolls sideways, nothing is requested, nothing of an archive runs."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from tests.support.environments import ENVIRONMENTS
from tests.support.image_archives import write_hostile, write_images
from tests.zarrlift.report.html.test_notebook import RESULTS
from tests.zarrlift.report.html.test_pages import many, write_census
from tests.zarrlift.views.test_http_server import serving

import zarrlift
from zarrlift.cli import main

pytestmark = pytest.mark.needs_reader("chromium")


def look(*pages: str) -> list[dict]:
    """What happened on each page, at each width, light and dark."""
    command = ["node", str(ENVIRONMENTS / "chromium/look.mjs"), os.environ["ZARRLIFT_CHROMIUM"], *pages]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def url(path: Path) -> str:
    return path.absolute().as_uri()


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
    pages = [url(path) for path in sorted(tmp_path.glob("*.html"))]
    assert len(pages) == 7
    with serving(tmp_path / "hostile") as address:
        found = look(*pages, address)
    assert len(found) == 4 * 8
    for page in found:
        assert (page["told"], page["wider"], page["hacked"], page["faults"]) == ([], 0, False, []), page
        assert page["details"] > 0

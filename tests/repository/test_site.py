"""The built documentation in a browser; `.ci/run check` builds it, and checks its links."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.processes import running
from tests.support.readers import ENVIRONMENTS

pytestmark = [
    pytest.mark.needs_reader("chromium"),
    pytest.mark.needs_reader("site"),
    pytest.mark.slow,
]

SERVE = """
import http.server, sys
handler = type("Quiet", (http.server.SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
make = lambda *parts: handler(*parts, directory=sys.argv[1])
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), make)
print(server.server_port, flush=True)
server.serve_forever()
"""


def test_no_page_scrolls_sideways_fails_asks_other_servers_or_shuts_anyone_out() -> None:
    site = Path(os.environ["ZARRLIFT_SITE"])
    pages = (page for page in site.rglob("index.html") if "http-equiv" not in page.read_text())
    folders = sorted(page.parent.relative_to(site) for page in pages)  # without those that have moved
    paths = [f"{folder.as_posix()}/".removeprefix("./") for folder in folders]
    assert len(paths) > 40
    with running([sys.executable, "-c", SERVE, str(site)]) as server:
        url = f"http://127.0.0.1:{server.stdout.readline().strip()}/"
        done = subprocess.run(
            ["node", str(ENVIRONMENTS / "chromium/site.mjs"), os.environ["ZARRLIFT_CHROMIUM"], url, *paths],
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == []

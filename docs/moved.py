"""Hook of mkdocs: an old address of a page leads to where its content is now (moved.toml).

A page or a heading that is not there ends the build, as a broken link does.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError

TABLE = Path(__file__).with_name("moved.toml")
PAGE = """<!doctype html>
<html lang="en">
<title>Moved</title>
<link rel="canonical" href="{url}">
<meta http-equiv="refresh" content="0; url={url}">
<a href="{url}">This page has moved.</a>
</html>
"""


def on_post_build(config: Any) -> None:
    """Write a page at each old address; PluginError if it would lead nowhere."""
    site = Path(config.site_dir)
    for old, new in tomllib.loads(TABLE.read_text()).items():
        page, _, anchor = new.partition("#")
        target, place = site / page / "index.html", site / old / "index.html"
        if not target.exists() or (
            anchor and not re.search(rf'\bid="{re.escape(anchor)}"', target.read_text())
        ):
            raise PluginError(f"{TABLE.name}: {old} leads to {new}, which is not there")
        if place.exists():
            raise PluginError(f"{TABLE.name}: {old} is a page")
        place.parent.mkdir(parents=True, exist_ok=True)
        url = "../" * (old.count("/") + 1) + (f"{page}/" if page else "") + (f"#{anchor}" if anchor else "")
        place.write_text(PAGE.format(url=url))

"""Renders the templates: every text is escaped, and invisible characters are shown.

A page allows itself, by a Content-Security-Policy, its own style and script (by their hashes) and pictures
inside it, and nothing else: even text that escaped our escaping could load and run nothing.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import time
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from zarrstack.core.errors import StorageError

from ...jobs.units import count_text, duration_text, node_text, safe
from .. import blocks as b
from .view import SectionBlocks, View

if TYPE_CHECKING:
    from jinja2 import Environment

_PAGE_SIZE: Final = 100
"""Rows of a page that are shown together; the further ones are folded."""
_MAX_ROWS: Final = 2000
"""Maximum number of rows of a table on a page."""
_MAX_CHARACTERS: Final = 2_000_000
"""Maximum number of characters of all documents together, such as attributes."""
_NOTEBOOK_ROWS: Final = 200
_NOTEBOOK_CHARACTERS: Final = 100_000


def page(
    blocks: Iterable[b.Block], *, kicker: str, title: str, state: str = "", tone: str | None = None
) -> str:
    """One self-contained HTML page of blocks; `state` is beside its title, in a tone if it is no state."""
    from markupsafe import Markup

    from zarrstack.version import __version__

    view = View(is_page=True, rows=_MAX_ROWS, characters=_MAX_CHARACTERS)
    headline, parts = _divided(blocks, view)
    own = parts[0][1]
    figures = next((block for block in own if isinstance(block, b.Pairs)), None)
    if figures is not None:
        own.remove(figures)
    return _template(
        "page.html",
        view,
        headline=headline,
        sections=parts if own else parts[1:],
        figures=[] if figures is None else view.pairs(figures),
        kicker=kicker,
        title=title,
        state=state,
        tone=view.tone(state) if tone is None else tone,
        style=Markup(_resource("style.css")),  # noqa: S704 - ours
        script=Markup(_resource("script.js")),  # noqa: S704 - ours
        policy=policy(),
        version=__version__,
        made=time.time(),
    )


def notebook(blocks: Iterable[b.Block], name: str) -> str:
    """A fragment of HTML without scripts and requests, whose size is bounded."""
    from markupsafe import Markup

    from zarrstack.base.notebook import STYLE

    view = View(is_page=False, rows=_NOTEBOOK_ROWS, characters=_NOTEBOOK_CHARACTERS)
    headline, parts = _divided(blocks, view)
    tone = {"good": "good", "bad": "bad", "warning": "bad"}.get(headline[0].tone, "")
    style = Markup(STYLE)  # noqa: S704 - ours
    values = {"headline": headline, "sections": parts, "result": name, "tone": tone}
    return _template("notebook.html", view, notebook_style=style, **values)


def _divided(blocks: Iterable[b.Block], view: View) -> tuple[list[Any], list[SectionBlocks]]:
    """The title and the summary, and the sections with the other blocks."""
    parts = view.sections(blocks)
    every = [block for _, content in parts for block in content]
    headline = [block for kind in (b.Title, b.Summary) for block in every if isinstance(block, kind)]
    for _, content in parts:
        content[:] = [block for block in content if block not in headline]
    return headline, [parts[0], *(part for part in parts[1:] if part[1])]


def _template(name: str, view: View, **values: Any) -> str:
    return _environment().get_template(name).render(view=view, page_size=_PAGE_SIZE, **values)


@cache
def policy() -> str:
    """The Content-Security-Policy of every page, which a server sends as a header too."""
    style, script = (_hash(_resource(name)) for name in ("style.css", "script.js"))
    return (
        f"default-src 'none'; style-src 'sha256-{style}'; script-src 'sha256-{script}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader(__package__, "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        count=count_text,
        duration=duration_text,
        node=node_text,
        moment=moment,
        percent=_percent,
    )
    return environment


def _shown(value: Any) -> Any:
    """What is written for a value of a template, before it is escaped: names may hold terminal escapes."""
    if value is None:
        return ""
    return safe(value) if type(value) is str else value


def _percent(part: float, whole: float) -> str:
    """A width for SVG; what is there can be seen."""
    return f"{max(100 * part / whole, 0.4 if part else 0):.2f}%" if whole else "0%"


def moment(seconds: float) -> str:
    """A time, the same wherever the page is read."""
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(seconds))


@cache
def _resource(name: str) -> str:
    return files(__package__).joinpath("templates", name).read_text(encoding="utf-8").strip()


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def write_page(path: str | os.PathLike[str], page: str) -> None:
    """Write a page to a file, which appears complete; StorageError."""
    partial = Path(f"{os.fspath(path)}.partial")
    try:
        partial.write_bytes(page.encode())
        os.replace(partial, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        raise StorageError(
            "cannot write the page", key=os.fspath(path), found=error.strerror, advice="Name another file."
        ) from error

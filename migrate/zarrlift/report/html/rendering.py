"""Renders the templates: every text is escaped, and invisible characters are shown.

A page allows itself, by a Content-Security-Policy, its own style and script (by their hashes) and pictures
inside it, and nothing else: even text that escaped our escaping could load and run nothing.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import time
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from zarrstack.core.errors import StorageError

from ...jobs.units import bytes_text, count_text, duration_text, node_text, safe, shape_text

if TYPE_CHECKING:
    from jinja2 import Environment

_MAX_LINES: Final = 60
"""Maximum number of lines of a document on a page."""
_MAX_LINE: Final = 400


def render(template: str, **values: Any) -> str:
    """The page of a template."""
    from markupsafe import Markup

    from zarrstack.version import __version__

    style, script = _resource("style.css"), _resource("script.js")
    return (
        _environment()
        .get_template(template)
        .render(
            style=Markup(style),  # noqa: S704 - ours
            script=Markup(script),  # noqa: S704 - ours
            policy=policy(),
            version=__version__,
            made=time.time(),
            **values,
        )
    )


def fragment(template: str, *, notebook_style: str, **values: Any) -> str:
    """A part of a page that is not ours, with the given style sheet."""
    from markupsafe import Markup

    style = Markup(notebook_style)  # noqa: S704 - ours
    return _environment().get_template(template).render(notebook_style=style, **values)


@cache
def policy() -> str:
    """The Content-Security-Policy of every page, which a server sends as a header too."""
    style, script = (_hash(_resource(name)) for name in ("style.css", "script.js"))
    return (
        f"default-src 'none'; style-src 'sha256-{style}'; script-src 'sha256-{script}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def document_lines(value: Any) -> list[str]:
    """A JSON document as lines for a page; the rest of a long one is counted."""
    lines = json.dumps(value, indent=2, ensure_ascii=False, default=str).splitlines()
    cut = [line if len(line) <= _MAX_LINE else line[:_MAX_LINE] + "…" for line in lines[:_MAX_LINES]]
    return (
        cut
        if len(lines) <= _MAX_LINES
        else [*cut, f"… and {count_text(len(lines) - _MAX_LINES, 'more line')}"]
    )


def attribute_lines(attributes: Mapping[str, Any], room: list[int], otherwise: str) -> list[str]:
    """Attributes as lines as long as `room` is left for their characters; then `otherwise`."""
    lines = document_lines(dict(attributes)) if attributes and room[0] > 0 else []
    room[0] -= sum(map(len, lines))
    return [otherwise] if attributes and not lines else lines


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
        bytes=_bytes,
        count=count_text,
        duration=duration_text,
        shape=shape_text,
        node=node_text,
        moment=moment,
        lines=document_lines,
        percent=_percent,
    )
    return environment


def _shown(value: Any) -> Any:
    """What is written for a value of a template, before it is escaped: names may hold terminal escapes."""
    if value is None:
        return ""
    return safe(value) if type(value) is str else value


def _bytes(count: int | None) -> str:
    return "unknown" if count is None else bytes_text(count)


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
        raise StorageError("cannot write the page", key=os.fspath(path), found=error.strerror) from error

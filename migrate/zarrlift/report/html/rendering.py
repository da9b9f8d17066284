"""Renders the templates for a page or a notebook, each with as much as it has room for.

Every text is escaped, and invisible characters are shown.

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
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from zarrstack.core.errors import StorageError, short

from ...jobs.units import count_text, duration_text, moment_text, node_names, node_text, safe
from .. import blocks as b
from ..blocks import MAX_PLACES, ORDER, ProblemGroup
from .pictures import Pictures

if TYPE_CHECKING:
    from jinja2 import Environment

SectionBlocks: TypeAlias = tuple[b.Section, list[b.Block]]
_TONES: Final = {
    "done": "good",
    "finished": "good",
    "failed": "bad",
    "refused": "bad",
    "REFUSED": "bad",
    "incomplete": "warn",
    "running": "warn",
}
"""The tones of states."""
_LONGEST: Final = 400
"""Maximum number of characters of a text in a notebook, or of a line of a document."""
_MAX_LINES: Final = 60
"""Maximum number of lines of a document."""
_MAX_GROUPS: Final = 20
"""Maximum number of groups of problems in a notebook."""
_DEEPEST: Final = 6
"""Nodes of a tree that are deeper are indented no further."""


class View:
    """What a page or a notebook has room for."""

    def __init__(self, *, is_page: bool, rows: int, characters: int) -> None:
        """`rows` of a table, and `characters` of all documents together."""
        self.is_page = is_page
        self.most = rows
        self._room = characters

    def text(self, text: str) -> str:
        """A text that is not too long."""
        return text if self.is_page else short(text, _LONGEST)

    def tone(self, state: str) -> str:
        """The tone of a state."""
        return _TONES.get(state, "")

    def depth(self, path: str | None) -> int:
        """How far a node is indented."""
        return min(path.count("/") + 1, _DEEPEST) if path else 0

    def names(self, block: b.Names) -> str:
        """The names of nodes in a sentence."""
        return f"{block.head}: {node_names(block.paths, block.most)}"

    def pairs(self, block: b.Pairs) -> list[tuple[str, str]]:
        """The pairs with a value."""
        return [pair for pair in block.rows if pair[1]]

    def groups(self, block: b.Problems) -> list[ProblemGroup]:
        """The groups of problems, by severity and kind, the largest first."""
        return sorted(
            block.grouped(MAX_PLACES),
            key=lambda group: (ORDER.index(group.first.severity), group.first.kind, -group.count),
        )[: None if self.is_page else _MAX_GROUPS]

    def columns(self, table: b.Table[Any], rows: Sequence[Sequence[str]]) -> list[tuple[int, b.Column]]:
        """The columns with a title and any text, by their places."""
        return [
            (place, column)
            for place, column in enumerate(table.columns)
            if column.title and any(row[place] for row in rows)
        ]

    def document(self, block: b.Document) -> list[str]:
        """The lines of a document; the rest of a long one is counted, and too many of them are left out."""
        if self._room <= 0:
            return ["not shown: there is too much; see --json"]
        lines = json.dumps(block.value, indent=2, ensure_ascii=False, default=str).splitlines()
        cut = [line if len(line) <= _LONGEST else line[:_LONGEST] + "…" for line in lines[:_MAX_LINES]]
        if len(lines) > _MAX_LINES:
            cut.append(f"… and {count_text(len(lines) - _MAX_LINES, 'more line')}")
        self._room -= sum(map(len, cut))
        return cut

    def shown(self, blocks: Iterable[b.Block]) -> list[b.Block]:
        """The blocks that have something to show."""
        return [block for block in blocks if not _is_empty(block)]

    def sections(self, blocks: Iterable[b.Block]) -> list[SectionBlocks]:
        """The sections that have something to show; after the first one, those with refusals."""
        sections: list[SectionBlocks] = [(b.Section(), [])]
        for block in self.shown(blocks):
            if isinstance(block, b.Section):
                sections.append((block, []))
            elif sections[-1][0].on != "text":
                sections[-1][1].append(block)
        first, *others = sections
        others = [(section, content) for section, content in others if content]
        return [first, *sorted(others, key=lambda section: not any(map(_is_refusal, section[1])))]


def _is_empty(block: b.Block) -> bool:
    match block:
        case b.Pairs():
            return not any(value for _, value in block.rows)
        case b.Table():
            return not block.items
        case b.Problems():
            return not block.problems
        case b.Failures():
            return not block.rows
        case b.Lines():
            return not block.lines
        case b.Document():
            return not block.value
        case Pictures():
            return not block.shown and not block.notes
    return False


def _is_refusal(block: b.Block) -> bool:
    return isinstance(block, b.Problems) and any(
        group.first.severity == "refusal" for group in block.grouped(1)
    )


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
    style = Markup(f"{STYLE}\n{_resource('notebook.css')}")  # noqa: S704 - ours
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
        finalize=_safe_value,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        count=count_text,
        duration=duration_text,
        node=node_text,
        moment=moment_text,
        percent=_percent,
    )
    return environment


def _safe_value(value: Any) -> Any:
    """What is written for a value of a template, before it is escaped: names may hold terminal escapes."""
    if value is None:
        return ""
    return safe(value) if type(value) is str else value


def _percent(part: float, whole: float) -> str:
    """A width for SVG; what is there can be seen."""
    return f"{max(100 * part / whole, 0.4 if part else 0):.2f}%" if whole else "0%"


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

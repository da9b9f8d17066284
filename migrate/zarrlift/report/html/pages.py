"""Blocks as HTML, for notebooks and the pages on a job and a batch: a page is a fragment with pictures.

`joined` escapes everything that `element` did not make, and shows invisible characters. A page has no
script; its Content-Security-Policy allows its own style, by its hash, and pictures inside it.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import time
from collections.abc import Iterable, Mapping
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from zarrstack.core.errors import StorageError, short
from zarrstack.system.this import system

from ...core.units import count_text, moment_text, node_names, node_text, safe
from ...jobs.ledger.ledger import Job
from ...jobs.outcome import Outcome
from ...recipe.options import Places
from .. import batch, outcome
from .. import blocks as b
from .. import status as report_status
from ..blocks import MAX_PLACES, ORDER, ProblemGroup, blocks_of
from .pictures import Picture, Pictures, pictures_of_job

if TYPE_CHECKING:
    from ...jobs.batch.state import BatchOutcome
    from ...jobs.status import Status

_TONES: Final = {
    "done": "good",
    "finished": "good",
    "failed": "bad",
    "refused": "bad",
    "REFUSED": "bad",
    "refusal": "bad",
    "warning": "warn",
    "incomplete": "warn",
    "running": "warn",
}
"""The tones of states and severities."""
_LONGEST: Final = 400
"""Maximum number of characters of a text, unless it is to be copied."""
_DOCUMENT: Final = 1000
"""Maximum number of characters of a document."""
_MAX_GROUPS: Final = 100
"""Maximum number of groups of problems."""
_DEEPEST: Final = 6
"""Nodes of a tree that are deeper are indented no further."""
_PICTURES: Final = (
    "The middle plane of each image, or a sample of its pixels, from black at the 1st to white at the 99th"
    " percentile. They are for orientation only: zarrlift verify compares values."
)
_VOID: Final = frozenset({"img", "meta"})
"""Elements without content and end."""


class Html(str):
    """Markup, which is not escaped again."""

    __slots__ = ()


def joined(parts: Iterable[str]) -> Html:
    """The parts in a row: text is escaped, unless it is markup."""
    return Html("".join(part if isinstance(part, Html) else escape(safe(part)) for part in parts))


def element(name: str, *content: str, **attributes: str) -> Html:
    """An element; omits a `_` at the end of an attribute's name, and empty attributes."""
    words = "".join(f' {key.rstrip("_")}="{escape(safe(text))}"' for key, text in attributes.items() if text)
    return Html(f"<{name}{words}>" if name in _VOID else f"<{name}{words}>{joined(content)}</{name}>")


def notebook(blocks: Iterable[b.Block], name: str) -> str:
    """A fragment of HTML without scripts and requests, whose size is bounded."""
    return joined((_style(), _fragment(blocks, rows=200, name=name)))


def page(blocks: Iterable[b.Block], *, title: str) -> str:
    """One self-contained page."""
    from zarrstack.version import __version__

    style = _style("page.css")
    allowed = f"default-src 'none'; style-src 'sha256-{_hash(style)}'; img-src data:"
    policy = f"{allowed}; base-uri 'none'; form-action 'none'"
    head = element(
        "head",
        element("meta", charset="utf-8"),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
        element("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        element("title", f"{title} · zarrlift"),
        style,
    )
    footer = f"Made by zarrlift {__version__}, {moment_text(time.time())}. This page makes no requests."
    main = element("main", _fragment(blocks, rows=2000))
    body = element("body", main, element("footer", element("p", footer)), class_="zarrlift-html")
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def _style(*more: str) -> Html:
    names = ("fragment.css", "style.css", *more)
    sheets = (files(__package__).joinpath(name).read_text(encoding="utf-8") for name in names)
    return Html("<style>" + "\n".join(map(str.strip, sheets)) + "</style>")


def _hash(style: str) -> str:
    text = style.removeprefix("<style>").removesuffix("</style>")
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _fragment(blocks: Iterable[b.Block], *, rows: int, name: str = "") -> Html:
    """The title, then the sections, those with refusals first; `rows` of each table."""
    sections: list[tuple[b.Section, list[b.Block]]] = [(b.Section(), [])]
    headline: list[b.Block] = []
    for block in blocks:
        if isinstance(block, b.Section):
            sections.append((block, []))
        elif isinstance(block, b.Title | b.Summary):
            headline.append(block)
        elif sections[-1][0].on != "text":
            sections[-1][1].append(block)
    first, *others = sections
    others.sort(key=lambda section: not any(map(_is_refusal, section[1])))
    parts = [*_headline(headline, name), *(_block(block, rows) for block in first[1])]
    for section, content in others:
        shown = joined(_block(block, rows) for block in content)
        if shown and section.title:
            head = element("summary", element("b", _short(section.title)))
            shown = _details(head, element("div", shown), is_open=not section.folded)
        parts.append(shown)
    return element("div", *parts, class_="zarrlift-html")


def _is_refusal(block: b.Block) -> bool:
    return isinstance(block, b.Problems) and any(
        group.first.severity == "refusal" for group in block.grouped(1)
    )


def _headline(headline: Iterable[b.Block], name: str) -> Iterable[Html]:
    """The title, after the name of a result, and the summary: paragraphs, or the heading of a page."""
    for block in sorted(headline, key=lambda block: isinstance(block, b.Summary)):
        text = _short(getattr(block, "text", ""))
        if isinstance(block, b.Summary):
            yield element("p", text)
        elif not name:
            yield element("h1", text)
        else:
            tone = {"good": "good", "bad": "bad", "warning": "bad"}.get(getattr(block, "tone", ""), "")
            head = [] if text.startswith(name) else [element("b", name), " "]
            yield element("p", *head, element("span", text, class_=tone))


def _block(block: b.Block, rows: int) -> Html:
    """A block; nothing for one that has nothing to show."""
    match block:
        case b.Text() if block.text:
            return element("p", _short(block.text))
        case b.Names():
            return element("p", f"{block.head}: {node_names(block.paths, block.most)}")
        case b.Pairs():
            return _pairs(block.rows)
        case b.Lines() if block.lines:
            return _pre(block.lines[:rows])
        case b.Document() if block.value:
            text = json.dumps(block.value, indent=2, ensure_ascii=False, default=str)
            cut = text if len(text) <= _DOCUMENT else text[:_DOCUMENT] + "\n… (all of it: --json)"
            return _details(element("summary", block.label), element("div", _pre(cut.splitlines())))
        case b.Problems():
            groups = sorted(
                block.grouped(MAX_PLACES),
                key=lambda group: (ORDER.index(group.first.severity), group.first.kind, -group.count),
            )
            return joined((*map(_problem, groups[:_MAX_GROUPS]), _more(len(groups) - _MAX_GROUPS, "problem")))
        case b.Advice():
            return element("p", block.text, " ", element("code", block.command))
        case b.Table() if block.items:
            shown = _rows(block, rows) if block.more else _table(block, rows)
            return joined((shown, _more(len(block.items) - rows, block.what)))
        case Pictures():
            shown = element("ul", *map(_picture, block.shown), class_="pictures") if block.shown else Html()
            notes = (_PICTURES, *block.notes) if block.shown else block.notes
            return joined((shown, *(element("p", note) for note in notes)))
    return Html()


def _short(text: str) -> str:
    return short(text, _LONGEST)


def _more(count: int, what: str) -> Html:
    return element("p", f"and {count_text(count, f'more {what}')}") if count > 0 else Html()


def _details(summary: Html, body: Html, *, is_open: bool = False, **attributes: str) -> Html:
    return element("details", summary, body, **attributes, **({"open_": "open"} if is_open else {}))


def _pairs(pairs: Iterable[tuple[str, str]]) -> Html:
    rows = [joined((element("dt", name), element("dd", _short(value)))) for name, value in pairs if value]
    return element("dl", *rows) if rows else Html()


def _pre(lines: Iterable[str]) -> Html:
    return element("pre", Html("\n".join(joined([line]) for line in lines)))


def _problem(group: ProblemGroup) -> Html:
    first = group.first
    kind = f"{first.kind}, {group.count_text}" if group.count > 1 else first.kind
    head = (
        element("span", _short(first.message)),
        " ",
        element("span", kind, class_=_TONES.get(first.severity, "")),
    )
    facts = {"found": group.found, "expected": first.expected, "what to do": first.advice}
    body = [_pairs((name, text or "") for name, text in facts.items())]
    for where in group.places:
        words = [where.archive or "", "" if where.node is None else node_text(where.node)]
        words += [f"key {where.key}" if where.key else "", where.message or ""]
        words += [f"found {where.found}" if where.found else ""]
        body.append(element("p", _short(", ".join(filter(None, words)))))
    body.append(_more(group.more, "place"))
    return _details(element("summary", *head), element("div", *body), is_open=first.severity == "refusal")


def _table(table: b.Table[Any], rows: int) -> Html:
    cells = [table.row(item) for item in table.items[:rows]]
    columns = [
        (place, column) for place, column in enumerate(table.columns) if any(row[place] for row in cells)
    ]
    head = element("tr", *(element("th", column.title, scope="col") for _, column in columns))
    body = (element("tr", *(_cell(column, row[place]) for place, column in columns)) for row in cells)
    return element("table", element("thead", head), element("tbody", *body))


def _cell(column: b.Column, text: str) -> Html:
    tone = _TONES.get(text, "") if column.is_state else "num" if column.right else ""
    return element("td", _short(text), class_=tone)


def _rows(table: b.Table[Any], rows: int) -> Html:
    """The rows of a table, each of which folds out."""
    return joined(_row(table, item) for item in table.items[:rows])


def _row(table: b.Table[Any], item: Any) -> Html:
    assert table.more is not None
    path = table.paths(item) if table.paths else None
    columns = list(zip(table.columns, table.row(item), strict=True))
    name = next(text for column, text in columns if not (column.folded or column.is_state))
    state = next((text for column, text in columns if column.is_state), "")
    facts = [
        element("span", f"{column.title} {text}" if column.right else _short(text))
        for column, text in columns
        if text and text is not name and not (column.folded or column.is_state)
    ]
    depth = min(path.count("/") + 1, _DEEPEST) if path else 0
    label = element("span", element("code", _short(name.strip(" "))), class_=f"name depth-{depth}")
    pill = element("span", state, class_=_TONES.get(state, "")) if state else Html()
    folded = [(column.title, text) for column, text in columns if column.folded]
    if path is not None:
        folded.insert(0, ("path", node_text(path)))
    body = (_pairs(folded), *(_block(block, rows=100) for block in table.more(item)))
    return _details(element("summary", label, *facts, pill), element("div", *body), class_="row")


def _picture(picture: Picture) -> Html:
    sides = (
        element("span", side, element("img", alt=f"{side}: {node_text(picture.path)}", src=url))
        for side, url in picture.sides
    )
    caption = (element("code", node_text(picture.path)), f" {picture.about}")
    return element("li", element("div", *sides), element("p", *caption))


def write_page(path: str | os.PathLike[str], page: str) -> None:
    """Write a page to a file, which appears complete; StorageError."""
    partial = Path(f"{os.fspath(path)}.partial")
    try:
        partial.write_bytes(page.encode())
        system.replace(str(partial), os.fspath(path))
    except OSError as error:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        raise StorageError(
            "cannot write the page", key=os.fspath(path), found=error.strerror, advice="Name another file."
        ) from error


def notebook_html(result: object) -> str:
    """A fragment of HTML without scripts and requests, whose size is bounded."""
    blocks = outcome.notebook_blocks(result) if isinstance(result, Outcome) else blocks_of(result)
    return notebook(blocks, type(result).__name__)


def write_job_page(status: Status, html: str, path: Path, places: Mapping[str, Any] | None) -> None:
    """Write the page on a job; `places` are the storage options for its pictures, None for no pictures."""
    pictures = Pictures()
    if places is not None:
        with Job.open(path, write=False) as job:
            pictures = pictures_of_job(job, Places(**places))
    write_page(html, job_page(status, pictures))


def job_page(status: Status, pictures: Pictures) -> str:
    """The page on what a job did to one archive."""
    before = (b.Section(title="Pictures", on="pages"), pictures)
    name = os.path.basename(status.source.rstrip("/")) or status.source
    return page(report_status.blocks(status, verbose=True, before=before), title=name)


def write_batch_page(outcome: BatchOutcome, html: str) -> None:
    """Write the page on a batch."""
    write_page(html, page(batch.blocks(outcome), title=count_text(len(outcome.rows), "archive")))

"""Write the parts of the reference that stand in the code: commands, members of JSON, keys, tables.

    python docs/reference/generate.py

A generated part of a page is between two comments, `<!-- write: fields zarrlift.jobs.outcome:Outcome -->` for
example, and `<!-- end -->`. What is outside is written by hand, and a member that a section describes by hand
is left out of its generated part. A test compares pages and code.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin

import command_line
import extensions

FOLDER: Final = Path(__file__).parent
PAGES: Final = ("command-line.md", "json.md", "recipe.md", "job-file.md", "readers.md")
PART: Final = re.compile(r"(<!-- write: (.+?) -->\n).*?(<!-- end -->\n)", re.DOTALL)
HEADING: Final = re.compile(r"^##+ (.+)$", re.MULTILINE)
NAMES: Final = {str: "string", bool: "boolean", int: "integer", float: "number", NoneType: "null", Any: "any"}
ALSO: Final = {
    "IntermediateArray": "intermediate array",
    "Layout": "layout",
    "Recipe": "recipe",
    "Totals": "totals",
}
"""Classes whose section is written by hand."""


def written(text: str) -> str:
    """The text of a page with all its generated parts."""

    def part(match: re.Match[str]) -> str:
        name, _, arguments = match[2].partition(" ")
        section = _section(text, match.start())
        lines = "\n".join(PARTS[name](arguments, section))
        return f"{match[1]}\n{lines.rstrip()}\n\n{match[3]}"

    return PART.sub(part, text)


def _section(text: str, at: int) -> str:
    """What is written by hand in the section around a place."""
    start = max((found.start() for found in HEADING.finditer(text, 0, at)), default=0)
    end = HEADING.search(text, at)
    return PART.sub("", text[start : end.start() if end else len(text)])


# ----- members of JSON


def members(arguments: str, section: str) -> Iterator[str]:
    """The members of a class, `module:Class`: fields without those marked `-name`, and properties.

    Those whose name says everything share a line by their type. With `optional`, members that would be null
    are absent.
    """
    place, *words = arguments.split()
    kind = _class(place)
    omitted = {word[1:] for word in words if word[0] == "-"}
    by_hand = re.findall(r"^- (`[^*]+) \*", section, re.MULTILINE)
    omitted |= {*re.findall(r"`(\w+)`", " ".join(by_hand))}
    optional = "optional" in words
    added = [word for word in words if word != "optional" and word[0] != "-"]
    hints, texts = _hints(kind), _texts(kind)
    fields = list(getattr(kind, "__dataclass_fields__", None) or kind._fields)
    plain: dict[str, list[str]] = {}
    for name in [name for name in (*fields, *added) if name not in omitted]:
        form, choices = _form(hints[name]), _choices(hints[name])
        if optional and form.endswith(" or null"):
            form = f"{form.removesuffix(' or null')}, optional"
        if text := " ".join(filter(None, (choices, texts.get(name, "")))):
            yield entry(f"`{name}` *{form}*", text)
        else:
            plain.setdefault(form, []).append(f"`{name}`")
    for form, names in plain.items():
        yield entry(f"{', '.join(names)} *{form}*", "")


def entry(name: str, text: str) -> str:
    """One line of a list, wrapped."""
    words = re.sub(r"\bNone\b", "null", re.sub(r"(^|\. )None\b", r"\1Null", " ".join(text.split())))
    return textwrap.fill(
        f"- {name}: {words}" if words else f"- {name}",
        width=120,
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _class(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


@cache
def _linked() -> Mapping[str, str]:
    """The section of json.md for each class that has one."""
    found, text = {**ALSO}, (FOLDER / "json.md").read_text()
    for match in PART.finditer(text):
        name, _, arguments = match[2].partition(" ")
        if name == "fields":
            heading = [*HEADING.finditer(text, 0, match.start())][-1][1]
            found[arguments.split()[0].partition(":")[2]] = heading.lower()
    return found


class _Names(dict[str, Any]):
    """The names of a module; what it imports for type checkers only is data."""

    def __missing__(self, name: str) -> Any:
        return getattr(builtins, name, Any)


def _hints(kind: Any) -> dict[str, Any]:
    """The type of each field and property of a class."""
    hints: dict[str, Any] = {}
    for base in reversed(kind.__mro__[:-1]):
        names = _Names(vars(sys.modules[base.__module__]) | {"JSON": Any, "JSONObject": dict[str, Any]})
        own = inspect.get_annotations(base)
        own |= {
            name: item.fget.__annotations__["return"]
            for name, item in vars(base).items()
            if isinstance(item, property)
        }
        own = {name: getattr(item, "__forward_arg__", item) for name, item in own.items()}
        hints |= {
            name: eval(item, {}, names)  # noqa: S307 - our own annotations
            for name, item in own.items()
        }
    return hints


@cache
def _texts(kind: Any) -> dict[str, str]:
    """The first paragraph of the docstring below each field, or of each property; of an option, its help."""
    found = {}
    for base in reversed(kind.__mro__[:-1]):
        try:
            body = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0].body
        except (OSError, TypeError):
            continue
        for item, following in zip(body, [*body[1:], None], strict=True):
            if isinstance(item, ast.FunctionDef):
                found[item.name] = ast.get_docstring(item) or ""
            elif isinstance(item, ast.AnnAssign) and _is_text(following):
                found[item.target.id] = inspect.cleandoc(following.value.value)
    for name, field in getattr(kind, "__dataclass_fields__", {}).items():
        if "option" in field.metadata:
            found[name] = field.metadata["option"].help
    return {name: text.partition("\n\n")[0] for name, text in found.items()}


def _is_text(item: Any) -> bool:
    return isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant)


def _form(hint: Any) -> str:
    """A type as the page has it."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        forms = [_form(each) for each in inner]
        return " or ".join(sorted(forms, key=lambda form: form == "null"))
    if origin is Literal:
        return "string"
    if origin is tuple:
        return f"list of {_form(inner[0])}"
    if origin is not None and issubclass(origin, Mapping):
        return f"map of {_form(inner[1])}"
    if hint in NAMES:
        return NAMES[hint]
    title = _linked()[hint.__name__]
    return f"[{title}](#{title.replace(' ', '-')})"


def _choices(hint: Any) -> str:
    for each in (hint, *get_args(hint)):
        if get_origin(each) is Literal:
            *most, last = [f"`{value}`" for value in get_args(each)]
            return f"{', '.join(most)} or {last}." if most else f"{last}."
    return ""


# ----- other parts


def commands(*_: str) -> Iterable[str]:
    """The commands and their options."""
    return [command_line.generated()]


def keys(_: str, section: str) -> Iterator[str]:
    """The keys of a recipe for the whole archive, or for arrays."""
    from zarrlift.recipe.changes import ARRAY_OPTIONS, WHOLE_OPTIONS
    from zarrlift.recipe.options import flag_of
    from zarrlift.recipe.recipe import ArrayRecipe

    if "whole" in section.splitlines()[0]:
        for name, row in WHOLE_OPTIONS.items():
            yield entry(f"`{name}` (`--{name}`)", command_line.prose(row.help))
        return
    for name, row in ARRAY_OPTIONS.items():
        default, choices = getattr(ArrayRecipe(), name), ", ".join(f"`{each}`" for each in row.choices)
        text = f"{command_line.prose(row.help)}{f' One of {choices}.' if choices else ''}"
        shown = f" Default: `{default}`." if isinstance(default, str) else ""
        yield entry(f"`{name}` (`{flag_of(name, row)}`)", text + shown)


def tables(*_: str) -> Iterator[str]:
    """The tables of a job file."""
    from zarrlift.jobs.ledger.schema import SCHEMA

    columns = re.compile(r"^    ([a-z]\w+) ([A-Z]+)(?:.*?  -- (.+))?", re.MULTILINE)
    for name, text, body in re.findall(r"TABLE (\w+) \(  -- (.+)\n((?:    .+\n)+)", SCHEMA):
        yield f"### {name}\n\n{text}\n"
        for column, kind, what in columns.findall(body):
            yield entry(f"`{column}` {kind}", what)
        yield ""


def readers(*_: str) -> Iterator[str]:
    """Who reads what; features of a kind with the same answers share a row."""
    from zarrlift.core.chain.reader_table import features
    from zarrlift.core.codec_table import READERS

    rows: dict[tuple[str, ...], list[str]] = {}
    for feature, row in features().items():
        able = [name for name in READERS if name not in row.unable]
        most = f"all but {', '.join(row.unable)}" if row.unable else "all"
        read_by = most if len(row.unable) < len(able) else ", ".join(able) or "none"
        cells = (read_by, ", ".join(row.misread_by), row.register or "")
        rows.setdefault((feature.partition(" ")[0], *cells), []).append(f"`{feature}`")
    yield "| feature | read by | shown with other values by | registered in |"
    yield "| --- | --- | --- | --- |"
    for (_, *cells), names in rows.items():
        yield f"| {', '.join(names)} | {' | '.join(cells)} |"


def registry(*_: str) -> Iterator[str]:
    """What becomes of each registered extension; those of a kind with the same outcome share a row."""
    rows: dict[tuple[str, str], list[str]] = {}
    for point, name, outcome in extensions.outcomes():
        rows.setdefault((point, outcome), []).append(f"`{name}`")
    yield "| extension point | an array of Zarr v3 with it is | names |"
    yield "| --- | --- | --- |"
    for (point, outcome), names in rows.items():
        yield f"| {point} | {outcome} | {', '.join(names)} |"


PARTS: Final[Mapping[str, Callable[[str, str], Iterable[str]]]] = {
    "commands": commands,
    "extensions": registry,
    "fields": members,
    "keys": keys,
    "readers": readers,
    "tables": tables,
}

if __name__ == "__main__":
    for page in PAGES:
        path = FOLDER / page
        path.write_text(written(path.read_text()))

"""Write the parts of the reference that stand in the code: commands, keys, tables, the schema of JSON.

    python docs/reference/generate.py

A generated part of a page is between two comments, such as `<!-- write: readers -->`, and `<!-- end -->`.
What is outside is written by hand. A test compares pages and code.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import command_line
import extensions
import json_output

FOLDER: Final = Path(__file__).parent
PAGES: Final = ("command-line.md", "recipe.md", "readers.md")
SCHEMA: Final = FOLDER / "json-output.schema.json"
PART: Final = re.compile(r"(<!-- write: (.+?) -->\n).*?(<!-- end -->\n)", re.DOTALL)


def written(text: str) -> str:
    """The text of a page with all its generated parts."""
    return PART.sub(lambda match: f"{match[1]}\n{_part(match[2])}\n\n{match[3]}", text)


def _part(name: str) -> str:
    return "\n".join(PARTS[name]()).rstrip()


def schema() -> str:
    """The text of the schema of JSON."""
    return json.dumps(json_output.schema(), indent=2) + "\n"


def entry(name: str, text: str) -> str:
    """One line of a list, wrapped."""
    return textwrap.fill(
        f"- {name}: {text}",
        width=120,
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def commands() -> Iterable[str]:
    """The commands and their options."""
    return [command_line.generated()]


def whole_keys() -> Iterator[str]:
    """The keys of a recipe for the whole archive."""
    from zarrlift.recipe.changes import WHOLE_OPTIONS

    for name, row in WHOLE_OPTIONS.items():
        yield entry(f"`{name}` (`--{name}`)", command_line.prose(row.help))


def array_keys() -> Iterator[str]:
    """The keys of a recipe for arrays."""
    from zarrlift.recipe.changes import ARRAY_OPTIONS
    from zarrlift.recipe.options import flag_of
    from zarrlift.recipe.recipe import ArrayRecipe

    for name, row in ARRAY_OPTIONS.items():
        default, choices = getattr(ArrayRecipe(), name), ", ".join(f"`{each}`" for each in row.choices)
        text = f"{command_line.prose(row.help)}{f' One of {choices}.' if choices else ''}"
        shown = f" Default: `{default}`." if isinstance(default, str) else ""
        yield entry(f"`{name}` (`{flag_of(name, row)}`)", text + shown)


def readers() -> Iterator[str]:
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


def registry() -> Iterator[str]:
    """What becomes of each registered extension; those of a kind with the same outcome share a row."""
    rows: dict[tuple[str, str], list[str]] = {}
    for point, name, outcome in extensions.outcomes():
        rows.setdefault((point, outcome), []).append(f"`{name}`")
    yield "| extension point | an array of Zarr v3 with it is | names |"
    yield "| --- | --- | --- |"
    for (point, outcome), names in rows.items():
        yield f"| {point} | {outcome} | {', '.join(names)} |"


PARTS: Final[Mapping[str, Callable[[], Iterable[str]]]] = {
    "array keys": array_keys,
    "commands": commands,
    "extensions": registry,
    "readers": readers,
    "whole keys": whole_keys,
}

if __name__ == "__main__":
    for page in PAGES:
        path = FOLDER / page
        path.write_text(written(path.read_text()))
    SCHEMA.write_text(schema())

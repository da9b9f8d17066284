"""The commands and options of zarrlift for docs/reference/command-line.md, which generate.py writes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from textwrap import dedent
from typing import Final

from zarrlift.cli.commands import COMMANDS, usage_of
from zarrlift.cli.options import Argument, help_text, metavar_of, names_text, sections
from zarrlift.recipe.changes import ARRAY_OPTIONS, WHOLE_OPTIONS
from zarrlift.recipe.options import Option, flag_of

EXAMPLES: Final = {
    "inspect": "zarrlift inspect zarrlift-demo/cells.n5",
    "migrate": "zarrlift migrate zarrlift-demo/ocean.zarr ocean3.zarr --codecs zstd:3 --dry-run\n"
    "zarrlift migrate zarrlift-demo/ocean.zarr ocean3.zarr --codecs zstd:3",
    "resume": "zarrlift resume ocean3.zarr",
    "update": "zarrlift update ocean3.zarr --dry-run",
    "status": "zarrlift migrate zarrlift-demo/cells.n5 cells.zarr\n"
    "zarrlift status cells.zarr\n"
    "zarrlift status cells.zarr --verbose\n"
    "zarrlift status cells.zarr --html report.html --check",
    "verify": "zarrlift verify zarrlift-demo/ocean.zarr ocean3.zarr --full",
    "finish": "cp -r zarrlift-demo/ocean.zarr in-place.zarr\n"
    "zarrlift migrate in-place.zarr --in-place\n"
    "zarrlift verify in-place.zarr\n"
    "zarrlift finish in-place.zarr --yes",
    "undo": "zarrlift undo in-place.zarr --yes",
    "batch list": "zarrlift batch list zarrlift-demo --to 'v3/{relative}.zarr' > all.jsonl",
    "batch run": "zarrlift batch run all.jsonl --dry-run\n"
    "zarrlift batch run all.jsonl\n"
    "zarrlift status all.jsonl\n"
    "zarrlift verify all.jsonl --full\n"
    "zarrlift undo all.jsonl --yes",
    "demo": "zarrlift demo another-demo",
    "completion": "zarrlift completion bash > zarrlift.bash",
    "model show": "zarrlift model show zarrlift-demo/ocean.zarr --as v3 > model.json",
    "model schema": "zarrlift model schema zarrlift-demo/ocean.zarr --as v3 --open codecs > schema.json",
    "model validate": "zarrlift model validate ocean3.zarr schema.json",
    "model diff": "zarrlift model diff model.json ocean3.zarr --ignore codecs",
    "model create": "zarrlift model create model.json empty.zarr",
}
"""Commands to try, from top to bottom, in a folder where `zarrlift demo` has written zarrlift-demo."""


SHARED: Final = "Shared options"
KEYS: Final = "keys-for-the-whole-archive"
"""Where the page of recipes begins to list them."""
TARGET: Final = "TARGET"
"""The argument that the page explains once."""

Record = tuple[str, str]
"""Names and help of an argument or an option."""


def generated() -> str:
    """What follows the mark: each command with its own options, then those that several have, once."""
    by_command = {name: _sections(name) for name in COMMANDS}
    all_sections = list(by_command.values())
    records = [record for each in all_sections for records in each.values() for record in records]
    times = Counter(map(_option, records))
    shared = {option for option, number in times.items() if number > 1 and option[0].startswith("-")}
    plain = {"": list(dict.fromkeys(_flag(record) for record in records if _option(record) in shared))}
    parts = [part for name, found in by_command.items() for part in _command(name, found, shared, plain)]
    return "\n".join([*parts, f"## {SHARED}\n", *_shared(all_sections, shared)])


def _sections(name: str) -> dict[str, list[Record]]:
    """The arguments and options of a command by heading."""
    if COMMANDS[name].module is None:
        return {}
    return {
        heading: [_record(each, item) for each, item in items.items() if each != "help"]
        for heading, items in sections(COMMANDS[name]).items()
    }


def _record(name: str, item: Argument | Option) -> Record:
    """The names and the help of an argument or an option."""
    if isinstance(item, Argument):
        return item.metavar, item.help + (" Required." if item.number in (None, "+") else "")
    words = flag_of(name, item).replace("/", " ").split()
    return names_text(words, metavar_of(name, item)), help_text(name, item)


def _option(record: Record) -> Record:
    """What makes an option the same one in several commands: what it may be given for may differ."""
    names, text = record
    return names, re.sub(r" \(.*?\)", "", text)


def _shared(all_sections: list[dict[str, list[Record]]], shared: set[Record]) -> Iterator[str]:
    """Each shared option, with the longest of its texts, below the heading of the command that has most.

    Those that are keys of a recipe have their texts on its page.
    """
    keys = {flag_of(name, row) for name, row in ARRAY_OPTIONS.items()}
    keys |= {f"--{name}" for name in WHOLE_OPTIONS}
    texts: dict[Record, str] = {}
    for records in (records for each in all_sections for records in each.values()):
        for record in records:
            texts[_option(record)] = max(texts.get(_option(record), ""), record[1], key=len)
    by_heading: dict[str, list[Record]] = {}
    left = set(shared)
    for each in sorted(all_sections, key=len, reverse=True):
        for heading, records in each.items():
            options = [option for option in map(_option, records) if option in left]
            by_heading.setdefault(heading, []).extend((option[0], texts[option]) for option in options)
            left.difference_update(options)
    of_recipes = [record for records in by_heading.values() for record in records if _flag(record) in keys]
    yield f"{', '.join(f'`{names}`' for names, _ in of_recipes)} are [keys of a recipe](recipe.md#{KEYS}).\n"
    for heading, records in by_heading.items():
        if others := [record for record in records if record not in of_recipes]:
            yield f"**{heading}**\n"
            yield from _records(others)


def _flag(record: Record) -> str:
    """The name of an option that begins with two hyphens, the first one if there are several."""
    flag: str = re.findall("--[a-z-]+", record[0])[0]
    return flag


def _command(
    name: str, records_of: dict[str, list[Record]], shared: set[Record], plain: dict[str, list[str]]
) -> Iterator[str]:
    """The section of a command. `plain` has the shared options of those before it that list theirs."""
    yield f"## {name}\n"
    yield f"```text\n{usage_of(name)}\n```\n"
    text = COMMANDS[name].description
    yield from _description(text if COMMANDS[name].module else text.partition("\n\n")[0])
    if name in EXAMPLES:
        yield f"```bash\n{EXAMPLES[name]}\n```\n"
    for heading, records in records_of.items():
        own = [record for record in records if record[0] != TARGET and _option(record) not in shared]
        if own:
            yield f"**{heading}**\n"
            yield from _records(own)
    flags = [
        _flag(record) for records in records_of.values() for record in records if _option(record) in shared
    ]
    if flags:
        yield f"[{SHARED}](#{SHARED.lower().replace(' ', '-')}): {_flags(flags, name, plain)}\n"


def _flags(flags: list[str], name: str, plain: dict[str, list[str]]) -> str:
    """Options as text: all of them, or how they differ from those of an earlier command that is similar."""
    differences = {
        other: ([flag for flag in have if flag not in flags], [flag for flag in flags if flag not in have])
        for other, have in plain.items()
    }
    nearest = min(differences, key=lambda other: sum(map(len, differences[other])))
    missing, more = differences[nearest]
    if len(missing) + len(more) > 0.4 * len(flags):
        plain[name] = flags
        return ", ".join(f"`{flag}`" for flag in flags)
    text = f"those of [{nearest}](#{nearest.replace(' ', '-')})" if nearest else "all"
    for word, changed in ((" without", missing), (", with", more)):
        if changed:
            text += f"{word} {', '.join(f'`{flag}`' for flag in changed)}"
    return text


def _description(text: str) -> Iterator[str]:
    """The paragraphs of a help text; the lines of those that begin with spaces are kept."""
    for paragraph in text.split("\n\n"):
        if paragraph.startswith("  "):
            yield f"```text\n{dedent(paragraph)}\n```\n"
        else:
            yield prose(paragraph) + "\n"


def _records(records: list[Record]) -> Iterator[str]:
    """A definition list, which needs no wide screen."""
    for names, text in records:
        words, _, default = text.removesuffix("]").partition(" [default: ")
        items = names.split(", ") if ", --no-" in names else [names]
        yield f"{' / '.join(f'`{item}`' for item in items)}\n:   {prose(words)}" + (
            f" Default: `{default}`.\n" if default else "\n"
        )


def prose(text: str) -> str:
    """Text as Markdown, with options as code."""
    parts = re.split(r"(`[^`]*`)", text)
    parts[::2] = [
        re.sub(r"(?<![\w-])(--[a-z][a-z-]+)", r"`\1`", re.sub(r"([*_<>\[\]])", r"\\\1", part))
        for part in parts[::2]
    ]
    return "".join(parts)

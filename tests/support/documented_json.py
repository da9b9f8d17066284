"""docs/reference/json.md as a schema: which members a JSON document may have, and of which types."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "json.md"
PRIMITIVES = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}


class Documented:
    """The page: the members of each section, and the sections of the result of each command."""

    def __init__(self) -> None:
        self.members: dict[str, dict[str, str]] = {}
        self.results: dict[str, list[str]] = {}
        self.used: set[tuple[str, str]] = set()
        """(section, member) that a document had."""
        section = ""
        inherited: dict[str, str] = {}
        for line in PAGE.read_text().splitlines():
            if heading := re.fullmatch(r"##+ (.+)", line):
                section = heading[1].lower().replace(" ", "-")
            elif section == "metrics":
                continue
            elif other := re.match(r"An? [\w ]+ has all members of an? \[[\w ]+\]\(#([\w-]+)\)", line):
                inherited[section] = other[1]
            elif named := re.match(r"- `(\w+)` \*(.+?)\*(?::|$)", line):
                self.members.setdefault(section, {})[named[1]] = named[2]
            elif line.startswith("| `"):
                commands, results = line.split("|")[1:3]
                for command in re.findall(r"`([\w ]+)`", commands):
                    self.results[command] = re.findall(r"\(#([\w-]+)\)", results)
        for section, other in inherited.items():
            self.members[section] |= self.members[other]

    def problems(self, value: Any, form: str, place: str) -> Iterator[str]:
        """Where a value differs from its documented type."""
        if form.endswith(" or null"):
            if value is not None:
                yield from self.problems(value, form.removesuffix(" or null"), place)
        elif form.startswith("list of "):
            if not isinstance(value, list):
                yield f"{place} is {value!r}, not a {form}"
                return
            for item in value:
                yield from self.problems(item, form.removeprefix("list of "), f"{place}[]")
        elif form.startswith("map of "):
            if not isinstance(value, dict):
                yield f"{place} is {value!r}, not a {form}"
                return
            for item in value.values():
                yield from self.problems(item, form.removeprefix("map of "), f"{place}.*")
        elif (link := re.fullmatch(r"\[[\w ]+\]\(#([\w-]+)\)", form)) is not None:
            yield from self.object_problems(value, link[1], place)
        elif form in PRIMITIVES:
            if not isinstance(value, PRIMITIVES[form]) or (isinstance(value, bool) and form != "boolean"):
                yield f"{place} is {value!r}, not a {form}"
        elif form != "any":
            raise AssertionError(f"{PAGE.name}: {form!r} is not a type")

    def object_problems(self, value: Any, section: str, place: str) -> Iterator[str]:
        """Where an object differs from a section."""
        known = self.members[section]
        if not isinstance(value, dict):
            yield f"{place} is {value!r}, not an object"
            return
        for name, item in value.items():
            if name not in known:
                yield f"{place}.{name} is not documented"
                continue
            self.used.add((section, name))
            yield from self.problems(item, known[name].removesuffix(", optional"), f"{place}.{name}")
        for name, form in known.items():
            if name not in value and not form.endswith(", optional"):
                yield f"{place}.{name} is missing"

    def best(self, value: Any, sections: list[str], place: str) -> list[str]:
        """Where an object differs from that of the sections to which it is most similar."""
        before, tried = frozenset(self.used), []
        for section in sections:
            self.used = {*before}
            tried.append(([*self.object_problems(value, section, place)], self.used))
        found, self.used = min(tried, key=lambda one: len(one[0]))
        return found

    def unused(self) -> list[str]:
        """Documented members that no document had."""
        every = {(section, name) for section, members in self.members.items() for name in members}
        return sorted(f"{section}: {name}" for section, name in every - self.used)

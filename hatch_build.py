"""What pyproject.toml cannot state of zarrlift: zarrstack at the same version, the README, the manual."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

RELATIVE = re.compile(r"(!?)\[([^\]]*)\]\((?![a-z]+:|#)([^)\s]+)\)")
"""A link or an image in Markdown whose target is a file of the repository."""
REFERENCE = Path("docs", "reference", "command-line.md")
"""The commands and options, which docs/reference/generate.py writes from the code."""
BLOCK = re.compile(r"(?ms)^```.*?^```$|^(?!```)\S.*?(?=\n\n|\n*\Z)")
COMMANDS = "<!-- write: commands -->"
"""Before the first command of that page."""


def with_absolute_links(text: str, repository: str | None, version: str) -> str:
    """A page whose links lead to the files of this version in the repository, and its images to their bytes.

    Without the repository's address in pyproject.toml, the page stays as it is.
    """
    if repository is None:
        return text
    return RELATIVE.sub(
        lambda found: (
            f"{found[1]}[{found[2]}]({repository}/{'raw' if found[1] else 'blob'}/v{version}/{found[3]})"
        ),
        text,
    )


def manual(page: str, version: str, description: str) -> str:
    """The reference of the command line as a page for `man`, in roff with the macros of man(7)."""
    heads = (
        f'.TH ZARRLIFT 1 "" "zarrlift {version}" "User Commands"',
        ".SH NAME",
        rf"zarrlift \- {description}",
        ".SH SYNOPSIS",
        r"\fBzarrlift\fR [\fIOPTIONS\fR] \fICOMMAND\fR [\fIARGS\fR]...",
        ".SH DESCRIPTION",
    )
    text = "\n".join([*heads, *_roff(page)]) + "\n"
    return re.sub(r"(?m)^(\.S[HS] .*\n)\.PP\n", r"\1", text)


def _roff(page: str) -> Iterator[str]:
    """The blocks of a page after its title, without comments."""
    section = ".SH {}"
    for block in BLOCK.findall(page)[1:]:
        first, _, rest = block.partition("\n")
        if block == COMMANDS:
            section = ".SS zarrlift {}"
            yield ".SH COMMANDS"
        elif block.startswith("## "):
            name = block.removeprefix("## ")
            if name[0].isupper():  # not a command
                section = ".SH {}"
            yield section.format(name.upper() if section == ".SH {}" else name)
        elif block.startswith("```"):
            lines = [_plain(line) for line in block.splitlines()[1:-1]]
            yield from (".PP", ".RS 4", ".nf", *lines, ".fi", ".RE")
        elif rest.startswith(":   "):
            yield from (".TP", _words(first), _words(rest.removeprefix(":   ")))
        elif block.startswith("- "):
            for item in re.split(r"(?m)^- ", block)[1:]:
                yield from (r".IP \(bu 2", _words(item))
        elif not block.startswith("<!--"):
            yield from (".PP", _words(block))


def _words(text: str) -> str:
    """Markdown within a paragraph, in one line."""
    text = re.sub(r"\[([^\]]*)\]\([^)\s]+\)", r"\1", " ".join(text.split()))
    parts = re.split(r"(`[^`]*`|\*\*[^*]+\*\*|\*[^*]+\*)", text)
    for place, part in enumerate(parts):
        if place % 2 == 0:
            parts[place] = _plain(re.sub(r"\\([^\w\s])", r"\1", part))
        else:
            font = "I" if part[0] == "*" != part[1] else "B"
            parts[place] = rf"\f{font}{_plain(part.strip('*`'))}\fR"
    return "".join(parts)


def _plain(text: str) -> str:
    """Characters that roff takes for something else."""
    text = text.replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{text}" if text[:1] in (".", "'") else text


class Metadata(MetadataHookInterface):
    """Adds zarrstack to the dependencies that pyproject.toml lists for this hook, and the README."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Called when a clone is built or installed; an sdist has the result."""
        metadata["dependencies"] = [f"zarrstack=={metadata['version']}", *self.config["dependencies"]]
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        text = with_absolute_links(text, metadata.get("urls", {}).get("Repository"), metadata["version"])
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


class Manual(BuildHookInterface[Any]):
    """Adds the page of the manual to wheels."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called before a wheel is built, also an editable one."""
        del version  # "standard" or "editable"
        self.folder = tempfile.TemporaryDirectory()
        path = Path(self.folder.name, "zarrlift.1")
        core = self.metadata.core
        page = Path(self.root, REFERENCE).read_text(encoding="utf-8")
        path.write_text(manual(page, self.metadata.version, core.description), encoding="utf-8")
        build_data["shared_data"][str(path)] = "share/man/man1/zarrlift.1"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Called when the wheel is complete."""
        del version, build_data, artifact_path
        self.folder.cleanup()

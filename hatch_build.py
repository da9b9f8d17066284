"""What pyproject.toml cannot state of zarrlift: zarrstack at the same version, and the README."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

RELATIVE = re.compile(r"(!?)\[([^\]]*)\]\((?![a-z]+:|#)([^)\s]+)\)")
"""A link or an image in Markdown whose target is a file of the repository."""


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


class Metadata(MetadataHookInterface):
    """Adds zarrstack to the dependencies that pyproject.toml lists for this hook, and the README."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Called when a clone is built or installed; an sdist has the result."""
        metadata["dependencies"] = [f"zarrstack=={metadata['version']}", *self.config["dependencies"]]
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        text = with_absolute_links(text, metadata.get("urls", {}).get("Repository"), metadata["version"])
        metadata["readme"] = {"content-type": "text/markdown", "text": text}

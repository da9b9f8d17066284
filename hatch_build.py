"""zarrlift requires zarrstack at its own version, which stands in one file."""

from __future__ import annotations

from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class Dependencies(MetadataHookInterface):
    """Adds zarrstack to the dependencies that pyproject.toml lists for this hook."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Called when a clone is built or installed; an sdist has the result."""
        metadata["dependencies"] = [f"zarrstack=={metadata['version']}", *self.config["dependencies"]]

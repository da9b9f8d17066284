"""Refuses a folder of several archives as one archive, whose root group nobody wrote."""

from __future__ import annotations

from typing import Final

from zarrstack.core.errors import UsageError

from ..archive.nodes import Archive, GroupNode
from ..recipe.options import Format
from ..storage.base import Storage
from ..storage.local.storage import LocalStorage
from .units import quoted

_ROOTS: Final = frozenset({"zarr2", "zarr3"})
"""Formats in which a group has a document; in others, a plain folder is a group."""

_SEARCHED: Final = ("s3://", "gs://", "gcs://", "az://", "abfs://")
"""Stores that `zarrlift batch` searches; zip files and stores of one process are not."""


def refuse_several(
    archive: Archive, source: Storage, requested_format: Format | None, destination: str | None
) -> None:
    """Raise UsageError if a source, described as one archive, is a folder of archives.

    Not if the format was given, which merges them on purpose. `destination` is None in place.
    """
    if requested_format is not None or archive.format not in _ROOTS or not _is_implicit(archive.nodes[0]):
        return
    if not isinstance(source, LocalStorage) and not source.url.startswith(_SEARCHED):
        return
    children = [node for node in archive.nodes if node.path and "/" not in node.path]
    if len(children) < 2 or any(map(_is_implicit, children)):
        return
    from ..formats.search import is_tree

    if not is_tree(source.url, source):
        return
    to = "--in-place"
    if destination is not None:
        to = f"--to {quoted(destination.rstrip('/') + '/{relative}.zarr')}"
    raise UsageError(
        "a folder of several archives is not one archive",
        key=source.url,
        found=", ".join(node.path for node in children[:3]) + (", ..." if len(children) > 3 else ""),
        advice=f"To migrate each: zarrlift batch run {quoted(source.url)} {to}. "
        f"To merge them into one, with a root group that none of them has: --from {archive.format}.",
    )


def _is_implicit(node: object) -> bool:
    return isinstance(node, GroupNode) and node.implicit

"""SpatialData: points and shapes are Parquet files in groups that contain only their metadata.

Its tables are AnnData's, and its rasters OME-NGFF's with a version of their own (see `ome`): neither needs a
conversion. spatialdata 0.2.6 wrote, and 0.8.0 reads, `points/<name>/points.parquet/` (a folder) and
`shapes/<name>/shapes.parquet`, on either Zarr format.
"""

from __future__ import annotations

from typing import ClassVar, Final

from ..archive.nodes import GroupNode
from . import Convention, Recognised, View, finding

_KINDS: Final = frozenset({"ngff:points", "ngff:shapes"})


class SpatialData(Convention):
    """SpatialData: the Parquet files of points and shapes are copied along."""

    name: ClassVar[str] = "spatialdata"

    def recognise(self, view: View) -> Recognised | None:
        """Recognize groups of points and shapes, and the files in them."""
        elements = [
            node.path
            for node in view.archive.nodes
            if isinstance(node, GroupNode) and node.attributes.get("encoding-type") in _KINDS
        ]
        if not elements:
            return None
        if not view.storage.can_list:
            message = "the Parquet files of points and shapes cannot be found where files cannot be listed"
            advice = "Copy the archive to a place that lists, or use --conventions none to leave them out."
            refusals = (finding("refusal", path, message, advice=advice) for path in elements)
            summary = f"{len(elements)} groups of points or shapes"
            return Recognised(summary=summary, problems=tuple(refusals))
        files = {path: view.files(path) for path in elements}
        count = sum(map(len, files.values()))
        summary = f"{len(elements)} groups of points or shapes, {count} of their files"
        return Recognised(summary=summary, files=files)

"""Links that open a served image in viewers, for the server, its page and all reports.

Each was opened, or is what the source says: neuroglancer 2.41.2 reads its state as JSON after `#!`, and a URL
behind `zarr3://`; vizarr 0.3.0 takes `?source=`; Fiji takes the same URLs as neuroglancer (n5-universe 3.0.2,
`StorageFormat.java`; the menu is n5-viewer's); napari-ome-zarr 0.11.0 takes a URL.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final
from urllib.parse import quote

from ..jobs.units import command
from . import blocks as b

SERVED_AT: Final = "http://127.0.0.1:8383/"
"""The address of `zarrlift serve` without options."""
_NEUROGLANCER: Final = "https://neuroglancer-demo.appspot.com"
_VIZARR: Final = "https://hms-dbmi.github.io"
ORIGINS: Final = frozenset({_NEUROGLANCER, _VIZARR})
"""Origins of the pages of viewers, which `serve --open` allows to read."""


def viewer_links(image: str, address: str = SERVED_AT, shown_as: str = "zarr3") -> b.Links:
    """How viewers open the image at a path below an address, where an archive is served in a format."""
    place = address + quote(image)
    scheme = f"{shown_as}://{place}"
    state = {"layers": [{"name": image.rpartition("/")[2] or "image", "source": scheme}]}
    fragment = quote(json.dumps(state, separators=(",", ":")), safe="/:,")
    rows = [("neuroglancer", f"{_NEUROGLANCER}/#!{fragment}")]
    if shown_as != "n5":
        rows.append(("vizarr", f"{_VIZARR}/vizarr/?source={quote(place, safe='/:')}"))
    if shown_as == "zarr3":
        rows.append(("napari", f"napari --plugin napari-ome-zarr {place}"))
    rows.append(("Fiji (Plugins > BigDataViewer > HDF5/N5/Zarr/OME-NGFF Viewer)", scheme))
    return b.Links(rows)


def served_first(archive: str, image: str | None) -> Iterator[b.Block]:
    """The command that serves an archive, and the links to its first image from then on; none without one."""
    if image is not None:
        yield b.Section(title="Viewers")
        yield b.Advice("To look at its images:", command("serve", archive, "--open"))
        yield viewer_links(image)

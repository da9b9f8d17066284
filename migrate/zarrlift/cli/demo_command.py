"""`zarrlift demo`: small archives to play with, and what to try with them."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from . import options as o
from .session import DONE, Answer

if TYPE_CHECKING:
    from ..report import blocks as b

Folder: TypeAlias = Annotated[
    str, typer.Argument(help="Where to write them; must not exist yet.", metavar="[DIR]")
]


def demo(folder: Folder = "zarrlift-demo", *, output: o.Json) -> Answer:
    """Write small archives of Zarr v2, N5 and OME-NGFF, and say what to try with them."""
    from pathlib import Path

    from zarrstack.core.errors import UsageError

    from .demo_data import write_cells, write_ocean, write_spots

    root = Path(folder).expanduser()
    if root.exists():
        raise UsageError(f"it exists already: {root}", advice="Give another name: zarrlift demo DIR")
    ocean, cells, spots = root / "ocean.zarr", root / "cells.n5", root / "spots.zarr"
    write_ocean(ocean)
    write_cells(cells)
    write_spots(spots)
    written = {"zarr2": str(ocean), "n5": str(cells), "ome": str(spots)}
    return Answer(code=DONE, text=lambda: _blocks(root), data=lambda: {"written": written})


def _blocks(root: object) -> "Iterator[b.Block]":
    from zarrstack.core.units import safe

    from ..core.problems import command
    from ..report import blocks as b

    place = safe(str(root))
    archives = (
        f"{place}/ocean.zarr  a year of sea surface temperatures, Zarr v2",
        f"{place}/cells.n5    an image in two resolutions, N5",
        f"{place}/spots.zarr  the image in two colours, OME-NGFF 0.4 on Zarr v2",
    )
    yield b.Lines(archives, indent=0, tone="title")
    yield b.Section()
    yield b.Text("Try:")
    ocean, cells = f"{root}/ocean.zarr", f"{root}/cells.n5"
    result, image = f"{root}/ocean-v3.zarr", f"{root}/cells.zarr"
    commands = (
        ("inspect", ocean),
        ("migrate", ocean, result, "--dry-run"),
        ("migrate", ocean, result),
        ("verify", ocean, result, "--full"),
        ("migrate", cells, image, "--set", "multiscale=ome", "--codecs", "zstd:3"),
        ("migrate", ocean, "--in-place"),
        ("undo", ocean),
    )
    yield b.Lines([command(*words) for words in commands])

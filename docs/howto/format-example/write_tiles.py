"""Writes an archive as the microscope does, for tests and for trying."""

import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np


def write_tiles(folder: Path) -> dict[str, np.ndarray[Any, Any]]:
    """Two images in a group, one with a missing tile; returns their values by path."""
    numbers = np.arange(100 * 70, dtype="u2").reshape(100, 70)
    weights = np.linspace(0, 1, 60, dtype="f4").reshape(6, 10)
    document(folder, {"notes": {"title": "plate 7"}})
    image(folder / "well", numbers, (32, 32), "u16be", "zlib", {"exposure_ms": 40})
    image(folder / "weights", weights, (4, 4), "f32", "none", {})
    (folder / "well" / "tile_000_001.bin").unlink()
    numbers[:32, 32:64] = 7
    return {"well": numbers, "weights": weights}


def image(
    folder: Path,
    values: np.ndarray[Any, Any],
    tile: tuple[int, int],
    sample: str,
    packing: str,
    notes: dict[str, Any],
) -> None:
    """One image; tiles at its edges are filled up with the background."""
    members = {"size": values.shape, "tile": tile, "sample": sample, "packing": packing, "background": 7}
    document(folder, {**members, "notes": notes})
    height, width = tile
    for y in range(0, values.shape[0], height):
        for x in range(0, values.shape[1], width):
            part = values[y : y + height, x : x + width]
            stored = np.full(tile, 7, ">u2" if sample == "u16be" else "<f4")
            stored[: part.shape[0], : part.shape[1]] = part
            data = zlib.compress(stored.tobytes()) if packing == "zlib" else stored.tobytes()
            (folder / f"tile_{y // height:03}_{x // width:03}.bin").write_bytes(data)


def document(folder: Path, members: dict[str, Any]) -> None:
    """The document of an image, or of a folder of images."""
    folder.mkdir(exist_ok=True)
    (folder / "tiles.json").write_text(json.dumps({"made_by": "tilescope", **members}))

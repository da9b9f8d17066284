"""Migrate small archives of each format, and print a digest of each result's files and of its values."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

for compressor in ("deflate", "isal"):  # there are none for s390x, and their bytes are others than zlib's
    sys.modules[compressor] = None  # type: ignore[assignment]

import numpy as np
import zarr

import zarrlift

RECIPES = {
    "kept": zarrlift.ArrayRecipe(),
    "recoded": zarrlift.ArrayRecipe(codecs="zstd:3"),
    "big-endian": zarrlift.ArrayRecipe(endian="big"),
}


def digest_of_values(place: Path) -> str:
    """Of every array's values in little-endian order, as zarr-python reads them."""
    digest = hashlib.sha256()
    root = zarr.open(str(place), mode="r", zarr_format=3)
    nodes = [("", root)] if isinstance(root, zarr.Array) else sorted(root.members(max_depth=None))
    for path, node in nodes:
        if isinstance(node, zarr.Array):
            values = np.asarray(node[...])
            plain = values.dtype.kind in "OTV"
            content = (
                repr(values.tolist()).encode()
                if plain
                else values.astype(values.dtype.newbyteorder("<")).tobytes()
            )
            digest.update(repr((path, values.shape)).encode() + content)
    return digest.hexdigest()


def main(sources: list[str]) -> None:
    """Print one line for each archive and recipe."""
    for source in map(Path, sources):
        for name, recipe in RECIPES.items():
            with TemporaryDirectory() as folder:
                place = Path(folder, "out.zarr")
                outcome = zarrlift.migrate(source, place, recipe=zarrlift.Recipe(base=recipe), workers=1)
                is_equal = zarrlift.verify(source, place, full=True).ok
                files = hashlib.sha256()
                for file in sorted(place.rglob("*")):
                    if file.is_file():
                        files.update(f"{file.relative_to(place)}\0".encode() + file.read_bytes())
                facts = (outcome.state, is_equal, files.hexdigest(), digest_of_values(place))
            print(json.dumps([source.name, name, *facts]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

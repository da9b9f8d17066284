"""Whether a result holds the source's values: `python same.py SOURCE RESULT READER` says nothing if it does.

READER is tensorstore, or zarr-python where tensorstore does not read what was written (Zarr v2 whose zstd
says `checksum`, as numcodecs 0.15.2 writes it). The source is read by tensorstore. All this happens in a
process of its own, so that the one that measures stays small.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any


def same(source: Path, result: Path, *, reader: str = "tensorstore") -> None:
    """SystemExit unless both hold the same values."""
    done = subprocess.run(
        (sys.executable, __file__, source, result, reader), check=False, stderr=subprocess.PIPE
    )
    if done.returncode:
        raise SystemExit(f"{result} is not what was asked for:\n{done.stderr.decode(errors='replace')}")


def opened(path: Path, reader: str) -> Any:
    """An array to be sliced, N5 with its axes as others have them."""
    if reader == "zarr-python":
        import zarr

        return zarr.open_array(str(path), mode="r")
    import tensorstore as ts

    driver = "n5" if path.suffix == ".n5" else "zarr" if (path / ".zarray").exists() else "zarr3"
    array = ts.open({"driver": driver, "kvstore": {"driver": "file", "path": f"{path}/"}}, read=True).result()
    return array[ts.d[:].transpose[::-1]] if driver == "n5" else array


def main() -> None:
    """Compare bit by bit, 64 planes at a time."""
    import numpy as np

    old, new = opened(Path(sys.argv[1]), "tensorstore"), opened(Path(sys.argv[2]), sys.argv[3])
    if tuple(old.shape) != tuple(new.shape):
        raise SystemExit(f"its shape is {new.shape}, not {old.shape}")
    for start in range(0, old.shape[0], 64):
        part = slice(start, min(start + 64, old.shape[0]))
        expected, found = (np.asarray(array[part]) for array in (old, new))
        plain = expected.dtype.newbyteorder("=")
        if found.dtype.newbyteorder("=") != plain:
            raise SystemExit(f"its data type is {found.dtype}, not {expected.dtype}")
        if expected.astype(plain).tobytes() != found.astype(plain).tobytes():
            raise SystemExit(f"values differ in {part}")


if __name__ == "__main__":
    main()

"""Archives that many tests need: zarr-python writes each once in a process, and every test has a copy."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory


def written_once(write: Callable[[Path], None]) -> Callable[[Path], Path]:
    """Make a function that writes an archive at a path into one that puts the same files there, faster."""

    @functools.cache
    def files() -> dict[str, bytes]:
        with TemporaryDirectory() as folder:
            write(Path(folder))
            return tree(Path(folder))

    @functools.wraps(write)
    def copy(path: Path) -> Path:
        shutil.rmtree(path, ignore_errors=True)
        for name, content in files().items():
            file = path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        return path

    return copy


def tree(path: Path) -> dict[str, bytes]:
    """Every file below a path, by relative name."""
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}

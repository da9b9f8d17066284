"""Explains why a path is not an archive, and suggests what to open instead. Loaded on demand."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from zarrstack.core.errors import UsageError
from zarrstack.core.similar_names import nearest

_NOTHING: Final = "no such file or directory"
_CHECK: Final = "Check the path: "
_PACKAGES: Final = {
    **dict.fromkeys(("s3", "s3a"), ("s3", "obstore botocore")),
    **dict.fromkeys(("gs", "gcs", "az", "abfs", "abfss"), ("s3", "obstore")),
    **dict.fromkeys(("http", "https"), ("http", "aiohttp")),
}
"""URL scheme -> the extra and the packages in it that it requires."""


def missing(path: Path, text: str) -> UsageError:
    """The error for a missing path, with a similar existing name if any."""
    return UsageError(f"{_NOTHING}: {path}", advice=_similar_place(path, text))


def _similar_place(path: Path, text: str) -> str | None:
    if (url := re.match(r"([a-z][a-z0-9]+):/(?!/)(.+)", text)) is not None:
        return f"A URL has two slashes: {url[1]}://{url[2]}"
    folder = next((above for above in path.parents if above.is_dir()), None)
    if folder is None:
        return None
    name = path.relative_to(folder).parts[0]
    try:
        names = os.listdir(folder)
    except OSError:
        return None
    similar = nearest(name, names)
    return f"Did you mean {folder / similar}?" if similar else f"{_CHECK}{folder} has no {name!r}."


def no_package(scheme: str, error: str) -> UsageError:
    """The error for a URL whose package is not installed; `error` is fsspec's message."""
    message = f"{scheme}:// needs a package that is not installed"
    if scheme not in _PACKAGES:
        return UsageError(message, found=error, advice="Install it.")
    extra, packages = _PACKAGES[scheme]
    expected = f"{packages.replace(' ', ' and ')} (the extra {extra})"
    return UsageError(message, expected=expected, advice=f"Install it: pip install {packages}.")


def no_place(target: object) -> UsageError:
    """The error for an object that is neither path nor store, with advice for creating a store from it."""
    advice = None
    if hasattr(target, "store_path"):  # zarr-python's groups and arrays
        advice = "Give its store_path."
    elif isinstance(target, Mapping):
        advice = (
            "zarr.storage.FsspecStore.from_mapper makes a store of an fsspec mapping, MemoryStore of a dict."
        )
    elif hasattr(target, "protocol") and hasattr(target, "cat_file"):  # fsspec's AbstractFileSystem
        advice = "Give a URL with storage_options, or make a zarr.storage.FsspecStore of it and a path."
    found = type(target).__name__
    return UsageError("not a place", found=found, expected="a path, a URL or a zarr store", advice=advice)


def swapped_arguments(error: UsageError, destination: Any) -> UsageError | None:
    """The error of a missing source with a hint, if the destination exists; None for any other error."""
    problem = error.problem
    if not problem.message.startswith(_NOTHING) or not (problem.advice or _CHECK).startswith(_CHECK):
        return None
    if not isinstance(destination, str | os.PathLike) or not os.path.exists(os.path.expanduser(destination)):
        return None
    advice = f"The source comes first; {destination} is there. Are the two swapped?"
    return UsageError(problem.message, advice=advice)

"""Problems for unexpected errors, and for packages that cannot be imported."""

from __future__ import annotations

from traceback import walk_tb

from zarrstack.core.errors import Problem

from ..core.problems import refusal
from ..storage.local.files import system_refused
from ..storage.redact import redact_foreign


def unexpected_error(path: str, error: Exception) -> Problem:
    """The problem for an unexpected error in one array, which fails while the others continue.

    A job of ten thousand arrays that runs for weeks must not end at the first such error.
    """
    if isinstance(error, MemoryError):
        return refusal("memory", "not enough memory for a chunk", node=path)
    if isinstance(error, OSError):
        return system_refused(error).at(node=path)
    if (broken := broken_package(error)) is not None:
        return broken.at(node=path)
    return refusal(
        "unforeseen",
        "an error that zarrlift did not foresee",
        node=path,
        found=redact_foreign(f"{type(error).__name__}: {error}"),
        advice="Please report it, with the array's metadata.",
    )


_OURS = frozenset({"__main__", "zarrlift", "zarrstack"})


def broken_package(error: BaseException) -> Problem | None:
    """The problem for an error raised by the import of another package; None for any other error.

    Names the innermost package: numcodecs imports zfpy if that is installed, and fails if that fails.
    """
    names = [
        str(frame.f_globals.get("__name__", ""))
        for frame, _ in walk_tb(error.__traceback__)
        if frame.f_code.co_name == "<module>"
    ]
    packages = [name.partition(".")[0] for name in names]
    if not packages or packages[-1] in _OURS:
        return None
    via = [name for name in dict.fromkeys(packages) if name not in _OURS and name != packages[-1]]
    imported = f" (by {' and '.join(via)})" if via else ""
    return refusal(
        "package",
        f"the package {packages[-1]} cannot be imported{imported}",
        found=f"{type(error).__name__}: {error}",
        advice=f"Repair or remove it: pip install --force-reinstall {packages[-1]}, or pip uninstall it.",
    )

"""The suite of source formats, which authors of formats run too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zarrstack.base.lazy import loader

if TYPE_CHECKING:
    from .formats import FormatTests as FormatTests
    from .formats import Values as Values
    from .formats import installed as installed

_HOMES = {"FormatTests": "formats", "Values": "formats", "installed": "formats"}

__all__ = sorted(_HOMES)  # noqa: PLE0605 -- the table says it once


__getattr__ = loader(__name__, _HOMES, globals())


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})

"""Conventions of applications, one module or folder each.

The names exported here are the contract for conventions of your own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zarrstack.base.lazy import loader

if TYPE_CHECKING:
    from .base import Change as Change
    from .base import Convention as Convention
    from .base import Recognised as Recognised
    from .base import View as View

_HOMES = {
    "Change": "base",
    "Convention": "base",
    "Recognised": "base",
    "View": "base",
}

__all__ = sorted(_HOMES)  # noqa: PLE0605 -- the table says it once


__getattr__ = loader(__name__, _HOMES, globals())


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})

"""Readers of source formats, one module or folder each; they describe an archive as `Archive`.

The names exported here are the contract for formats of other packages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zarrstack.base.lazy import loader

if TYPE_CHECKING:
    from .contract import Array as Array
    from .contract import Directory as Directory
    from .contract import Files as Files
    from .contract import Group as Group
    from .contract import NodeKind as NodeKind
    from .contract import SourceFormat as SourceFormat
    from .contract import json_object as json_object
    from .registry import register as register

_HOMES = {
    "Array": "contract",
    "Directory": "contract",
    "Files": "contract",
    "Group": "contract",
    "NodeKind": "contract",
    "SourceFormat": "contract",
    "json_object": "contract",
    "register": "registry",
}

__all__ = sorted(_HOMES)  # noqa: PLE0605 -- the table says it once


__getattr__ = loader(__name__, _HOMES, globals())


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})

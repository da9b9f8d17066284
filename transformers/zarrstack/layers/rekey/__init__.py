"""The rekey layer and its rules: keys that differ above and below."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...base.lazy import loader

if TYPE_CHECKING:
    from .chunk_rules import Chunks as Chunks
    from .layer import Rekey as Rekey
    from .rules import Functions as Functions
    from .rules import Keys as Keys
    from .rules import Prefix as Prefix
    from .rules import Rule as Rule

_HOMES = {
    "Chunks": "chunk_rules",
    "Functions": "rules",
    "Keys": "rules",
    "Prefix": "rules",
    "Rekey": "layer",
    "Rule": "rules",
}

__all__ = sorted(_HOMES)  # noqa: PLE0605 - derived from the table


__getattr__ = loader(__name__, _HOMES, globals())


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})

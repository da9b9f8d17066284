"""The conformance suite of layers and stacks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..base.lazy import loader

if TYPE_CHECKING:
    from .comparison import compare as compare
    from .operations import KEYS as KEYS
    from .suite import PIPELINES as PIPELINES
    from .suite import LayerTests as LayerTests
    from .suite import Place as Place

_HOMES = {
    "KEYS": "operations",
    "PIPELINES": "suite",
    "LayerTests": "suite",
    "Place": "suite",
    "compare": "comparison",
}

__all__ = sorted(_HOMES)  # noqa: PLE0605 - derived from the table


__getattr__ = loader(__name__, _HOMES, globals())


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})

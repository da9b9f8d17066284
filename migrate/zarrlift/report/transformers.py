"""The output of the list of registered storage transformers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from ..jobs.units import count_text, safe
from . import blocks as b

if TYPE_CHECKING:
    from zarrstack.base.registry import Registered

_LAYERS: Final = (
    b.Column(title="name"),
    b.Column(title="package", spare=1),
    b.Column(title="what it does", wraps=True),
)


def layers(layers: Sequence[Registered]) -> Iterator[b.Block]:
    """The layers by name; an unusable one is shown with its error."""
    yield b.Table(
        columns=_LAYERS,
        items=layers,
        row=lambda layer: (safe(layer.name), safe(layer.package), safe(layer.problem or layer.summary)),
    )
    yield b.Section()
    yield b.Text(f"{count_text(len(layers), 'storage transformer')}.")

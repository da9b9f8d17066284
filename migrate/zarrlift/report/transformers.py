"""The output of the list of registered storage transformers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from ..jobs.units import count_text, safe
from .table import Column

if TYPE_CHECKING:
    from zarrstack.base.registry import Registered

    from .page import Page

_COLUMNS: Final = (
    Column(title="name"),
    Column(title="package", spare=1),
    Column(title="what it does", wraps=True),
)


def lines(layers: Sequence[Registered], page: Page) -> Iterator[str]:
    """The layers by name; an unusable one is shown with its error."""
    rows = ((safe(layer.name), safe(layer.package), safe(layer.problem or layer.summary)) for layer in layers)
    yield from page.table(_COLUMNS, rows)
    yield ""
    yield f"{count_text(len(layers), 'storage transformer')}."

"""How results are shown in notebooks: as HTML that `report` makes, a room above those that define them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_makers: list[Callable[[Any], str]] = []


def made_by(maker: Callable[[Any], str]) -> None:
    """Set the function that makes the HTML of a result; `zarrlift` does so when it is imported."""
    _makers[:] = [maker]


class NotebookResult:
    """Base class of results that notebooks show as HTML.

    Source: https://ipython.readthedocs.io/en/stable/config/integrating.html, "Rich display".
    """

    __slots__ = ()

    def _repr_html_(self) -> str:
        """The result as HTML without scripts or requests."""
        (maker,) = _makers
        return maker(self)

"""HTML for notebooks: how a stack is shown, in the style of all results; without scripts or requests."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .description import LayerOptions

STYLE: Final = files(__package__).joinpath("notebook.css").read_text(encoding="utf-8").strip()
"""The style sheet of a fragment, whose element has the class `zarrstack-html`.

The colours are JupyterLab's where its variables exist, otherwise light or dark as the editor or browser is.
"""
_LONGEST: Final = 400


def stack_html(store: object | None, layers: Sequence[LayerOptions]) -> str:
    """A store and the layers over it, from the array down, each folding out its options."""
    rows = "".join(
        f"<details><summary>{_code(type(layer).__name__)}{_few(layer)}</summary>{_all(layer)}</details>"
        for layer in layers
    )
    bottom = "" if store is None else f"<p>{_code(repr(store))}</p>"
    number = f"{len(layers)} layers over a store, from the array down"
    head = "a layer without a store" if store is None else number
    return (
        f'<style>{STYLE}</style><div class="zarrstack-html"><p><b>stack</b>: {head}</p>{rows}{bottom}</div>'
    )


def _few(layer: LayerOptions) -> str:
    names = ", ".join(layer.options)
    return f"<span>{escape(names[:_LONGEST])}</span>" if names else ""


def _all(layer: LayerOptions) -> str:
    options = layer.shown_options()
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{_code(text)}</dd>" for name, text in options.items())
    return f"<div><dl>{rows}</dl></div>" if rows else "<div>no options</div>"


def _code(text: str) -> str:
    return f"<code>{escape(text if len(text) <= _LONGEST else text[:_LONGEST] + '…')}</code>"

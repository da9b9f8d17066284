"""HTML for notebooks: the style of all results, and how a stack is shown.

The colours are JupyterLab's where its variables exist, otherwise light or dark as the editor or the
browser is; a fragment has no script and makes no request.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .description import LayerOptions

_LIGHT: Final = (
    "--text: #1b1f24; --ground: #fff; --line: #dfe3e7; --good: #116329; --bad: #a4161a; --warn: #7a4b00;"
)
_DARK: Final = (
    "--text: #e8eaed; --ground: #121416; --line: #3a4048; --good: #7fdc9a; --bad: #ff9c9c; --warn: #f0c674;"
)
_JUPYTER: Final = "--text: var(--jp-content-font-color1); --ground: var(--jp-layout-color0);"
STYLE: Final = f"""
.zarrstack-html {{ {_LIGHT} color: var(--text); background: var(--ground); padding: 6px 8px;
  font: 13px/1.45 -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
  overflow-wrap: anywhere; }}
@media (prefers-color-scheme: dark) {{ .zarrstack-html {{ {_DARK} }} }}
body.vscode-light .zarrstack-html, [data-jp-theme-light="true"] .zarrstack-html {{ {_LIGHT} }}
body.vscode-dark .zarrstack-html, [data-jp-theme-light="false"] .zarrstack-html {{ {_DARK} }}
body[data-jp-theme-light] .zarrstack-html {{ {_JUPYTER} }}
.zarrstack-html code, .zarrstack-html pre {{
  font: 12px/1.45 ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  color: inherit; background: none; padding: 0; margin: 0; white-space: pre-wrap; }}
.zarrstack-html p {{ margin: 0 0 4px; }}
.zarrstack-html summary {{ cursor: pointer; display: list-item; }}
.zarrstack-html summary span, .zarrstack-html code ~ span {{ opacity: .75; margin-left: .8em; }}
.zarrstack-html details > div {{ margin-left: 8px; padding-left: 10px; border-left: 1px solid var(--line); }}
.zarrstack-html dl {{ display: grid; grid-template-columns: max-content 1fr; gap: 0 12px; margin: 2px 0; }}
.zarrstack-html dl > * {{ float: none; width: auto; margin: 0; padding: 0; font-weight: 400; }}
.zarrstack-html dt {{ opacity: .75; }}
.zarrstack-html .name, .zarrstack-html .facts span, .zarrstack-html .pill {{ opacity: 1; margin-left: 0; }}
.zarrstack-html .state {{ opacity: 1; }}
.zarrstack-html .facts span {{ margin-right: .8em; }}
.zarrstack-html .depth-1 {{ margin-left: 1em; }}
.zarrstack-html .depth-2 {{ margin-left: 2em; }}
.zarrstack-html .depth-3 {{ margin-left: 3em; }}
.zarrstack-html .depth-4 {{ margin-left: 4em; }}
.zarrstack-html .depth-5 {{ margin-left: 5em; }}
.zarrstack-html .depth-6 {{ margin-left: 6em; }}
.zarrstack-html th, .zarrstack-html td {{ text-align: left; padding: 1px 10px 1px 0; font-weight: 400; }}
.zarrstack-html tr:not(:has(> :nth-child(6))) > * {{ min-width: 4.3em; vertical-align: top; }}
.zarrstack-html th {{ opacity: .75; }}
.zarrstack-html .good {{ color: var(--good); }}
.zarrstack-html .bad {{ color: var(--bad); }}
.zarrstack-html .warn {{ color: var(--warn); }}
.zarrstack-html .good, .zarrstack-html .bad, .zarrstack-html .warn {{ opacity: 1; }}
""".strip()
"""The style sheet of a fragment, whose element has the class `zarrstack-html`."""

_LONGEST: Final = 400


def stack_html(store: object | None, layers: Sequence[LayerOptions]) -> str:
    """A store and the layers over it, from the array down, each folding out its options."""
    rows = "".join(
        f"<details><summary>{_code(_name(layer))}{_few(layer)}</summary>{_all(layer)}</details>"
        for layer in layers
    )
    bottom = "" if store is None else f"<p>{_code(repr(store))}</p>"
    head = (
        "a layer without a store"
        if store is None
        else f"{len(layers)} layers over a store, from the array down"
    )
    return (
        f'<style>{STYLE}</style><div class="zarrstack-html"><p><b>stack</b>: {head}</p>{rows}{bottom}</div>'
    )


def _name(layer: LayerOptions) -> str:
    return type(layer).__name__


def _few(layer: LayerOptions) -> str:
    names = ", ".join(layer.options)
    return f"<span>{escape(names[:_LONGEST])}</span>" if names else ""


def _all(layer: LayerOptions) -> str:
    options = layer.shown_options()
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{_code(text)}</dd>" for name, text in options.items())
    return f"<div><dl>{rows}</dl></div>" if rows else "<div>no options</div>"


def _code(text: str) -> str:
    return f"<code>{escape(text if len(text) <= _LONGEST else text[:_LONGEST] + '…')}</code>"

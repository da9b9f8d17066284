"""What notebooks show of a stack: its layers, options without secrets, and names as text."""

from __future__ import annotations

from typing import ClassVar

from zarr.storage import MemoryStore

import zarrstack


class Sealed(zarrstack.StorageTransformer):
    name = "sealed"
    secrets: ClassVar[frozenset[str]] = frozenset({"key"})

    def __init__(self, store=None, *, key: str, label: str = "") -> None:
        super().__init__(store)


def test_a_stack_is_shown_from_the_array_down() -> None:
    html = zarrstack.stack(MemoryStore(), zarrstack.Retry(attempts=3), zarrstack.ReadOnly())._repr_html_()
    found = [html.index(text) for text in ("Retry", "attempts", "ReadOnly", "MemoryStore(")]
    assert found == sorted(found)
    assert "prefers-color-scheme: dark" in html
    assert "<script" not in html


def test_a_layer_without_a_store_can_be_shown() -> None:
    assert "a layer without a store" in zarrstack.Retry()._repr_html_()


def test_secrets_are_not_shown_and_options_are_text() -> None:
    html = Sealed(MemoryStore(), key="0123", label="<script>" + "x" * 1000)._repr_html_()
    assert "0123" not in html
    assert "&lt;script&gt;" in html
    assert "<script" not in html
    assert html.count("x" * 400) == 0

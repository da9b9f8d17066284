"""A layer sees the same operations whichever codec pipeline an array uses."""

from __future__ import annotations

from typing import ClassVar

import pytest
import zarr
from tests.support.example_layers import Count, CountSync, Mask
from zarr.storage import LocalStore, MemoryStore

import zarrstack
from zarrstack import stack
from zarrstack.testing import PIPELINES


def use(store, *, shards=None):
    """Create, write whole and in part, empty a chunk, read whole and in part."""
    array = zarr.create_array(
        store, name="a", shape=(8, 8), chunks=(2, 2), shards=shards, dtype="i4", fill_value=0
    )
    array[:] = 5
    array[3:5, 1:4] = 6
    array[:2, :2] = 0
    array = zarr.open_array(store, path="a", mode="r")
    assert int(array[:].sum()) == 5 * (64 - 6 - 4) + 6 * 6
    assert (array[3:5, 1:4] == 6).all()
    array = zarr.open_array(store, path="a")
    array.resize((4, 8))
    zarr.open_group(store, mode="a").create_group("b")
    del zarr.open_group(store, mode="a")["b"]


def counted(make, pipeline, **options):
    with zarr.config.set({"codec_pipeline.path": PIPELINES[pipeline]}):
        count = make()
        use(stack(MemoryStore(), count, Mask()), **options)
    return count.seen


@pytest.mark.parametrize("shards", [None, (4, 4)], ids=["chunks", "shards"])
@pytest.mark.parametrize("make", [Count, CountSync])
@pytest.mark.parametrize("pipeline", sorted(PIPELINES))
def test_a_layer_sees_equal_operations_under_every_pipeline(pipeline, make, shards):
    assert counted(make, pipeline, shards=shards) == counted(Count, "batched", shards=shards)


@pytest.mark.parametrize("pipeline", sorted(PIPELINES))
def test_a_layer_with_synchronous_methods_counts_what_one_without_does(pipeline):
    with zarr.config.set({"codec_pipeline.path": PIPELINES[pipeline]}):
        counts = Count(), CountSync()
        for count in counts:
            use(stack(MemoryStore(), count))
    assert counts[0].seen == counts[1].seen


@pytest.mark.parametrize("pipeline", sorted(PIPELINES))
def test_no_value_gets_past_a_layer_that_changes_values(pipeline, tmp_path):
    with zarr.config.set({"codec_pipeline.path": PIPELINES[pipeline]}):
        use(stack(LocalStore(tmp_path), Mask()))
    stored = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert stored
    assert not [data for data in stored if b"zarr_format" in data]


# What notebooks show of a stack: its layers, options without secrets, and names as text.


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

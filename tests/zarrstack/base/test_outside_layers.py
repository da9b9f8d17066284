"""Layers of other packages, of at most 50 lines in docs/transformers/example, pass the suite for authors."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from pathlib import Path

import pytest
import zarr
from tests.support.stores import buffer, read
from zarr.storage import MemoryStore

from zarrstack import Cache, stack
from zarrstack.errors import UsageError
from zarrstack.testing import LayerTests

FOLDER = Path(__file__).parents[3] / "docs" / "transformers" / "example"


def example(name):
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


quota, dedup, encrypt = map(example, ("zarrstack_quota", "zarrstack_dedup", "zarrstack_encrypt"))


@pytest.fixture(autouse=True)
def secret(monkeypatch):
    monkeypatch.setenv("ZARR_KEY", 32 * "5a")


class Examples(LayerTests):
    """The suite, over fewer examples than authors have."""

    examples = steps = 5


@pytest.mark.slow
class TestQuota(Examples):
    def layers(self):
        return [quota.Quota(most=10**6)]


@pytest.mark.slow
class TestDedup(Examples):
    def layers(self):
        return [dedup.Dedup()]


@pytest.mark.slow
class TestEncrypt(Examples):
    def layers(self):
        return [encrypt.Encrypt()]


class TestAllThree(Examples):
    def layers(self):
        return [quota.Quota(most=10**6), Cache(), dedup.Dedup(), encrypt.Encrypt()]


@pytest.mark.parametrize("name", ["quota", "dedup", "encrypt"])
def test_a_layer_takes_at_most_50_lines(name):
    assert len((FOLDER / f"zarrstack_{name}.py").read_text(encoding="utf-8").splitlines()) <= 50


def test_a_quota_is_kept():
    store = stack(MemoryStore({"a": buffer(bytes(60))}), quota.Quota(most=100))
    asyncio.run(store.set("b", buffer(bytes(40))))
    with pytest.raises(UsageError, match="100 bytes"):
        asyncio.run(store.set("c", buffer(b"1")))
    asyncio.run(store.set("a", buffer(bytes(50))))
    asyncio.run(store.delete("b"))
    asyncio.run(store.set("c", buffer(bytes(50))))


def test_equal_values_are_stored_once():
    objects = {}
    array = zarr.create_array(
        stack(MemoryStore(objects), dedup.Dedup()), shape=(100,), chunks=(1,), dtype="i4"
    )
    array[:] = 7
    assert len([key for key in objects if key.startswith(dedup.VALUES)]) == 2
    assert (array[:] == 7).all()
    assert asyncio.run(read(array.store, "c/1")) == asyncio.run(read(array.store, "c/2"))

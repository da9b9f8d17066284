"""The conformance suite fails for layers that are wrong: mistakes that are easily made."""

from __future__ import annotations

import asyncio
import tempfile

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, run_state_machine_as_test
from tests.support.example_layers import Mask
from zarr.buffer import cpu
from zarr.storage import LocalStore, MemoryStore, WrapperStore

from zarrstack import stack
from zarrstack.testing import LayerTests, Place, compare
from zarrstack.testing.suite import StoreMachine, refused_as_read_only


class DropsRange(Mask):
    async def get(self, key, prototype, byte_range=None):
        return await super().get(key, prototype)


class KeepsFirst(Mask):
    """A cache that no write invalidates."""

    def __init__(self, store=None):
        super().__init__(store)
        self.kept = {}

    async def get(self, key, prototype, byte_range=None):
        if (key, byte_range) not in self.kept:
            self.kept[key, byte_range] = await super().get(key, prototype, byte_range)
        return self.kept[key, byte_range]


class DeletesTooMuch(Mask):
    async def delete_dir(self, prefix):
        for key in [key async for key in self.list_prefix(prefix)]:  # "a" takes "ab" along
            await self.delete(key)


class ListsWhatIsGone(Mask):
    async def delete(self, key):
        await self.set(key, cpu.Buffer.from_bytes(b""))


def forwards(method):
    """A layer that inherits zarr's forward of one method."""
    return type(f"Forwards_{method}", (Mask,), {method: vars(WrapperStore)[method]})


FORWARDED = ("_get_many", "_set_many", "get_partial_values", "set_if_not_exists")
WRONG = [DropsRange, KeepsFirst, DeletesTooMuch, ListsWhatIsGone, *map(forwards, FORWARDED)]


@pytest.mark.parametrize("layer", WRONG, ids=lambda layer: layer.__name__)
@pytest.mark.slow(one_in=3)
def test_a_wrong_layer_is_found(layer):
    # The same examples every time: whether a mistake is found must not depend on luck.
    @settings(
        max_examples=500,
        derandomize=True,
        phases=[Phase.generate],
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def check(data):
        compare(stack(MemoryStore(), layer()), data)

    # A layer may also be found out by an error of its own, where a dictionary gives an answer.
    with pytest.raises((AssertionError, FileNotFoundError)):
        check()


class LeavesValues(Mask):
    """Stores each value twice, once under a name that it does not list."""

    async def set(self, key, value):
        await self._store.set(f".copies/{key}", value)
        await super().set(key, value)

    async def list_prefix(self, prefix):
        async for key in self._store.list_prefix(prefix):
            if not key.startswith(".copies/"):
                yield key


def test_a_layer_that_leaves_something_below_after_clear_is_found(tmp_path):
    class Tests(LayerTests):
        def layers(self):
            return [LeavesValues()]

    with pytest.raises(AssertionError, match="copies"):
        Tests().test_clear_leaves_nothing_below(Place(tmp_path))


@pytest.mark.parametrize("keys", [("0", "0/0", "1"), ("0/0", "0", "1"), ("0/0/0", "0/0", "1")], ids="-".join)
@pytest.mark.parametrize(("bottom", "written"), [(LocalStore, 2), (MemoryStore, 3)])
def test_keys_that_no_file_system_holds_together_are_not_written_over_files(tmp_path, keys, bottom, written):
    models = set()

    class Machine(StoreMachine):
        @initialize()
        def nested(self):
            for key in keys:
                self.set(key, b"value")
            models.add(tuple(self.model))

    def machine():
        folder = tempfile.mkdtemp(dir=tmp_path)
        return Machine(stack(LocalStore(folder) if bottom is LocalStore else MemoryStore(), Mask()))

    once = settings(max_examples=1, stateful_step_count=2, derandomize=True)
    run_state_machine_as_test(machine, settings=once)
    assert models == {keys if written == 3 else (keys[0], keys[2])}


class OwnWords(Mask):
    """Refuses changes of a read-only store in words of its own."""

    def _check(self):
        if self.read_only:
            raise ValueError("no, thanks")

    async def set(self, key, value):
        self._check()
        await super().set(key, value)


class ForgetsToCheck(Mask):
    async def set(self, key, value):
        pass


@pytest.mark.parametrize(
    ("layer", "found"), [(OwnWords, "found 'no, thanks'"), (ForgetsToCheck, "a read-only store was changed")]
)
def test_a_demanded_message_says_where_it_comes_from(layer, found):
    store = stack(MemoryStore(read_only=True), layer())
    with pytest.raises(pytest.fail.Exception) as failure, refused_as_read_only():
        asyncio.run(store.set("a", cpu.Buffer.from_bytes(b"")))
    assert found in str(failure.value)
    assert "zarr raises it in Store._check_writable" in str(failure.value)
    assert "call self._check_writable() first" in str(failure.value)

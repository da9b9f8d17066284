"""The conformance suite fails for layers that are wrong: mistakes that are easily made."""

from __future__ import annotations

import tempfile

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, run_state_machine_as_test
from tests.support.example_layers import Mask
from zarr.core.buffer import cpu
from zarr.storage import LocalStore, MemoryStore, WrapperStore

from zarrstack import stack
from zarrstack.testing import compare
from zarrstack.testing.zarr_tests import StoreMachine


class DropsRange(Mask):
    same_keys = same_sizes = True

    async def get(self, key, prototype, byte_range=None):
        return await super().get(key, prototype)


class KeepsFirst(Mask):
    """A cache that no write invalidates."""

    same_keys = same_sizes = True

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

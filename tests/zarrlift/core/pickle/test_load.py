"""Pickles of plain data are read as pickle reads them; whatever else they ask for is refused by name."""

from __future__ import annotations

import io
import pickle
import pickletools
import struct
from collections import OrderedDict
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tests.support.chances import memory_below

from zarrlift.core.pickle.load import REFUSED, STOP, TABLE, read_array
from zarrstack.core.errors import ChunkError, UnsupportedError, ZarrstackError

PROTOCOLS = range(6)
PLENTY = 1 << 30


class ZarrReference(dict):
    """As hdmf-zarr has it; pickles name it by its module there."""


class AsHdmfZarr(pickle._Pickler):
    """Writes our reference by the name that hdmf-zarr's has."""

    def save_global(self, obj: Any, name: str | None = None) -> None:
        if obj is not ZarrReference:
            super().save_global(obj, name)
        elif self.proto >= 4:
            self.save("hdmf_zarr.utils")
            self.save("ZarrReference")
            self.write(pickle.STACK_GLOBAL)
            self.memoize(obj)
        else:
            self.write(pickle.GLOBAL + b"hdmf_zarr.utils\nZarrReference\n")
            self.memoize(obj)


AsHdmfZarr.dispatch = {**pickle._Pickler.dispatch, type: AsHdmfZarr.save_global}


def dumped(value: Any, protocol: int) -> bytes:
    out = io.BytesIO()
    AsHdmfZarr(out, protocol).dump(value)
    return out.getvalue()


def objects(*items: Any) -> np.ndarray:
    array = np.empty(len(items), dtype=object)
    for index, item in enumerate(items):
        array[index] = item
    return array


def reference(path: str) -> ZarrReference:
    return ZarrReference(source=".", path=path, object_id="a-b", source_object_id=None)


def read(payload: bytes, items: int, memory: int = PLENTY) -> np.ndarray:
    return read_array(payload, items=items, memory=memory)


# ----- what is read


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_references_come_back_as_dictionaries(protocol: int) -> None:
    stored = objects(reference("/a"), reference("/b/ナノ"), dict(reference("/c")))
    found = read(dumped(stored, protocol), 3)
    assert found.tolist() == [dict(one) for one in stored]
    assert {type(item) for item in found} == {dict}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_structs_with_references_come_back_with_their_fields(protocol: int) -> None:
    dtype = [("idx_start", "<i4"), ("count", "<i4"), ("timeseries", "O")]
    stored = np.array([(1, 2, reference("/a")), (3, -4, reference("/b"))], dtype=dtype)
    found = read(dumped(stored, protocol), 2)
    assert found.dtype == stored.dtype
    assert found.tolist() == stored.tolist()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_rows_of_structs_and_of_tuples_come_back_as_tuples(protocol: int) -> None:
    rows = np.array([(1, "ab"), (2, "ナ")], dtype=[("id", ">i4"), ("label", "<U5")])
    stored = objects(rows[0], rows[1], (np.int16(5), "x", np.float32(0.1), True, None, b"y", np.str_("z")))
    found = read(dumped(stored, protocol), 3)
    assert found[:2].tolist() == rows.tolist()
    assert found[2] == (5, "x", float(np.float32(0.1)), True, None, b"y", "z")


plain = st.one_of(
    st.text(), st.binary(), st.booleans(), st.none(), st.integers(-(2**62), 2**62), st.floats(allow_nan=False)
)


@given(st.lists(st.one_of(plain, st.tuples(plain, plain), st.dictionaries(st.text(), plain)), max_size=20))
def test_objects_are_what_pickle_makes_of_them(items: list[Any]) -> None:
    for protocol in PROTOCOLS:
        assert read(pickle.dumps(objects(*items), protocol), len(items)).tolist() == items


fixed = hnp.scalar_dtypes().filter(lambda dtype: dtype.kind in "biufcSU" and dtype.char not in "gG")


@given(fixed.flatmap(lambda dtype: hnp.arrays(dtype, hnp.array_shapes(max_side=4))), st.booleans())
def test_arrays_of_numbers_and_text_keep_their_bits(stored: np.ndarray, fortran: bool) -> None:
    stored = np.asfortranarray(stored) if fortran else stored
    for protocol in PROTOCOLS:
        found = read(pickle.dumps(stored, protocol), stored.size)
        assert found.shape == stored.shape
        assert found.astype(stored.dtype).tobytes() == stored.tobytes()


# ----- what is refused


class Calls:
    """Pickles to a call of anything."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.made = (function, arguments)

    def __reduce__(self) -> Any:
        return self.made


HOSTILE = {
    "posix.system": Calls(__import__("os").system, "touch tripwire"),
    "builtins.eval": Calls(eval, "1"),
    "builtins.getattr": Calls(getattr, "a", "b"),
    "subprocess.Popen": Calls(__import__("subprocess").Popen, "true"),
    "collections.OrderedDict": OrderedDict(a=1),
    "numpy._core.multiarray.frombuffer": Calls(np.frombuffer, b"1234"),
    "numpy.load": Calls(np.load, "x.npy"),
    "builtins.set": {1, 2, 3},
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_any_other_name_is_refused_before_anything_is_made_of_it(name: str, protocol: int) -> None:
    for stored in (objects(HOSTILE[name]), objects((reference("/a"), HOSTILE[name])), HOSTILE[name]):
        with pytest.raises(UnsupportedError) as caught:
            read(dumped(stored, protocol), 1)
        found = caught.value.problem.found
        last = name.rpartition(".")[2]
        assert last in found or found.strip('"') in REFUSED.values()  # sets have an opcode of their own


KNOWN = {
    "dict called": b"cbuiltins\ndict\n(]tR.",
    "an array of no class": b"cnumpy.core.multiarray\n_reconstruct\n(cbuiltins\ndict\n(I0\ntC\x01btR.",
    "encode as a name of any codec": b"c_codecs\nencode\n(VZQ==\nVbase64\ntR.",
    "a dtype of objects with a hook": b"cnumpy\ndtype\n(VO8\nI00\nI01\ntR(I3\nV|\n((I1\ntNNI8\nI8\nI0\ntb.",
    "a dtype by a Python name": b"cnumpy\ndtype\n(Vbuiltins.object\nI00\nI01\ntR.",
    "an object with a state": b"chdmf_zarr.utils\nZarrReference\n)\x81}VX\nVY\nsb.",
    "a call of a reference": b"chdmf_zarr.utils\nZarrReference\n)R.",
    "a new array without its function": b"cnumpy\nndarray\n)\x81.",
    "a state for a function": b"\x80\x02cnumpy.core.multiarray\nscalar\n}X\x01\x00\x00\x00aNsb.",
    "a state for a class": b"\x80\x02cnumpy\ndtype\nN}X\x01\x00\x00\x00aNs\x86b.",
    "a key that is nested too deep to be hashed": b"\x80\x02})" + b"\x85" * 200_000 + b"Ns.",
    "a key that takes forever to be hashed": b"\x80\x02)q\x00" + b"h\x00h\x00\x86q\x00" * 60 + b"}h\x00Ns.",
}


@pytest.mark.parametrize("name", KNOWN)
def test_known_names_serve_for_nothing_but_their_purpose(name: str) -> None:
    with pytest.raises(UnsupportedError, match="contains more"):
        read(KNOWN[name], 1)


def test_every_opcode_is_done_or_refused_by_its_name() -> None:
    """The list is that of Python's own disassembler."""
    known = {ord(opcode.code): opcode.name for opcode in pickletools.opcodes}
    assert (TABLE.keys() | {STOP}) | REFUSED.keys() == known.keys()
    assert not (TABLE.keys() | {STOP}) & REFUSED.keys()
    assert {code: known[code] for code in REFUSED} == dict(REFUSED)


# ----- what is damaged, or too much


def test_what_is_no_array_of_so_many_items_is_told() -> None:
    with pytest.raises(ChunkError, match="something else"):
        read(pickle.dumps([1]), 1)
    with pytest.raises(ChunkError, match="wrong number of items"):
        read(pickle.dumps(objects(1, 2)), 3)
    with pytest.raises(ChunkError, match="damaged"):
        read(pickle.dumps(objects(1)) + b"x", 1)


def test_items_are_plain() -> None:
    for item in ([1], {"a": [1]}, (1, (2,)), np.zeros(2), objects(1)):
        with pytest.raises(UnsupportedError, match="contains more"):
            read(pickle.dumps(objects(item)), 1)


def test_an_array_does_not_hold_itself() -> None:
    itself = objects(None)
    itself[0] = itself
    with pytest.raises(ZarrstackError):
        read(pickle.dumps(itself), 1)


SAMPLES = tuple(
    dumped(stored, protocol)
    for protocol in (0, 2, 5)
    for stored in (
        objects(reference("/a"), (1, "b", 2.5)),
        np.array([(1, reference("/a"))], dtype=[("n", "<i4"), ("to", "O")]),
        np.arange(6, dtype="<f4").reshape(2, 3),
    )
)


@given(st.sampled_from(SAMPLES), st.data())
def test_damage_is_an_error_or_another_plain_array(payload: bytes, data: st.DataObject) -> None:
    damaged = bytearray(payload[: data.draw(st.integers(0, len(payload)))])
    for place in data.draw(st.lists(st.integers(0, max(len(damaged) - 1, 0)), max_size=4)):
        if damaged:
            damaged[place] = data.draw(st.integers(0, 255))
    with suppress(ChunkError, UnsupportedError):
        assert read(bytes(damaged), 2, memory=1 << 20).size == 2


@given(st.binary(max_size=60))
def test_any_bytes_are_an_error_or_an_array(payload: bytes) -> None:
    with suppress(ChunkError, UnsupportedError):
        assert read(payload, 1, memory=1 << 20).size == 1


def test_memory_is_counted_before_it_is_taken() -> None:
    """A kilobyte that claims a gigabyte: many lists, a wide struct over one row, a long array."""
    lists = b"(" + b"]" * 100_000 + b"t."
    wide = np.array([("a", 1)], dtype=[("text", "<U16384"), ("n", "O")])
    for payload in (lists, pickle.dumps(wide)):
        with pytest.raises(ChunkError, match="more than a chunk may hold"):
            read(payload, 1, memory=60_000)
    shape = (
        b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntC\x01btR"
        b"(I1\n(I%d\ntcnumpy\ndtype\n(VO8\nI00\nI01\ntRI00\n]tb."
    )
    with pytest.raises(ChunkError, match="more items than"):
        read(shape % 10**15, 10**15)


def test_an_index_of_the_memo_costs_no_memory() -> None:
    """Python's unpickler allocates a memo up to the index: 2 GB for these nine bytes."""
    with memory_below(1 << 20), pytest.raises(ChunkError, match="something else"):
        read(bytes.fromhex("80024e72ffffff072e"), 1)


def test_depth_costs_no_stack() -> None:
    deep = b"]" * 200_000 + b"a" * 199_999 + b"."
    with pytest.raises(ChunkError, match="something else"):
        read(deep, 1)
    nested = b")" + b"\x85" * 200_000 + b"."
    with pytest.raises(ChunkError, match="something else"):
        read(nested, 1)


def test_shared_values_do_not_multiply() -> None:
    """Thirty tuples of twice the one before would be a billion values, were they walked."""
    payload = b"\x80\x02]" + b"q\x00h\x00\x86" * 30 + b"."
    with pytest.raises(ChunkError, match="something else"):
        read(payload, 1)


def test_a_number_of_a_million_digits_is_not_worked_out() -> None:
    with pytest.raises(ChunkError, match="damaged"):
        read(b"I" + b"9" * 1_000_000 + b"\n.", 1)


def test_lengths_that_lie_are_told() -> None:
    for payload in (b"X" + struct.pack("<I", 2**31) + b"a.", b"\x8e" + struct.pack("<Q", 2**62) + b"a."):
        with pytest.raises(ChunkError, match="damaged"):
            read(payload, 1)

"""Data types: their names, numpy's view of them, and that the readers at this end know them."""

from __future__ import annotations

import json
import pickle
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.documents import of_three, read_by_tensorstore, read_by_zarr

from zarrlift.core.data_types.compare import same_bits
from zarrlift.core.data_types.numpy_types import CORE, MAX_DEPTH
from zarrlift.core.data_types.v3 import DataType, fill_to_json, zero_fill
from zarrstack.core.errors import MetadataError, UnsupportedError


def named(name, **configuration):
    return {"name": name, "configuration": configuration}


POINT = named("structured", fields=[["x", "float32"], ["y", "int16"]])
NESTED = named(
    "structured", fields=[["id", "uint8"], ["at", POINT], ["tag", named("raw_bytes", length_bytes=3)]]
)

# data type -> what numpy calls it, and whether tensorstore 0.1.86 reads it
KNOWN = {
    **{name: (np.dtype(name), True) for name in CORE},
    "U": (named("fixed_length_utf32", length_bytes=12), np.dtype("U3"), False),
    "S": (named("null_terminated_bytes", length_bytes=5), np.dtype("S5"), False),
    "V": (named("raw_bytes", length_bytes=7), np.dtype("V7"), True),
    "M8[ns]": (named("numpy.datetime64", unit="ns", scale_factor=1), np.dtype("M8[ns]"), False),
    "M8[10us]": (named("numpy.datetime64", unit="us", scale_factor=10), np.dtype("M8[10us]"), False),
    "M8": (named("numpy.datetime64", unit="generic", scale_factor=1), np.dtype("M8"), False),
    "m8[W]": (named("numpy.timedelta64", unit="W", scale_factor=1), np.dtype("m8[W]"), False),
    "m8": (named("numpy.timedelta64", unit="generic", scale_factor=1), np.dtype("m8"), False),
    "struct of numbers": (POINT, np.dtype([("x", "f4"), ("y", "i2")]), False),  # opens one field at a time
    "nested struct": (
        NESTED,
        np.dtype([("id", "u1"), ("at", [("x", "f4"), ("y", "i2")]), ("tag", "V3")]),
        False,
    ),
    "string": ("string", np.dtype(object), False),
    "bytes": ("bytes", np.dtype(object), False),
}
CASES = [pytest.param(*(row if len(row) == 3 else (name, *row)), id=name) for name, row in KNOWN.items()]


@pytest.mark.parametrize(("data", "dtype", "tensorstore_reads"), CASES)
class TestKnownTypes:
    def test_json_survives_reading_and_writing(self, data, dtype, tensorstore_reads):
        data_type = DataType.from_json(data)
        assert data_type.to_json() == data
        assert DataType.from_json(json.loads(json.dumps(data_type.to_json()))) == data_type
        assert pickle.loads(pickle.dumps(data_type)) == data_type
        assert hash(pickle.loads(pickle.dumps(data_type))) == hash(data_type)

    def test_numpy_sees_the_native_type(self, data, dtype, tensorstore_reads):
        data_type = DataType.from_json(data)
        assert data_type.numpy == dtype
        assert data_type.itemsize == (None if dtype.hasobject else dtype.itemsize)

    def test_numpy_type_of_any_byte_order_gives_it_back(self, data, dtype, tensorstore_reads):
        if not dtype.hasobject:
            for order in "<>":
                assert DataType.from_numpy(dtype.newbyteorder(order)).to_json() == data

    @pytest.mark.filterwarnings("ignore:The 'generic' unit:DeprecationWarning")  # zarr 3.4.2 with numpy 2.5
    def test_zarr_python_reads_it_with_its_zero(self, data, dtype, tensorstore_reads):
        data_type = DataType.from_json(data)
        zero = zero_fill(data_type)
        seen = read_by_zarr(of_three(data, fill_to_json(zero, data_type)))
        assert seen.shape == (3,)
        assert dtype.hasobject or seen.dtype == dtype
        assert same_bits(str(seen[0]) if data == "string" else seen[0], zero)

    def test_tensorstore_reads_it_or_says_so(self, data, dtype, tensorstore_reads):
        data_type = DataType.from_json(data)
        content = of_three(data, fill_to_json(zero_fill(data_type), data_type))
        if tensorstore_reads:
            # raw_bytes come as one more axis of single bytes.
            assert read_by_tensorstore(content).shape in {(3,), (3, data_type.itemsize)}
        else:
            with pytest.raises(ValueError, match=r"data_type|field"):
                read_by_tensorstore(content)


def test_tensorstore_opens_one_field_of_a_flat_struct():
    content = of_three(POINT, "AADAPwcA")
    assert read_by_tensorstore(content, field="x").tolist() == [1.5] * 3
    assert read_by_tensorstore(content, field="y").tolist() == [7] * 3


def test_the_registered_struct_is_read_and_kept():
    data = named(
        "struct", fields=[{"name": "x", "data_type": "float32"}, {"name": "y", "data_type": "int16"}]
    )
    data_type = DataType.from_json(data)
    assert data_type.numpy == DataType.from_json(POINT).numpy
    assert data_type.to_json() == data
    assert data_type != DataType.from_json(POINT)


def test_a_struct_tells_its_fields():
    assert [(name, str(inner)) for name, inner in DataType.from_json(NESTED).fields] == [
        ("id", "uint8"),
        ("at", "structured{x: float32, y: int16}"),
        ("tag", "raw_bytes[3]"),
    ]
    assert DataType("int8").fields == ()


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("int8", "int8"),
        (KNOWN["U"][0], "fixed_length_utf32[12]"),
        (KNOWN["M8[ns]"][0], "numpy.datetime64[ns]"),
        (KNOWN["M8[10us]"][0], "numpy.datetime64[10us]"),
    ],
)
def test_its_text_is_short(data, text):
    assert str(DataType.from_json(data)) == text


def test_a_bare_name_and_an_object_without_configuration_are_equal():
    assert DataType.from_json("int8") == DataType.from_json({"name": "int8", "configuration": {}})


@pytest.mark.parametrize(
    "dtype",
    [
        pytest.param(np.dtype([("a", "i4", (2,))]), id="sub-array field"),
        pytest.param(np.dtype(np.longdouble), id="long double"),
        pytest.param(np.dtype(np.clongdouble), id="complex long double"),
        pytest.param(np.dtype(object), id="object"),
        pytest.param(np.dtype([("a", object)]), id="struct with objects"),
        pytest.param(np.dtype([("a", "i1"), ("b", "i8")], align=True), id="padding"),
        pytest.param(
            np.dtype({"names": ["a", "b"], "formats": ["i4", "i2"], "offsets": [0, 2]}), id="overlap"
        ),
        pytest.param(np.dtype("S0"), id="S0"),
        pytest.param(np.dtype("U0"), id="U0"),
        pytest.param(np.dtype("V0"), id="V0"),
        pytest.param(np.dtype([]), id="struct without fields"),
    ],
)
def test_numpy_types_without_a_v3_name_are_refused_by_name(dtype):
    with pytest.raises(UnsupportedError) as caught:
        DataType.from_numpy(dtype)
    assert caught.value.problem.found


def test_types_of_other_packages_are_not_taken_for_numpys_own():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    for name in ("bfloat16", "float8_e5m2", "int4"):
        with pytest.raises(UnsupportedError, match=name):
            DataType.from_numpy(np.dtype(getattr(ml_dtypes, name)))


ZERO_BYTES = [named("fixed_length_utf32", length_bytes=0), named("raw_bytes", length_bytes=0)]


@pytest.mark.parametrize("data", ZERO_BYTES, ids=str)
def test_no_reader_takes_types_of_zero_bytes(data):
    with pytest.raises(MetadataError):
        DataType.from_json(data)
    with pytest.raises(ValueError, match="length"):
        read_by_zarr(of_three(data, ""))
    with pytest.raises(ValueError, match="data_type"):
        read_by_tensorstore(of_three(data, ""))


@pytest.mark.parametrize(
    ("data", "error"),
    {
        "number": (3, MetadataError),
        "null": (None, MetadataError),
        "no name": ({"configuration": {}}, MetadataError),
        "configuration is a list": ({"name": "int8", "configuration": []}, MetadataError),
        "unknown member": ({"name": "int8", "size": 1}, MetadataError),
        "configuration of a plain type": (named("int8", size=1), MetadataError),
        "unknown name": ("int3", UnsupportedError),
        "v2 name": ("<f4", UnsupportedError),
        "python name": ("float", UnsupportedError),
        "part of a raw byte": ("r12", UnsupportedError),
        "enormous raw type": ("r80000000000", MetadataError),
        "no length": (named("raw_bytes"), MetadataError),
        "length is a bool": (named("raw_bytes", length_bytes=True), MetadataError),
        "length is a float": (named("raw_bytes", length_bytes=1.0), MetadataError),
        "negative length": (named("raw_bytes", length_bytes=-1), MetadataError),
        "enormous length": (named("raw_bytes", length_bytes=2**31), MetadataError),
        "part of a character": (named("fixed_length_utf32", length_bytes=6), MetadataError),
        "unit unknown": (named("numpy.datetime64", unit="x", scale_factor=1), MetadataError),
        "unit is a list": (named("numpy.datetime64", unit=["s"], scale_factor=1), MetadataError),
        "scale 0": (named("numpy.datetime64", unit="s", scale_factor=0), MetadataError),
        "no fields": (named("structured", fields=[]), MetadataError),
        "fields are text": (named("structured", fields="ab"), MetadataError),
        "field of three": (named("structured", fields=[["a", "int8", [2]]]), MetadataError),
        "nameless field": (named("structured", fields=[["", "int8"]]), MetadataError),
        "field twice": (named("structured", fields=[["a", "int8"], ["a", "int8"]]), MetadataError),
        "field name is a list": (named("structured", fields=[[["a"], "int8"]]), MetadataError),
        "string field": (named("structured", fields=[["a", "string"]]), UnsupportedError),
        "struct too large": (
            named("structured", fields=[[name, named("raw_bytes", length_bytes=2**31 - 1)] for name in "ab"]),
            UnsupportedError,
        ),
    }.values(),
    ids=str,
)
def test_malformed_types_are_refused_with_what_was_found(data, error):
    with pytest.raises(error):
        DataType.from_json(data)


def test_bottomless_structs_are_refused_before_they_exhaust_the_stack():
    data = "int8"
    for _ in range(MAX_DEPTH):
        data = named("structured", fields=[["a", data]])
    DataType.from_json(data)
    with pytest.raises(UnsupportedError):
        DataType.from_json(named("structured", fields=[["a", data]]))


simple_dtypes = st.one_of(
    st.sampled_from(["?", "i1", "i2", ">i4", "<u8", "f2", ">f4", "c8", ">c16", "M8[ns]", "m8[3h]", "M8"]),
    st.integers(1, 9).map(lambda n: f"S{n}"),
    st.integers(1, 9).map(lambda n: f">U{n}"),
    st.integers(1, 9).map(lambda n: f"V{n}"),
).map(np.dtype)
field_names = st.lists(st.text(min_size=1, max_size=4), min_size=1, max_size=4, unique=True)
dtypes = st.recursive(
    simple_dtypes,
    lambda inner: field_names.flatmap(
        lambda names: st.tuples(*[inner] * len(names)).map(
            lambda types: np.dtype(list(zip(names, types, strict=True)))
        )
    ),
    max_leaves=6,
)


@given(dtypes)
def test_numpy_and_back_changes_nothing_but_byte_order(dtype):
    data_type = DataType.from_numpy(dtype)
    assert data_type.numpy == dtype.newbyteorder("=")
    assert DataType.from_json(json.loads(json.dumps(data_type.to_json()))) == data_type


@given(st.lists(dtypes, min_size=2, max_size=4))
def test_equal_means_equal_json(many):
    types = [DataType.from_numpy(dtype) for dtype in many]
    for a, b in pairwise(types):
        assert (a == b) == (a.to_json() == b.to_json())
        assert a != b or hash(a) == hash(b)

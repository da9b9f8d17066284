"""What zarr-python 3 writes through `Draft`, zarr 2.18.7 reads, and the other way, in turns.

Needs the environment of tests/environments/zarr-2.18.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import zarr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.end_to_end.readers.zarr_2_18 import ask
from zarr.codecs import BloscCodec, BytesCodec, GzipCodec, ShardingCodec, TransposeCodec, ZstdCodec
from zarr.codecs.numcodecs import BZ2, LZ4, Zlib
from zarr.storage import LocalStore

from zarrstack.layers.draft.layer import Draft

pytestmark = [
    pytest.mark.needs_reader("zarr-2.18"),
    pytest.mark.filterwarnings("ignore:.*not have a Zarr V3 spec"),
    pytest.mark.filterwarnings("ignore:Numcodecs codecs are not in the Zarr"),
]


def zarr_2_18(root: Path, *steps: list) -> list:
    """The answers of zarr 2.18.7 to steps of `draft.py`."""
    return ask("draft.py", root, steps)


def layer(root: Path) -> Draft:
    return Draft(LocalStore(root), dialect="zarr-python")


def big(dtype: str) -> dict:
    return {"dtype": dtype, "serializer": BytesCodec(endian="big")}


NUMBERS = np.arange(-17, 18).reshape(5, 7)
STRUCT = np.dtype([("a", "<i4"), ("b", "<f8"), ("c", "S3")])
ARRAYS = {
    **{
        dtype: (NUMBERS.astype(dtype), {})
        for dtype in ("i1", "i2", "i4", "i8", "f2", "f4", "f8", "c8", "c16")
    },
    **{dtype: (abs(NUMBERS).astype(dtype), {}) for dtype in ("u1", "u2", "u4", "u8")},
    **{f"big/{dtype}": (NUMBERS.astype(dtype), big(dtype)) for dtype in ("i2", "i4", "f8", "c8")},
    "bool": (NUMBERS > 0, {}),
    "bytes": (NUMBERS.astype("S4"), {}),
    "text": (NUMBERS.astype("U4"), {}),
    "time": (NUMBERS.astype("M8[s]"), {}),
    "duration": (NUMBERS.astype("m8[ms]"), {}),
    "raw": (NUMBERS.astype("i2").view("V2"), {}),
    "struct": (np.array([(i, -i / 2, b"x") for i in range(35)], STRUCT).reshape(5, 7), {}),
    "fill/nan": (NUMBERS.astype("f4"), {"fill_value": np.nan}),
    "fill/infinity": (NUMBERS.astype("f8"), {"fill_value": -np.inf}),
    "fill/complex": (NUMBERS.astype("c8"), {"fill_value": 1 + 2j}),
    "fill/text": (NUMBERS.astype("U4"), {"fill_value": "abcd"}),
    "order/f": (NUMBERS.astype("i4"), {"filters": [TransposeCodec(order=(1, 0))]}),
    "order/c0": (NUMBERS.astype("i4"), {}),
    "dots": (
        NUMBERS.astype("i4"),
        {"chunk_key_encoding": {"name": "default", "configuration": {"separator": "."}}},
    ),
    "codec/none": (NUMBERS.astype("i4"), {"compressors": None}),
    "codec/gzip": (NUMBERS.astype("i4"), {"compressors": GzipCodec(level=2)}),
    "codec/blosc": (NUMBERS.astype("i4"), {"compressors": BloscCodec(cname="lz4", shuffle="bitshuffle")}),
    "codec/zstd": (NUMBERS.astype("i4"), {"compressors": ZstdCodec(level=3)}),
    "codec/zlib": (NUMBERS.astype("i4"), {"compressors": Zlib(level=1)}),
    "codec/bz2": (NUMBERS.astype("i4"), {"compressors": BZ2(level=1)}),
    "codec/lz4": (NUMBERS.astype("i4"), {"compressors": LZ4(acceleration=1)}),
    "shards": (
        NUMBERS.astype("i4"),
        {
            "chunks": (4, 8),
            "compressors": None,
            "serializer": ShardingCodec(
                chunk_shape=(2, 4), codecs=[BytesCodec(), GzipCodec()], index_codecs=[BytesCodec()]
            ),
        },
    ),
    "one": (np.arange(9, dtype="i4"), {"chunks": (4,)}),
    "one_dot": (
        np.arange(9, dtype="i4"),
        {"chunks": (4,), "chunk_key_encoding": {"name": "default", "configuration": {"separator": "."}}},
    ),
    "three": (np.arange(60, dtype="u2").reshape(3, 4, 5), {"chunks": (2, 3, 2)}),
    "none": (np.array(4.5), {"chunks": ()}),
    "empty": (np.zeros((0, 3), "i4"), {"chunks": (2, 2)}),
    "attributes": (
        NUMBERS.astype("i4"),
        {"attributes": {"unit": "m", "nested": {"a": [1, None, True, "é"]}}},
    ),
}


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> tuple[Path, dict]:
    """An archive written through the layer, and zarr 2.18's reading of all of it."""
    root = tmp_path_factory.mktemp("written")
    store = layer(root)
    zarr.create_group(store, attributes={"title": "by zarr 3"})
    for path, (values, options) in ARRAYS.items():
        usual = {"shape": values.shape, "chunks": (2, 4), "dtype": values.dtype}
        array = zarr.create_array(store, name=path, **(usual | options))
        if values.size:
            array[...] = values
    answers = zarr_2_18(root, ["tree"], ["attributes", ""], *(["read", path] for path in ARRAYS))
    return root, dict(zip(["tree", "root", *ARRAYS], answers, strict=True))


@pytest.mark.parametrize("path", ARRAYS)
def test_zarr_2_18_reads_an_array_that_zarr_3_wrote(written, path) -> None:
    root, answers = written
    values, options = ARRAYS[path]
    found = answers[path]
    stored = values.astype(values.dtype.newbyteorder(">" if path.startswith("big/") else "="))
    assert found["values"] == stored.tobytes().hex()
    assert found["shape"] == list(values.shape)
    assert found["order"] == ("F" if path == "order/f" else "C")
    assert found["attributes"] == options.get("attributes", {})
    again = zarr.open_array(layer(root), path=path, mode="r")
    fill = np.asarray(again.fill_value, values.dtype).astype(stored.dtype)
    assert found["fill"] == fill.tobytes().hex()


def test_zarr_2_18_sees_the_tree_that_zarr_3_made(written) -> None:
    root, answers = written
    members = zarr.open_group(layer(root), mode="r").members(max_depth=None)
    kinds = {path: "array" if isinstance(node, zarr.Array) else "group" for path, node in members}
    assert answers["tree"] == kinds
    assert answers["root"] == {"title": "by zarr 3"}


def test_arrays_change_hands(tmp_path) -> None:
    """Written here, changed there, changed here; and made there, changed and erased here."""
    store = layer(tmp_path)
    ours = zarr.create_array(store, name="g/ours", shape=(5, 7), chunks=(2, 4), dtype="i4")
    ours[...] = NUMBERS
    theirs = ["g/theirs", [5, 7], [2, 4], ">i4", "F", ".", True]
    zarr_2_18(tmp_path, ["write", "g/ours", 3], ["create", *theirs])
    assert (ours[...] == 3).all()
    made = zarr.open_array(store, path="g/theirs")
    assert (made[...] == np.arange(35).reshape(5, 7)).all()
    made[1:3] = -1
    made.attrs["by"] = "zarr 3"
    made.resize((6, 7))
    (read,) = zarr_2_18(tmp_path, ["read", "g/theirs"])
    assert (read["shape"], read["attributes"], read["dtype"]) == ([6, 7], {"by": "zarr 3"}, ">i4")
    assert read["values"] == made[...].astype(">i4").tobytes().hex()
    assert zarr_2_18(tmp_path, ["delete", "g/ours"], ["tree"])[1] == {"g": "group", "g/theirs": "array"}
    group = zarr.open_group(store, path="g", mode="r")
    assert "ours" not in group
    with pytest.warns(UserWarning, match="ours is not recognized"):  # zarr 2.18.7 leaves its chunks
        assert [name for name, _ in group.members()] == ["theirs"]
    del zarr.open_group(store)["g"]
    assert zarr_2_18(tmp_path, ["tree"]) == [{}]
    assert [path.name for path in tmp_path.glob("**/*") if path.is_file()] == ["zarr.json", "root.group.json"]


MADE = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from(["<i2", ">f8", "|u1", "<c8", "|b1", "<U3", "|S2", "<M8[D]"]),
        "shape": st.lists(st.integers(0, 7), max_size=3),
        "separator": st.sampled_from("/."),
        "order": st.sampled_from("CF"),
    }
)


@settings(max_examples=6, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(several=st.lists(MADE, min_size=8, max_size=8))
def test_any_array_of_zarr_2_18_is_the_same_here(several, tmp_path_factory) -> None:
    root = tmp_path_factory.mktemp("any")
    steps = [
        [
            "create",
            f"a{i}",
            m["shape"],
            [2] * len(m["shape"]),
            m["dtype"],
            m["order"],
            m["separator"],
            bool(i % 2),
        ]
        for i, m in enumerate(several)
    ]
    answers = zarr_2_18(root, *steps, *(["read", f"a{i}"] for i in range(len(several))))
    store = Draft(LocalStore(root))
    for i, made in enumerate(several):
        array = zarr.open_array(store, path=f"a{i}", mode="r")
        found = np.asarray(array[...]).astype(made["dtype"])
        assert found.tobytes().hex() == answers[len(several) + i]["values"]
        assert array.shape == tuple(made["shape"])

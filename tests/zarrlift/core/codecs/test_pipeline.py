"""A compiled chain gives what zarr-python reads, keeps every bit, and splits anywhere."""

from __future__ import annotations

import json
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import numcodecs
import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tests.support.documents import v3_array
from zarr.core.buffer import default_buffer_prototype
from zarr.storage import MemoryStore

from zarrlift.core.chain.chain import Chain
from zarrlift.core.codec_spec import CodecSpec
from zarrlift.core.codecs import deflate, layout
from zarrlift.core.codecs.base import OBJECT_LIMIT, HeadAndTail, Size
from zarrlift.core.codecs.layout import in_c_order
from zarrlift.core.codecs.pipeline import Pipeline
from zarrlift.core.data_types.compare import same_bits
from zarrlift.core.data_types.v3 import DataType
from zarrstack.core.errors import CastError, ChunkError, MetadataError


def bytes_codec(endian):
    return CodecSpec("bytes", {"endian": endian})


def transpose(*order):
    return CodecSpec("transpose", {"order": list(order)})


# ----- what zarr-python reads of Zarr v2

V2_FILTERS = {
    "none": ("<f4", []),
    "delta": ("<i4", [numcodecs.Delta("<i4", "<i2")]),
    "delta-big": (">i4", [numcodecs.Delta(">i4")]),
    "scale": ("<f8", [numcodecs.FixedScaleOffset(offset=3, scale=4, dtype="<f8", astype="<i4")]),
    "quantize": (">f8", [numcodecs.Quantize(digits=1, dtype=">f8", astype=">f4")]),
    "bitround": ("<f4", [numcodecs.BitRound(keepbits=8)]),
    "astype": ("<f8", [numcodecs.AsType(encode_dtype=">f4", decode_dtype="<f8")]),
    "packbits": ("|b1", [numcodecs.PackBits()]),
    "shuffle": ("<i8", [numcodecs.Shuffle(elementsize=8)]),
    "crc32": ("<i2", [numcodecs.CRC32()]),
    "adler32": ("<i2", [numcodecs.Adler32()]),
    "fletcher32": ("<i2", [numcodecs.Fletcher32()]),
    "lookup3": ("<i2", [numcodecs.JenkinsLookup3(initval=9)]),
    "zlib": ("<i2", [numcodecs.Zlib(3)]),
    "categorize": ("<U4", [numcodecs.Categorize(["3.0", "7.0"], "<U4")]),
    "several": (">i4", [numcodecs.Delta(">i4"), numcodecs.Shuffle(4), numcodecs.Zlib(1), numcodecs.CRC32()]),
}
PLAIN = ("gzip", "zstd", "blosc")


def v2_spec(numcodec):
    config = dict(numcodec if isinstance(numcodec, dict) else numcodec.get_config())
    name = config.pop("id")
    config = {key: value for key, value in config.items() if value is not None}
    return CodecSpec(name if name in PLAIN else f"numcodecs.{name}", config)


@pytest.mark.parametrize(
    ("order", "compressor"),
    [("C", None), ("F", numcodecs.Blosc("zstd", 3, -1)), ("C", numcodecs.LZ4())],
    ids=["C", "F blosc", "C lz4"],
)
@pytest.mark.parametrize("case", V2_FILTERS)
def test_v2_filters_mean_here_what_they_mean_to_zarr(case, order, compressor, monkeypatch):
    dtype, filters = V2_FILTERS[case]
    if case == "categorize" and compressor is not None:
        compressor = numcodecs.Zlib(1)  # zarr hands numcodecs a type it cannot buffer otherwise
    # zarr-python 3 cannot make every one of these documents; it reads them all.
    document = {
        "zarr_format": 2,
        "shape": [4, 6],
        "chunks": [4, 3],
        "dtype": dtype,
        "order": order,
        "fill_value": "" if "U" in dtype else None,
        "filters": [numcodec.get_config() for numcodec in filters] or None,
        "compressor": compressor.get_config() if compressor else None,
    }
    store: dict = {".zarray": default_buffer_prototype().buffer.from_bytes(json.dumps(document).encode())}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        array = zarr.open_array(MemoryStore(store), mode="r+")
        array[:] = (np.arange(24.0).reshape(4, 6) * 1.0).astype(dtype)
        expected = array[:]

    stored = np.dtype(dtype)
    head = [CodecSpec("transpose", {"order": "F"})] if order == "F" else []
    endian = "big" if stored.str[0] == ">" else "little"
    tail = [v2_spec(numcodec) for numcodec in (*filters, *([compressor] if compressor else []))]
    pipeline = Pipeline(
        Chain((*head, bytes_codec(endian), *tail)), (4, 3), DataType.from_numpy(stored.newbyteorder("<"))
    )
    for column in (0, 1):
        payload = store[f"0.{column}"].to_bytes()
        part = expected[:, 3 * column : 3 * column + 3]
        decoded = pipeline.decode(payload)
        assert same_bits(decoded, part.astype(decoded.dtype))
        assert pipeline.check(HeadAndTail.of(payload))
        if case == "categorize":  # which is only read
            continue
        with monkeypatch.context() as context:
            context.setattr(deflate, "libdeflate", None)  # as numcodecs writes; matches of others differ
            assert bytes(memoryview(pipeline.encode(decoded))) == payload


# ----- what zarr-python reads of Zarr v3

V3_TAILS = {
    "raw": [],
    "gzip": [{"name": "gzip", "configuration": {"level": 4}}],
    "zstd": [{"name": "zstd", "configuration": {"level": 4, "checksum": True}}],
    "crc32c": [{"name": "crc32c"}],
    "blosc": [
        {
            "name": "blosc",
            "configuration": {
                "cname": "lz4",
                "clevel": 5,
                "shuffle": "bitshuffle",
                "typesize": 4,
                "blocksize": 0,
            },
        }
    ],
    "gzip-crc32c": [{"name": "gzip", "configuration": {"level": 1}}, {"name": "crc32c"}],
}


@pytest.mark.parametrize("tail", V3_TAILS)
@pytest.mark.parametrize("endian", ["little", "big"])
def test_v3_chunks_go_both_ways_between_here_and_zarr(tail, endian):
    values = np.random.default_rng(5).normal(size=(5, 3, 4)).astype("f4")
    store: dict = {}
    codecs = [{"name": "transpose", "configuration": {"order": [2, 0, 1]}}]
    codecs += [{"name": "bytes", "configuration": {"endian": endian}}, *V3_TAILS[tail]]
    document = v3_array([5, 3, 4], data_type="float32", codecs=codecs)
    buffer = default_buffer_prototype().buffer
    store["zarr.json"] = buffer.from_bytes(json.dumps(document).encode())
    array = zarr.open_array(MemoryStore(store), mode="r+")
    array[:] = values
    pipeline = Pipeline(Chain.from_json(codecs), (5, 3, 4), DataType("float32"))
    assert same_bits(pipeline.decode(store["c/0/0/0"].to_bytes()), values)
    store["c/0/0/0"] = buffer.from_bytes(bytes(memoryview(pipeline.encode(values))))
    assert same_bits(array[:], values)


# ----- every bit comes back

TYPES = [
    *("bool", "int8", "uint16", "int64", "float16", "float32", "float64", "complex64", "complex128"),
    {"name": "fixed_length_utf32", "configuration": {"length_bytes": 12}},
    {"name": "null_terminated_bytes", "configuration": {"length_bytes": 5}},
    {"name": "raw_bytes", "configuration": {"length_bytes": 3}},
    {"name": "numpy.datetime64", "configuration": {"unit": "ns", "scale_factor": 1}},
]


@given(data=st.data(), endian=st.sampled_from(["little", "big"]))
@pytest.mark.parametrize("data_type", [DataType.from_json(name) for name in TYPES], ids=str)
def test_every_bit_comes_back_in_any_byte_and_memory_order(data_type, data, endian):
    shape = data.draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4))
    native = data_type.numpy
    count = int(np.prod(shape)) * native.itemsize
    raw = data.draw(st.binary(min_size=count, max_size=count))
    array = np.ndarray(shape, native, buffer=raw) if count else np.zeros(shape, native)
    orders = [data.draw(st.permutations(range(len(shape)))) for _ in range(data.draw(st.integers(0, 2)))]
    tail = data.draw(st.sampled_from([[], [CodecSpec("zstd")], [CodecSpec("blosc"), CodecSpec("crc32c")]]))
    chain = Chain((*(transpose(*order) for order in orders), bytes_codec(endian), *tail))
    pipeline = Pipeline(chain, shape, data_type)
    payload = pipeline.encode(array)
    decoded = pipeline.decode(payload)
    assert decoded.dtype == native
    assert decoded.dtype.isnative
    assert decoded.shape == shape
    assert decoded.flags.c_contiguous
    assert decoded.tobytes() == array.tobytes()
    assert pipeline.check(HeadAndTail.of(payload))


def test_signalling_nans_and_minus_zero_survive_every_path():
    bits = np.array([0x7F800001, 0xFF812345, 0x7FC00000, 0x80000000, 0, 1], "<u4").reshape(2, 3)
    for endian in ("little", "big"):
        for head in ((), (transpose(1, 0),)):
            pipeline = Pipeline(Chain((*head, bytes_codec(endian))), (2, 3), DataType("float32"))
            for array in (bits.view("<f4"), bits.view("<f4").astype(">f4")):
                assert pipeline.decode(pipeline.encode(array)).tobytes() == bits.tobytes()


def test_struct_fields_may_differ_in_byte_order():
    dtype = [["a", "<i4"], ["b", ">f8"], ["c", [["d", ">u2"], ["e", "|S3"]]]]
    stored = np.dtype([("a", "<i4"), ("b", ">f8"), ("c", [("d", ">u2"), ("e", "S3")])])
    values = np.array([(1, -0.0, (258, b"abc")), (-2, 2.5, (3, b""))], stored)
    data_type = DataType.from_numpy(stored)
    pipeline = Pipeline(Chain((CodecSpec("numpy_bytes", {"dtype": dtype}),)), (2,), data_type)
    decoded = pipeline.decode(values.tobytes())
    assert decoded.dtype == data_type.numpy
    assert decoded.tolist() == values.tolist()
    assert bytes(memoryview(pipeline.encode(decoded))) == values.tobytes()


def test_transposes_compose_and_undo():
    values = np.arange(24, dtype="u1").reshape(2, 3, 4)
    pipeline = Pipeline(
        Chain((transpose(1, 2, 0), transpose(2, 0, 1), transpose(1, 0, 2), bytes_codec("little"))),
        values.shape,
        DataType("uint8"),
    )
    expected = values.transpose(1, 2, 0).transpose(2, 0, 1).transpose(1, 0, 2)
    assert bytes(memoryview(pipeline.encode(values))) == expected.tobytes()
    assert same_bits(pipeline.decode(expected.tobytes()), values)


@pytest.mark.parametrize(("order", "axes"), [("C", (0, 1)), ("F", (1, 0))])
def test_transposes_of_the_drafts_are_named_by_a_letter(order, axes):
    values = np.arange(6, dtype="u1").reshape(2, 3)
    chain = Chain((CodecSpec("transpose", {"order": order}), bytes_codec("little")))
    payload = Pipeline(chain, (2, 3), DataType("uint8")).encode(values)
    assert bytes(memoryview(payload)) == values.transpose(axes).tobytes()


@pytest.mark.parametrize("order", [None, [0], [0, 0], [0, 2], [True, 0], ["0", "1"], "A", [0, 1, 2]], ids=str)
def test_an_order_that_is_no_permutation_is_refused(order):
    with pytest.raises(MetadataError):
        Pipeline(
            Chain((CodecSpec("transpose", {"order": order}), bytes_codec("little"))), (2, 3), DataType("int8")
        )


# ----- splitting

LONG = Chain(
    (
        transpose(1, 0),
        bytes_codec("big"),
        CodecSpec("numcodecs.delta", {"dtype": ">i4"}),
        CodecSpec("numcodecs.shuffle", {"elementsize": 4}),
        CodecSpec("gzip", {"level": 1}),
        CodecSpec("crc32c"),
    )
)
VALUES = np.arange(-6, 6, dtype="i4").reshape(3, 4)


@pytest.mark.parametrize("start", range(2, 7))
def test_undo_and_apply_meet_at_every_position(start):
    pipeline = Pipeline(LONG, (3, 4), DataType("int32"))
    payload = bytes(memoryview(pipeline.encode(VALUES)))
    inner = pipeline.undo(payload, start)
    assert bytes(memoryview(pipeline.apply(inner, start))) == payload
    size = pipeline.sizes[start]
    length = len(memoryview(inner))
    assert length == size.at_most if size.exact else length <= size.at_most


def test_sizes_name_every_position():
    sizes = Pipeline(LONG, (3, 4), DataType("int32")).sizes
    assert sizes[:5] == (Size(48, exact=True),) * 5
    assert [size.exact for size in sizes[5:]] == [False, False]
    assert sizes[6].at_most == sizes[5].at_most + 4


def test_a_position_before_the_bytes_is_no_position():
    pipeline = Pipeline(LONG, (3, 4), DataType("int32"))
    for start in (0, 1, 7):
        with pytest.raises(ValueError, match="position"):
            pipeline.undo(b"", start)


# ----- checking


def test_a_check_looks_through_checksums():
    pipeline = Pipeline(LONG, (3, 4), DataType("int32"))
    payload = bytes(memoryview(pipeline.encode(VALUES)))
    assert pipeline.check(HeadAndTail.of(payload))
    with pytest.raises(ChunkError, match="gzip"):
        pipeline.check(HeadAndTail.of(b"\0" + payload[1:]))
    assert pipeline.check(HeadAndTail.of(payload[:-5] + payload[-4:])) is False
    with pytest.raises(ChunkError):
        pipeline.check_whole(payload[:-5] + payload[-4:])


@pytest.mark.parametrize(
    ("chain", "data_type", "payload"),
    [
        ((bytes_codec("little"),), "int32", bytes(47)),
        ((bytes_codec("little"),), "int32", bytes(49)),
        ((bytes_codec("little"), CodecSpec("crc32c")), "int32", bytes(48)),
        ((bytes_codec("little"), CodecSpec("numcodecs.crc32")), "int32", bytes(51)),
        ((CodecSpec("vlen-utf8"),), "string", b"\x0b\0\0\0" + bytes(44)),
        (
            (CodecSpec("vlen-utf8"), CodecSpec("numcodecs.crc32c", {"location": "start"})),
            "string",
            bytes(4) + b"\x0b\0\0\0" + bytes(44),
        ),
        ((CodecSpec("vlen-utf8"),), "string", b"\x0c\0\0\0" + bytes(44)),
    ],
)
def test_a_length_or_count_that_cannot_be_is_seen_without_decoding(chain, data_type, payload):
    with pytest.raises(ChunkError):
        Pipeline(Chain(chain), (3, 4), DataType(data_type)).check(HeadAndTail.of(payload))


# ----- the rest


def test_variable_length_data_has_a_documented_limit():
    chain = Chain((CodecSpec("vlen-utf8"), CodecSpec("numcodecs.zlib")))
    assert Pipeline(chain, (2,), DataType("string")).sizes[1] == Size(OBJECT_LIMIT, exact=False)
    small = Pipeline(chain, (2,), DataType("string"), object_limit=1000)
    bomb = numcodecs.Zlib().encode(bytes(1 << 20))
    with pytest.raises(ChunkError, match="more than its chunk"):
        small.decode(bomb)


def test_a_filter_that_does_not_fit_the_inner_chunk_is_an_error_of_the_metadata():
    chain = Chain((bytes_codec("little"), CodecSpec("numcodecs.delta", {"dtype": "<i8"})))
    with pytest.raises(MetadataError, match="whole number"):
        Pipeline(chain, (3,), DataType("int32"))


def test_an_array_of_another_shape_or_type_is_no_inner_chunk():
    pipeline = Pipeline(Chain((bytes_codec("little"),)), (3, 4), DataType("int32"))
    for wrong in (VALUES.T, VALUES.astype("i8"), VALUES.astype("u4"), VALUES.astype(object)):
        with pytest.raises(CastError):
            pipeline.encode(wrong)


@pytest.mark.parametrize("cname", ["lz4", "zstd", "blosclz"])
def test_blosc_gives_the_same_bytes_in_every_thread(cname):
    # Large enough for several blocks, which numcodecs' own threads would lay down in any order.
    values = np.random.default_rng(3).integers(0, 99, 1 << 20).astype("i4")
    chain = Chain((bytes_codec("little"), CodecSpec("blosc", {"cname": cname, "clevel": 1})))
    pipeline = Pipeline(chain, values.shape, DataType("int32"))
    assert threading.current_thread() is threading.main_thread()
    payloads = {bytes(pipeline.encode(values)) for _ in range(2)}
    with ThreadPoolExecutor(2) as pool:
        payloads |= set(map(bytes, pool.map(lambda _: pipeline.encode(values), range(4))))
    assert len(payloads) == 1


def test_one_pipeline_serves_many_threads():
    pipelines = [
        Pipeline(Chain((bytes_codec("big"), CodecSpec(name))), (64, 64), DataType("float32"))
        for name in ("zstd", "gzip", "blosc", "numcodecs.lz4", "crc32c")
    ]
    arrays = [np.full((64, 64), number, "f4") for number in range(20)]

    def round_trip(pair):
        pipeline, array = pair
        return same_bits(pipeline.decode(pipeline.encode(array)), array)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(round_trip, [(p, a) for p in pipelines for a in arrays]))


def test_decoding_copies_nothing_it_need_not():
    payload = VALUES.tobytes()
    pipeline = Pipeline(Chain((bytes_codec("little"),)), (3, 4), DataType("int32"))
    assert np.shares_memory(pipeline.decode(payload), np.frombuffer(payload, "u1"))
    encoded = pipeline.encode(VALUES)
    assert np.shares_memory(np.frombuffer(encoded, "u1"), VALUES)
    array = np.zeros((300, 300), "<f8")
    assert in_c_order(array, np.dtype("<f8")) is array


# Any array comes into C order and a byte order bit by bit, in one cast or in blocks.


# Shape, and whether F order is turned in blocks: only where a cast's strides miss the caches.
SHAPES = {
    (64, 64, 64): True,
    (128, 70, 128): True,
    (1, 96, 1, 128, 128): True,
    (2048, 1030): True,
    (100, 100, 100): False,
    (1000, 800): False,
    (2, 2, 128, 256, 3): False,
    (30, 20, 10): False,
    (1, 1, 900_000): False,
}
LAYOUT_TYPES = ("u1", "<i2", ">u2", "<f4", ">f4", ">f8", "<c16")


def turned(shape, dtype):
    """Any bits, with signalling NaNs among them, in F order."""
    count = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.random.default_rng(4).integers(0, 256, count, dtype="u1")
    return np.ndarray(shape, dtype, buffer=raw, order="F")


@pytest.mark.slow(one_in=12)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", LAYOUT_TYPES)
@pytest.mark.parametrize("order", "<>")
def test_every_bit_arrives(shape, dtype, order):
    array = turned(shape, dtype)
    target = np.dtype(dtype).newbyteorder(order)
    result = in_c_order(array, target)
    assert result.dtype == target
    assert result.shape == shape
    assert result.flags.c_contiguous
    swapped = array.byteswap().view(target) if array.dtype != target else array
    assert result.tobytes() == swapped.tobytes()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_blocks_are_used_where_they_are_faster(shape, monkeypatch):
    used = []
    in_blocks = layout._cast_in_blocks
    monkeypatch.setattr(layout, "_cast_in_blocks", lambda *words: (used.append(1), in_blocks(*words)))
    in_c_order(turned(shape, ">f4"), np.dtype("<f4"))
    assert bool(used) is SHAPES[shape]


@given(data=st.data())
def test_any_order_of_axes_and_any_step_arrives(data):
    shape = data.draw(st.sampled_from([(64, 64, 128), (16, 8, 64, 64), (512, 1024), (32, 1, 128, 128)]))
    base = np.arange(np.prod(shape), dtype=">u4").reshape(shape)
    steps = data.draw(st.tuples(*(st.sampled_from([1, 1, -1, 2]) for _ in shape)))
    array = base[tuple(slice(None, None, step) for step in steps)]
    array = array.transpose(data.draw(st.permutations(range(len(shape)))))
    assert np.array_equal(in_c_order(array, np.dtype("<u4")), array)

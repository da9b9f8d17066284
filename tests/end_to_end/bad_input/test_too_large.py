"""Objects and chunks that are larger than they should be: refused by name, within bounds of memory."""

from __future__ import annotations

import bz2
import json
import lzma
import struct
import subprocess
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import cache
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
import zarr
from tests.support.damaged_archives import (
    GOOD,
    PEAK,
    assert_good,
    measured,
    migrate,
    python,
    read,
    write_archive,
    write_array,
)
from tests.support.documents import LITTLE, v3_array
from tests.support.fixtures_index import bad_cases
from tests.support.web_servers import serving

from zarrlift.core.chain.chain import Chain
from zarrlift.core.codec_spec import CodecSpec
from zarrlift.core.codecs.pipeline import Pipeline
from zarrlift.core.data_types.v3 import DataType
from zarrlift.formats.tree.documents import parse_object
from zarrlift.planning.chunk_checks import machine_memory
from zarrlift.storage.local.files import BadObjectError, ReadLimit
from zarrlift.storage.open_storage import open_storage
from zarrstack.core.errors import ChunkError, MetadataError

# Chunks that unpack to far more than they should: refused by name, within 200 MiB for the whole command.


MIB = 1 << 20
MOST = 200
"""MiB; Python with numpy and zarr takes 60 to 140 of them."""


def zeros(size: int, wbits: int) -> bytes:
    """A deflate stream of so many zero bytes, made without ever holding them."""
    packer, piece = zlib.compressobj(9, zlib.DEFLATED, wbits), bytes(MIB)
    return b"".join([*(packer.compress(piece) for _ in range(size // MIB)), packer.flush()])


def lz4_header(size: int) -> bytes:
    return struct.pack("<I", size) + bytes(64)


BYTES: dict[str, tuple[Any, Callable[[], bytes]]] = {
    "gzip": ({"id": "gzip", "level": 1}, lambda: zeros(384 * MIB, 31)),
    "zlib": ({"id": "zlib", "level": 1}, lambda: zeros(384 * MIB, 15)),
    "bz2": ({"id": "bz2", "level": 9}, lambda: bz2.compress(bytes(256 * MIB))),
    "lzma": ({"id": "lzma", "preset": 1}, lambda: lzma.compress(bytes(256 * MIB), preset=1)),
    "zstd": ({"id": "zstd", "level": 1}, lambda: numcodecs.Zstd(1).encode(bytes(384 * MIB))),
    "lz4": ({"id": "lz4", "acceleration": 1}, lambda: lz4_header(2**31 - 1)),
}
JSON2 = numcodecs.JSON().get_config()
SHAPES: dict[str, dict[str, Any]] = {
    "numbers": {"dtype": "<i4"},
    "text": {"dtype": "|O", "filters": [{"id": "vlen-utf8"}], "fill_value": ""},
    "objects": {"dtype": "|O", "filters": [JSON2], "fill_value": ""},
}


@cache
def made(codec: str) -> bytes:
    """The bomb; made once."""
    return BYTES[codec][1]()


ONCE = pytest.mark.needs_reader("once")
"""What is done with the bytes does not depend on the libraries that unpack them, which differ at each end."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "shape", ["numbers", pytest.param("text", marks=ONCE), pytest.param("objects", marks=ONCE)]
)
@pytest.mark.parametrize("codec", BYTES)
def test_a_bomb_is_refused_before_it_fills_the_memory(codec: str, shape: str, tmp_path: Path) -> None:
    source = write_archive(tmp_path / "source.zarr")
    compressor, _ = BYTES[codec]
    write_array(source / "bad", {"0": made(codec)}, compressor=compressor, **SHAPES[shape])
    ran, peak = measured("migrate", source, tmp_path / "out.zarr")
    assert (ran.code, [(p["node"], p["key"]) for p in ran.refusals]) == (1, [("bad", "bad/0")])
    assert peak < MOST
    assert_good(tmp_path / "out.zarr")
    assert not (tmp_path / "out.zarr/bad/zarr.json").exists()


@pytest.mark.slow
@pytest.mark.needs_reader("once")
@pytest.mark.parametrize("case", [case for case in bad_cases() if "bomb" in case.name], ids=str)
def test_a_bomb_of_the_fixtures_stays_small(case: Any, tmp_path: Path) -> None:
    ran, peak = measured("migrate", case.path, tmp_path / "out.zarr")
    assert ran.code == 1
    assert peak < MOST


ABSURD: dict[str, dict[str, Any]] = {
    "raw": {},
    "gzip": {"compressor": {"id": "gzip", "level": 1}},
    "zlib, F order": {"compressor": {"id": "zlib", "level": 1}, "order": "F"},
    "delta": {"filters": [{"id": "delta", "dtype": "<i4"}]},
    "text": {"dtype": "|O", "filters": [{"id": "vlen-utf8"}], "fill_value": ""},
}


@pytest.mark.slow(one_in=5)
@pytest.mark.parametrize("members", ABSURD.values(), ids=ABSURD)
def test_a_chunk_beyond_any_memory_is_refused_in_the_plan(members: dict[str, Any], tmp_path: Path) -> None:
    source = write_archive(tmp_path / "source.zarr")
    tiny = {"0.0": zlib.compress(b"abcd")}
    write_array(source / "bad", tiny, shape=[10**7, 10**6], chunks=[10**7, 10**6], **members)
    ran, peak = measured("migrate", source, tmp_path / "out.zarr")
    assert ran.code == 1
    (problem,) = ran.refusals
    assert (problem["kind"], problem["node"], problem["key"]) == ("memory", "bad", "bad/.zarray")
    assert peak < MOST
    assert_good(tmp_path / "out.zarr")


@pytest.mark.slow
def test_a_sparse_array_of_10_to_the_18_elements_costs_what_is_stored(tmp_path: Path) -> None:
    source = write_archive(tmp_path / "source.zarr")
    write_array(source / "sparse", {"5.999999999": b"x"}, shape=[10**9, 10**9], chunks=[1, 1], dtype="|u1")
    ran, peak = measured("migrate", source, tmp_path / "out.zarr")
    assert ran.code == 0
    assert peak < MOST
    assert (tmp_path / "out.zarr/sparse/c/5/999999999").read_bytes() == b"x"


def test_absurd_chunks_without_any_stored_one_are_only_metadata(tmp_path: Path) -> None:
    source = write_archive(tmp_path / "source.zarr")
    write_array(source / "none", {}, shape=[10**15], chunks=[10**15])
    assert migrate(source, tmp_path / "out.zarr").code == 0
    document = json.loads((tmp_path / "out.zarr/none/zarr.json").read_text())
    assert document["shape"] == [10**15]


def test_text_that_was_meant_is_no_bomb() -> None:
    """A hundred thousand empty strings compress a thousandfold and are read all the same."""
    pipeline = Pipeline(
        Chain((CodecSpec("vlen-utf8"), CodecSpec("zstd", {"level": 3}))), (10**5,), DataType("string")
    )
    values = np.full(10**5, "", dtype=object)
    assert pipeline.decode(pipeline.encode(values)).tolist() == values.tolist()
    few = Pipeline(Chain((CodecSpec("vlen-utf8"), CodecSpec("zstd", {"level": 3}))), (1,), DataType("string"))
    payload = few.encode(np.array(["a" * 100 * MIB], dtype=object))
    with pytest.raises(ChunkError, match="size that its chunk cannot have"):
        few.decode(payload)


def test_the_machine_says_how_much_memory_it_has() -> None:
    assert machine_memory() > 256 * MIB


# Shards and chunks larger than the memory that is allowed: the whole process stays within `--memory`.


MEMORY = 256 * 10**6
SHAPE = (96, 1024, 1024)
"""Of uint16: 201 MB in one shard, when it is asked for."""


@pytest.fixture(scope="module")
def planes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Zarr v2 array of 2 MB planes, not compressed."""
    path = tmp_path_factory.mktemp("memory") / "planes.zarr"
    array = zarr.create_array(
        path, shape=SHAPE, chunks=(1, 1024, 1024), dtype="<u2", compressors=None, zarr_format=2
    )
    rng = np.random.default_rng(4)
    for number in range(SHAPE[0]):
        array[number] = rng.integers(0, 1 << 16, SHAPE[1:], dtype="u2")
    return path


def peak(*words: str | Path) -> int:
    """The most bytes that the work took; checks that read results back have a process of their own."""
    done = subprocess.run(
        python("-c", PEAK, "migrate", *words, "--memory", str(MEMORY), "--workers", "8"),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return int(done.stderr.rpartition("peak ")[2]) << 20


@pytest.mark.needs_reader("once")
@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        pytest.param(("--shards", "96,1,1"), id="one shard of all"),
        pytest.param(("--shards", "96,1,1", "--set", "shard-index-location=start"), id="index at the start"),
        pytest.param(("--chunks", "32,256,256", "--codecs", "none"), id="chunks"),
        pytest.param(
            ("--chunks", "8,128,128", "--shards", "12,8,8", "--codecs", "none"),
            id="one shard of other chunks",
        ),
    ],
)
def test_a_shard_is_never_held_and_values_no_more_than_is_allowed(
    options: tuple[str, ...], planes: Path, tmp_path: Path
) -> None:
    most = peak(planes, tmp_path / "new", *options)
    assert most < MEMORY
    before = zarr.open_array(planes, mode="r")
    after = zarr.open_array(tmp_path / "new", mode="r")
    for start in range(0, SHAPE[0], 32):
        assert np.array_equal(before[start : start + 32], after[start : start + 32])


@pytest.mark.needs_reader("once")
@pytest.mark.slow
def test_shards_come_apart_within_the_memory(planes: Path, tmp_path: Path) -> None:
    peak(planes, tmp_path / "one", "--shards", "96,1,1")
    assert peak(tmp_path / "one", tmp_path / "many", "--shards", "none") < MEMORY
    assert peak(tmp_path / "one", tmp_path / "other", "--shards", "7,1,1") < MEMORY
    assert peak(tmp_path / "one", tmp_path / "cut", "--chunks", "16,512,512", "--shards", "none") < MEMORY
    assert (tmp_path / "many/c/95/0/0").read_bytes() == (planes / "95.0.0").read_bytes()


# Objects that are larger than they should be: of none more is read than a document or a chunk can hold.


MOST_OF_DOCUMENTS = 300
"""MiB for a whole command: Python with numpy and zarr, and a document of 64 MiB as bytes and as text."""
SHARDED = v3_array([1 << 20], [1 << 16], codecs=[
    {"name": "sharding_indexed", "configuration": {
        "chunk_shape": [1 << 10], "codecs": [LITTLE], "index_codecs": [LITTLE]}},
])  # fmt: skip


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """`good`, and `bad`, of which one object is made hostile."""
    path = write_archive(tmp_path / "source.zarr")
    write_array(path / "bad", {"0": bytes(16), "1": bytes(16)})
    return path


def sparse(path: Path) -> None:
    """A file of 1 TiB that takes no room."""
    with path.open("wb") as file:
        file.truncate(1 << 40)


def members(path: Path) -> None:
    """JSON whose lists and objects take thirty times as much memory as its text."""
    path.write_bytes(b'{"a":[' + b"{}," * (8 * MIB) + b"1]}")


def nested(path: Path) -> None:
    """JSON that is deeper than any reader goes."""
    path.write_bytes(b'{"a":' + b"[" * MIB)


def in_text(path: Path) -> None:
    """An array of text, whose chunks have no size of their own."""
    text = {"dtype": "|O", "filters": [{"id": "vlen-utf8"}], "fill_value": ""}
    write_array(path.parent, {}, **text)
    sparse(path)


CASES: dict[str, tuple[str, Callable[[Path], None], str]] = {
    "a document of 1 TiB": (".zattrs", sparse, "the document is too large"),
    "too many members": (".zattrs", members, "the document has too many members"),
    "too many levels": (".zarray", nested, "the document is nested too deeply"),
    "a chunk of 1 TiB": ("0", sparse, "the object is larger than a chunk of this array can be"),
    "text of 1 TiB": ("0", in_text, "the object is larger than a chunk of this array can be"),
}


@pytest.mark.slow(one_in=5)
@pytest.mark.needs_reader("once")
@pytest.mark.parametrize(("key", "make", "message"), CASES.values(), ids=CASES)
def test_what_is_too_large_is_refused_by_node_and_not_read(
    source: Path, tmp_path: Path, key: str, make: Callable[[Path], None], message: str
) -> None:
    make(source / "bad" / key)
    ran, peak = measured("migrate", source, tmp_path / "out.zarr")
    told = [(p["node"], p["key"], p["message"]) for p in ran.refusals]
    assert (ran.code, told) == (1, [("bad", f"bad/{key}", message)])
    assert peak < MOST_OF_DOCUMENTS
    assert_good(tmp_path / "out.zarr")


@pytest.mark.slow
@pytest.mark.needs_reader("once")
@pytest.mark.parametrize("key", ["bad/.zattrs", "bad/0"])
def test_a_member_of_a_zip_file_unpacks_to_no_more(source: Path, tmp_path: Path, key: str) -> None:
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for file in sorted(source.rglob("*")):
            if file.is_file() and file != source / key:
                archive.write(file, file.relative_to(source))
        with archive.open(key, "w") as member:
            for _ in range(512):
                member.write(bytes(MIB))
    ran, peak = measured("migrate", tmp_path / "bomb.zip", tmp_path / "out.zarr")
    assert (ran.code, [(p["node"], p["key"]) for p in ran.refusals]) == (1, [("bad", key)])
    assert peak < MOST_OF_DOCUMENTS
    assert_good(tmp_path / "out.zarr")


def test_a_inner_chunk_of_a_shard_is_no_larger_than_a_chunk(tmp_path: Path) -> None:
    path = tmp_path / "bad.zarr"
    (path / "c").mkdir(parents=True)
    (path / "zarr.json").write_text(json.dumps(SHARDED))
    sparse(path / "c/0")
    index = np.full((64, 2), 2**64 - 1, "<u8")
    index[0] = 0, 1 << 39
    with (path / "c/0").open("r+b") as file:
        file.seek((1 << 40) - index.nbytes)
        file.write(index.tobytes())
    ran = migrate(path, tmp_path / "out.zarr")
    assert [(p["key"], p["message"]) for p in ran.refusals] == [
        ("c/0", "the object is larger than a chunk of this array can be")
    ]


def test_a_legal_stream_may_hold_more_than_an_encoder_needs(source: Path, tmp_path: Path) -> None:
    """Skippable frames (RFC 8878, 3.1.2) before the frame of 16 bytes."""
    import numcodecs

    padding = struct.pack("<II", 0x184D2A50, 40_000) + bytes(40_000)
    padded = padding + numcodecs.Zstd().encode(GOOD[:4].tobytes())
    write_array(source / "bad", {"0": padded}, compressor={"id": "zstd", "level": 1})
    (source / "bad/1").unlink()
    assert migrate(source, tmp_path / "out.zarr").code == 0
    assert read(tmp_path / "out.zarr/bad")[:4].tolist() == GOOD[:4].tolist()


class _Endless(BaseHTTPRequestHandler):
    """Sends zeros until the other side has enough: as they are, or packed to a thousandth."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        packer = zlib.compressobj(9, zlib.DEFLATED, 31)
        packed = self.path.startswith("/packed")
        if packed:
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        try:
            while True:
                piece = packer.compress(bytes(MIB)) if packed else bytes(MIB)
                if piece:
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        except OSError:
            self.close_connection = True

    def log_message(self, *_: Any) -> None:
        """Says nothing."""


@pytest.fixture
def endless() -> Iterator[str]:
    """The address of a server whose answers do not end."""
    with serving(_Endless) as url:
        yield url


@pytest.mark.parametrize("how", ["plain", "packed"])
def test_an_answer_over_http_that_does_not_end_is_read_up_to_its_bound(endless: str, how: str) -> None:
    storage = open_storage(f"{endless}/{how}")
    with pytest.raises(ChunkError, match="larger than a chunk of this array can be; found more than"):
        storage.get("0", ReadLimit(4 * MIB))
    with pytest.raises(BadObjectError, match=r"too large.*max_document_size"):
        storage.get(".zattrs", ReadLimit(4 * MIB, "document"))
    assert storage.get_part("0", 5, 10) == bytes(10)


def test_members_within_texts_are_not_counted() -> None:
    """A table as text in an attribute is one value, whatever it holds."""
    text = "1,2,{},[]," * MIB
    assert parse_object(json.dumps({"table": text}).encode(), ".zattrs") == {"table": text}
    with pytest.raises(MetadataError, match="too many members"):
        parse_object(b'{"a":"\\""' + b',"b":1' * (6 * MIB) + b"}", ".zattrs")


# Blosc chunks that numcodecs alone would read wrongly without a word, or not at all.


WHOLE = bytes(numcodecs.Blosc("lz4", 5, 1).encode(np.arange(4000, dtype="<i4") % 7))


def lying(cut: int) -> bytes:
    """Cut short, with a header that says so (bytes 12 to 15: compressed size)."""
    short = WHOLE[:-cut]
    return short[:12] + struct.pack("<I", len(short)) + short[16:]


def by(number: int) -> bytes:
    """As if compressed with another codec (bits 5 to 7 of the flags)."""
    return WHOLE[:2] + bytes([WHOLE[2] & 0x1F | number << 5]) + WHOLE[3:]


DAMAGE: dict[str, Callable[[], bytes]] = {
    "one byte short": lambda: WHOLE[:-1],
    "half": lambda: WHOLE[: len(WHOLE) // 2],
    "a header only": lambda: WHOLE[:16],
    "less than a header": lambda: WHOLE[:10],
    "short and the header agrees": lambda: lying(5),
    "shorter and the header agrees": lambda: lying(len(WHOLE) // 2),
    "snappy": lambda: by(2),
    "a codec that does not exist": lambda: by(6),
}


@pytest.mark.slow(one_in=5)
@pytest.mark.parametrize("options", [[], ["--codecs", "zstd:1"]], ids=["copied", "decoded"])
@pytest.mark.parametrize("damaged", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_blosc_chunk_is_refused(
    damaged: Callable[[], bytes], options: list[str], tmp_path: Path
) -> None:
    source, destination = write_archive(tmp_path / "source.zarr"), tmp_path / "out.zarr"
    blosc = {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}
    write_array(source / "bad", {"0": damaged()}, shape=[4000], chunks=[4000], compressor=blosc)
    ran = migrate(source, destination, *options)
    assert ran.code == 1
    assert [(p["kind"], p["node"], p["key"]) for p in ran.refusals] == [("chunk", "bad", "bad/0")]
    assert not (destination / "bad/zarr.json").exists()
    assert_good(destination)

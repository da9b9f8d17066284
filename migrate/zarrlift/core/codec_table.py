"""The table of codecs: one row each, with every fact that is not a matter of code.

Names without a prefix are those of the Zarr v3 specification and of zarr-extensions; `numcodecs.*` are
zarr-python's names for the codecs of numcodecs, with numcodecs' configuration without its `id`. `lz4_block`
and `lz4_bare` are this project's, for N5; `numpy_bytes` is for types that v2 can express and v3 cannot, and
`numcodecs.object-categorize` for `categorize` as the first filter of an object array. `hdmf-zarr.objects` is
for NWB. None of these five is ever written.

A codec without a row that an installed package registers with numcodecs, by an entry point, is decoded by it
(`facts_of`): zarr-python 2 opens such an archive without an import.

Sources: numcodecs 0.16.6, whose configurations the members are; imagecodecs 2024.12.30 and 2026.3.6
(`imagecodecs/numcodecs.py`); the registers https://zarr-specs.readthedocs.io/en/latest/v3/ and
https://github.com/zarr-developers/zarr-extensions (listing of 2026-07-14). Who reads a codec was observed by
`tests/end_to_end/test_reader_table.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, Final

from .codec_facts import (
    Choice,
    CodecFacts,
    Dtype,
    Flag,
    Integer,
    Items,
    Kind,
    Like,
    Member,
    Number,
    Readers,
    Role,
)
from .codec_members import (
    BLOSC,
    C_INT,
    CAST_VALUE,
    GZIP_LEVEL,
    HDMF,
    JENKINS,
    JSON2,
    LABELS,
    LOCATION,
    LZMA,
    PCODEC,
    TYPES,
    ZFPY,
    ZSTD,
    and_four,
    as_blosc,
    as_crc32c,
    as_gzip,
    as_zstd,
    base64_size,
    packed_bits,
    same_size,
    words,
)
from .codec_spec import CodecSpec

READERS: Final = ("zarr-python", "tensorstore", "zarrs", "xarray", "zarrita", "neuroglancer", "gdal")

BY_PYTHON: Final = Readers(None, "tensorstore zarrs zarrita neuroglancer gdal")
BY_PYTHON_ZARRS: Final = Readers(None, "tensorstore zarrita neuroglancer gdal")
BY_PYTHON_ZARRITA: Final = Readers(None, "tensorstore zarrs neuroglancer gdal")
BY_MOST: Final = Readers(None, "tensorstore neuroglancer gdal")
BY_ZARRITA: Final = Readers(None, "zarr-python tensorstore zarrs xarray neuroglancer gdal")
BY_NONE: Final = Readers(None, " ".join(READERS))
"""Readers of what is in use, but not registered."""

# ----- rows of one kind; what a row does not state does not apply to its codec


def _serializer(name: str, made_by: str, **facts: Any) -> CodecFacts:
    return CodecFacts(name=name, kind="serializer", role="items", made_by=made_by, **facts)


def _filter(v2_id: str, kind: Kind, **facts: Any) -> CodecFacts:
    return _from_numcodecs(v2_id, kind=kind, role="filter", **facts)


def _from_numcodecs(v2_id: str, **facts: Any) -> CodecFacts:
    made_by = ".from_numcodecs:FromNumcodecs"
    return CodecFacts(name=f"numcodecs.{v2_id}", v2_id=v2_id, made_by=made_by, **facts)


def _compressor(name: str, made_by: str, *, kind: Kind = "bytes", **facts: Any) -> CodecFacts:
    return CodecFacts(name=name, kind=kind, role="compressor", made_by=made_by, **facts)


def _imagecodec(
    name: str, arguments: Mapping[str, str], image_end: bytes | None, made_by: str = ".images:ImageCodec"
) -> CodecFacts:
    """`arguments` of the decoder -> members; an image ends with `image_end`, None for other payloads."""
    name = f"imagecodecs_{name}"
    parameters = {"arguments": arguments, "image_end": image_end}
    return _compressor(
        name,
        made_by,
        v2_id=name,
        package="imagecodecs",
        extra="codecs",
        parameters=parameters,
        members=None,
        readers=None,
    )


# ----- the table

# fmt: off
_ROWS: Final = (
    # `endian` was the name of `bytes` in drafts of 2023; zarr-python and zarrs still read it.
    _serializer("bytes", ".fixed:Bytes", bound=same_size, aliases=("endian",), readers=Readers("core", ""),
        members={"endian": Choice(None, values=words("little", "big"), everywhere=("little", "big"))}),
    CodecFacts(name="transpose", kind="transpose", role="frame", made_by=None, bound=same_size,
        members={"order": Member()}, readers=Readers("core", "")),
    _compressor("gzip", ".deflate:Gzip", n5_type="gzip", members={"level": GZIP_LEVEL},
        readers=Readers("core", "")),
    _compressor("blosc", ".blosc:Blosc", n5_type="blosc", members=BLOSC, readers=Readers("core", "")),
    _compressor("zstd", ".zstd:Zstd", n5_type="zstd", members=ZSTD, readers=Readers("zarr-extensions", "")),
    CodecFacts(name="crc32c", kind="bytes", role="checksum", made_by=".crc32c:Crc32c", bound=and_four,
        members={}, readers=Readers("core", "gdal")),
    CodecFacts(name="sharding_indexed", kind="serializer", role="frame", made_by=None, members=None,
        readers=Readers("core", "gdal")),
    _serializer("vlen-utf8", ".vlen:VlenUtf8", v2_id="vlen-utf8", objects="text", members={},
        readers=Readers("zarr-extensions", BY_MOST.refused_by)),
    _serializer("vlen-bytes", ".vlen:VlenBytes", v2_id="vlen-bytes", objects="bytes", members={},
        readers=Readers("zarr-extensions", BY_PYTHON_ZARRS.refused_by)),
    _compressor("numcodecs.zlib", ".deflate:Zlib", v2_id="zlib", n5_type="gzip with useZlib",
        members={"level": Integer(low=-1, high=9, default=1)}, readers=BY_MOST),
    # zarr-python omits `elementsize` in v3 if it is the item size; Zarr v2 always has one.
    _filter("shuffle", "bytes", bound=same_size, readers=BY_MOST,
        members={"elementsize": Integer(low=0, high=C_INT, default=None, of_item=4)}),
    _compressor("numcodecs.gzip", ".deflate:Gzip", v2_id="gzip", like=Like("gzip", as_gzip),
        members={"level": GZIP_LEVEL}, readers=BY_PYTHON_ZARRITA),
    _compressor("numcodecs.lz4", ".lz4:Lz4", v2_id="lz4", n5_type="lz4",
        members={"acceleration": Integer(low=-C_INT - 1, high=C_INT, default=1)}, readers=BY_PYTHON_ZARRITA),
    _compressor("numcodecs.zstd", ".zstd:Zstd", v2_id="zstd", like=Like("zstd", as_zstd), members=ZSTD,
        readers=BY_PYTHON_ZARRITA),
    _compressor("numcodecs.blosc", ".blosc:Blosc", v2_id="blosc", like=Like("blosc", as_blosc), members=BLOSC,
        readers=BY_PYTHON_ZARRITA),
    # zarr-python reads them from 3.4 on, cast_value with cast-value-rs; zarrita.js from 0.7.
    CodecFacts(name="scale_offset", kind="array", role="filter", made_by=".cast_value:ScaleOffset",
        bound=same_size, members={"offset": Member(0), "scale": Member(1)},
        readers=Readers("zarr-extensions", BY_ZARRITA.refused_by)),
    CodecFacts(name="cast_value", kind="array", role="filter", made_by=".cast_value:CastValue",
        members=CAST_VALUE, readers=Readers("zarr-extensions", BY_ZARRITA.refused_by)),
    # the first value, then differences
    _filter("delta", "array", members=TYPES, items=Items("dtype", "astype"), lossy=True,
        readers=BY_PYTHON_ZARRITA),
    # low mantissa bits set to zero; `bitround` is the registered name, which zarrs writes. zarr-python 3.4.2
    # does not know it; both read `numcodecs.bitround`.
    _filter("bitround", "array", members={"keepbits": Integer(low=0, high=1 << 16)}, items=Items(),
        casts=True, bound=same_size, lossy=True, readers=BY_PYTHON_ZARRITA, aliases=("bitround",)),
    _compressor("numcodecs.bz2", ".streams:Bz2", v2_id="bz2", n5_type="bzip2",
        members={"level": Integer(low=1, high=9, default=1)}, readers=BY_PYTHON_ZARRS),
    # stored as (value - offset) * scale, rounded to a whole number
    _filter("fixedscaleoffset", "array", members={"offset": Number(), "scale": Number(), **TYPES},
        items=Items("dtype", "astype"), lossy=True, readers=BY_PYTHON_ZARRS),
    _compressor("numcodecs.lzma", ".streams:Lzma", v2_id="lzma", n5_type="xz", members=LZMA,
        readers=BY_PYTHON),
    CodecFacts(name="numcodecs.crc32c", v2_id="crc32c", kind="bytes", role="checksum",
        made_by=".crc32c:Crc32c", bound=and_four, members=LOCATION, like=Like("crc32c", as_crc32c),
        readers=BY_PYTHON),
    *(
        _from_numcodecs(v2_id, kind="bytes", role="checksum", bound=and_four, members=members,
            readers=BY_PYTHON)
        for v2_id, members in (("crc32", LOCATION), ("adler32", LOCATION), ("fletcher32", {}),
            ("jenkins_lookup3", JENKINS))
    ),
    _filter("astype", "array", members={"encode_dtype": Dtype(), "decode_dtype": Dtype(of_item=True)},
        items=Items("decode_dtype", "encode_dtype"), casts=True, lossy=True, readers=BY_PYTHON),
    # rounded to decimal digits, stored as floats
    _filter("quantize", "array", members={"digits": Number(), **TYPES}, items=Items("dtype", "astype"),
        casts=True, lossy=True, readers=BY_PYTHON),
    # a count of padding bits, then eight booleans per byte, the highest bit first
    _filter("packbits", "array", members={}, items=Items(otherwise="|u1"), bound=packed_bits, lossy=True,
        readers=BY_PYTHON),
    _serializer("numpy_bytes", ".fixed:NumpyBytes", bound=same_size, members={"dtype": Member()},
        readers=BY_NONE),
    _compressor("lz4_block", ".lz4:Lz4Block", n5_type="lz4", package="xxhash", extra="n5",
        members={"blockSize": Integer(low=64, high=1 << 25, default=1 << 16)}, readers=BY_NONE),
    _compressor("lz4_bare", ".lz4:Lz4Bare", n5_type="lz4", members={}, readers=BY_NONE),
    _serializer("numcodecs.msgpack2", ".objects:MsgPack2", v2_id="msgpack2", objects="document",
        members={name: Flag(False) for name in ("use_single_float", "use_bin_type", "raw")},
        package="msgpack", extra="codecs", readers=BY_NONE),
    _serializer("numcodecs.vlen-array", ".vlen:VlenArray", v2_id="vlen-array", objects="arrays",
        members={"dtype": Dtype()}, readers=BY_NONE),
    _serializer("numcodecs.pickle", ".objects:Pickle", v2_id="pickle", objects="pickle",
        members={"protocol": Integer(low=-1, high=5, default=4)}, readers=BY_NONE),
    _from_numcodecs("base64", kind="bytes", role="encoding", members={}, bound=base64_size, readers=BY_NONE),
    # strings as the numbers of labels from 1; 0, and any number without a label, is the empty string
    _filter("categorize", "array", members=LABELS, items=Items("dtype", "astype", "|u1"), lossy=True,
        readers=BY_NONE),
    _serializer("numcodecs.object-categorize", ".from_numcodecs:ObjectCategorize", v2_id="categorize",
        objects="labels", readers=BY_NONE,
        members={**LABELS, "dtype": Choice(None, values=words("|O", "O", "object"))}),
    # zstd of several frames and gzip of several members, as the plan finds them in a sample of the chunks
    # (`planning/several_frames.py`); documents have the registered names.
    _compressor("zstd_frames", ".zstd:Zstd", members=ZSTD, like=Like("zstd", as_zstd), readers=None),
    _compressor("gzip_members", ".deflate:Gzip", members={"level": GZIP_LEVEL}, like=Like("gzip", as_gzip),
        readers=None),
    CodecFacts(name="n5_default", kind="serializer", role="frame", made_by=None, members=None,
        readers=Readers("zarr-extensions", BY_NONE.refused_by)),
    _serializer("numcodecs.json2", ".objects:Json2", v2_id="json2", objects="document", members=JSON2,
        readers=BY_ZARRITA),
    _serializer("hdmf-zarr.objects", ".hdmf:HdmfObjects", objects="hdmf", members=HDMF, readers=None),
    # zarr-python 3 reads both in place of `bytes`, if their package is installed: observed with zarr-python
    # 3.1.6 and 3.4.2, zfpy 1.0.1 and pcodec 1.1.0; no register lists them, and tensorstore 0.1.86 does not
    # know them.
    _compressor("numcodecs.pcodec", ".optional:PCodec", kind="numbers", v2_id="pcodec", members=PCODEC,
        package="pcodec", extra="codecs", readers=None),
    _compressor("numcodecs.zfpy", ".optional:Zfpy", kind="numbers", v2_id="zfpy", members=ZFPY,
        package="zfpy", extra="codecs", readers=None),
    _imagecodec("jpeg", {"colorspace": "colorspace_jpeg", "outcolorspace": "colorspace_data"}, b"\xff\xd9"),
    _imagecodec("jpeg2k", {"planar": "planar"}, b"\xff\xd9"),
    _imagecodec("jpegls", {}, b"\xff\xd9"),
    _imagecodec("jpegxl", {"index": "index", "keeporientation": "keeporientation"}, b""),
    _imagecodec("lerc", {}, b""),
    _imagecodec("png", {}, b"IEND"),
    # tifffile writes it into references to TIFF files; imagecodecs encodes it since 2026.
    _imagecodec("tiff", {"index": "index"}, b""),
    _imagecodec("webp", {"hasalpha": "hasalpha"}, b""),
    _imagecodec("zfp", {}, None, ".optional:ImagecodecsZfp"),
    _imagecodec("deflate", {"raw": "raw"}, None),
    _imagecodec("delta", {"axis": "axis", "dist": "dist"}, None),
    _imagecodec("lz4", {"header": "header"}, None),
    *(
        _imagecodec(name, {}, None)
        for name in (
            "blosc", "blosc2", "brotli", "bz2", "lz4f", "lzf", "lzfse", "lzma", "lzw", "packbits", "snappy",
            "zlib", "zlibng", "zopfli", "zstd",
        )
    ),
)
# fmt: on

TABLE: Final[Mapping[str, CodecFacts]] = MappingProxyType({row.name: row for row in _ROWS})
"""Name in chains -> row. JPEG XR has none: its decoder ends the process on some damaged chunks (imagecodecs
2026.3.6 and 2026.10.10).
"""
ALIASES: Final[Mapping[str, str]] = MappingProxyType(
    {alias: row.name for row in _ROWS for alias in row.aliases}
)
"""Name in documents of others -> name in chains."""
OBJECT_CODECS: Final[Mapping[str, CodecFacts]] = MappingProxyType(
    {row.v2_id: row for row in _ROWS if row.v2_id and row.kind == "serializer"}
)
"""`id` in Zarr v2 of a codec that an array of objects has as its first filter -> row."""
_V2: Final[Mapping[str, CodecFacts]] = MappingProxyType(
    {row.v2_id: row for row in _ROWS if row.v2_id and row.kind != "serializer"}
)
"""`id` in Zarr v2 of a codec from buffer to buffer -> row."""

ARRAY_FILTERS: Final = frozenset(row.name for row in _ROWS if row.kind == "array")
"""Filters that zarr-python 3 lists before the array-to-bytes codec."""
REGISTERED_FILTERS: Final = frozenset(name for name in ARRAY_FILTERS if not name.startswith("numcodecs."))
ARRAY_TO_BYTES: Final = frozenset(row.name for row in _ROWS if row.kind == "serializer")
NUMBERS: Final = frozenset(row.name for row in _ROWS if row.kind == "numbers")
"""Codecs that zarr-python 3 reads in place of `bytes`."""


SEVERAL: Final[Mapping[str, str]] = MappingProxyType({"zstd": "zstd_frames", "gzip": "gzip_members"})
"""Codec whose payloads are single streams -> the one for those of several."""


def facts_of(name: str) -> CodecFacts | None:
    """The row of a codec, or that of a codec that an installed package registers with numcodecs."""
    row = TABLE.get(name)
    if row is None and name.startswith("numcodecs."):
        return _installed(name.removeprefix("numcodecs."))
    return row


def facts_in_v2(v2_id: str) -> CodecFacts | None:
    """`facts_of` for the `id` of a buffer-to-buffer codec in Zarr v2."""
    return _V2.get(v2_id) or _installed(v2_id)


def role_of(name: str) -> Role | None:
    """The role of a codec; None for an unknown one."""
    facts = facts_of(name)
    return None if facts is None else facts.role


def is_registered(name: str) -> bool:
    """Whether a codec is in the core specification or in zarr-extensions."""
    facts = TABLE.get(name)
    return facts is not None and facts.readers is not None and facts.readers.register is not None


def require_facts(name: str) -> CodecFacts:
    """`facts_of` for a name that has a row."""
    facts = facts_of(name)
    assert facts is not None, name
    return facts


def registered(spec: CodecSpec, itemsize: int) -> CodecSpec:
    """The registered codec of the same bytes and values, for items of a size; otherwise the codec itself."""
    facts = facts_of(spec.name)
    if facts is None or facts.like is None:
        return spec
    configuration = facts.like.configuration(spec.configuration, itemsize)
    return spec if configuration is None else CodecSpec(facts.like.name, configuration)


def as_written(spec: CodecSpec) -> CodecSpec:
    """The codec under the name that documents have, whether its payloads have one stream or several."""
    return registered(spec, 1) if spec.name in SEVERAL.values() else spec


@cache
def _installed(v2_id: str) -> CodecFacts | None:
    """A row for a codec of which only an entry point is known; see `FromNumcodecs` for what this means."""
    if v2_id in OBJECT_CODECS or v2_id.startswith("imagecodecs_"):
        return None
    from importlib.metadata import entry_points  # takes as long to load as a small archive to read

    point = next(iter(entry_points(group="numcodecs.codecs", name=v2_id)), None)
    if point is None:
        return None
    package = point.module.partition(".")[0]
    return _from_numcodecs(
        v2_id,
        kind="bytes",
        role="compressor",
        package=package,
        extra=None,
        lossy=True,
        members=None,
        readers=None,
    )

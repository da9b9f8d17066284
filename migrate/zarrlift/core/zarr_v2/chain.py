"""Zarr v2 `order`, `filters` and `compressor` -> a codec chain in normal form.

Facts: https://zarr-specs.readthedocs.io/en/latest/v2/v2.0.html#chunks and #filters; codec configurations are
numcodecs' (`get_config`), validated by the strict reading as far as zarr-metadata knows them. Blosc's type
size, as observed with numcodecs 0.16.6, is the item size of its input buffer: that of the last array filter,
and 1 after any codec that returns bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from zarrstack.core.errors import MetadataError, UnsupportedError, ZarrstackError
from zarrstack.core.json_text import JSON, JSONObject, excerpt

from ..chain.chain import Chain
from ..codec_facts import CodecFacts
from ..codec_spec import CodecSpec
from ..codec_table import OBJECT_CODECS, TABLE, facts_in_v2, registered
from ..codecs.registry import compile_bytes_codec, require_package
from ..data_types.v2 import parse_v2_dtype
from ..data_types.v3 import DataType

Dtype = np.dtype[Any]

_HOLDS: Final[Mapping[str, str]] = {"text": "string", "labels": "string", "bytes": "bytes"}
"""Values of an object codec -> its decoded data type, unless that is any object."""
_WHOLE: Final = frozenset("biumM")
"""Kinds whose values are integers in storage: booleans, integers and times."""
_RAW_LZMA: Final = 3
"""The number of lzma's raw format, `lzma.FORMAT_RAW`."""


def read_chain(document: JSONObject, dtype: Dtype) -> tuple[Chain, DataType, list[ZarrstackError]]:
    """Chain and data type of a document that has passed the strict reading.

    `document` has `order`, `filters`, `compressor`, `dtype` and `shape`. Problems of all codecs are returned;
    the chain is valid only if there are none. Raises UnsupportedError for a data type that v3 does not have.
    """
    filters: list[JSONObject] = list(document["filters"] or ())
    if document["compressor"] is not None:
        filters.append(document["compressor"])
    places = [f"filters[{i}]" for i in range(len(document["filters"] or ()))] + ["compressor"]
    problems: list[ZarrstackError] = []
    transposed = document["order"] == "F" and len(document["shape"]) > 1

    if dtype.hasobject:
        head, data_type, head_problems = _object_head(document, dtype, transposed)
        problems.extend(head_problems)
        first, item = 1, np.dtype(np.uint8)
        if head is not None and head.name == "numcodecs.object-categorize":
            item = _item_of(filters[0], "astype", np.dtype("u1"), problems)
    else:
        head, data_type = _array_head(document["dtype"], dtype)
        first, item = 0, dtype

    specs = []
    for place, codec in list(zip(places, filters, strict=False))[first:]:
        try:
            spec, item = _filter(codec, item)
            specs.append(spec)
        except ZarrstackError as error:
            problems.append(type(error).of(error.problem, before=f"{place}: "))
    order = list(reversed(range(len(document["shape"]))))
    front = (CodecSpec("transpose", {"order": order}),) if transposed else ()
    chain = Chain((*front, head or CodecSpec("bytes"), *specs))
    return chain, data_type, problems


def unknown_codecs(document: JSONObject) -> list[ZarrstackError]:
    """Problems of codecs that do not depend on the data type; for documents whose dtype is refused."""
    codecs = [*(document["filters"] or ()), document["compressor"]]
    return [
        UnsupportedError(f"unknown codec {codec['id']!r}", found=excerpt(codec))
        for codec in codecs
        if codec is not None and codec["id"] not in OBJECT_CODECS and facts_in_v2(codec["id"]) is None
    ]


# ----- array to bytes


def _array_head(text: JSON, dtype: Dtype) -> tuple[CodecSpec, DataType]:
    """The codec and the data type of fixed-size items; `object` for types without a v3 name."""
    if is_beyond_v3(dtype):
        return CodecSpec("numpy_bytes", {"dtype": text}), DataType("object")
    return packing(text, dtype), DataType.from_numpy(dtype)


def is_beyond_v3(dtype: Dtype) -> bool:
    """Whether a type is, or contains, a long double or a sub-array of a fixed size."""
    if dtype.subdtype is not None:
        return True
    if dtype.names is not None and dtype.fields is not None:
        inner = [dtype.fields[name][0] for name in dtype.names]
        return not dtype.hasobject and all(i.itemsize for i in inner) and any(map(is_beyond_v3, inner))
    return dtype.char in "gG"


def packing(text: JSON, dtype: Dtype) -> CodecSpec:
    """The array-to-bytes codec of fixed-size items; `text` is their v2 dtype."""
    if dtype.names is not None:
        if _is_big(dtype):
            return CodecSpec("numpy_bytes", {"dtype": text})
        return CodecSpec("bytes", {"endian": "little"})
    if dtype.kind in "SVb" or dtype.itemsize == 1:
        return CodecSpec("bytes")
    return CodecSpec("bytes", {"endian": "big" if _is_big(dtype) else "little"})


def _is_big(dtype: Dtype) -> bool:
    """Whether any part of a type is big-endian."""
    if dtype.subdtype is not None:
        return _is_big(dtype.subdtype[0])
    if dtype.names is not None and dtype.fields is not None:
        return any(_is_big(dtype.fields[name][0]) for name in dtype.names)
    return dtype.str.startswith(">")


def _object_head(
    document: JSONObject, dtype: Dtype, transposed: bool
) -> tuple[CodecSpec | None, DataType, list[ZarrstackError]]:
    data_type = DataType("object")
    if dtype.kind != "O":
        raise UnsupportedError(
            "a struct with object fields has no v3 data type", found=excerpt(document["dtype"])
        )
    filters = document["filters"] or ()
    codec = filters[0] if filters else None
    if codec is None or codec["id"] not in OBJECT_CODECS:
        found = "no filters" if codec is None else f"{excerpt(codec)} first"
        expected = "one of " + ", ".join(OBJECT_CODECS)
        return (
            None,
            data_type,
            [UnsupportedError("an array of objects without an object codec", found=found, expected=expected)],
        )
    facts = OBJECT_CODECS[codec["id"]]
    configuration = {key: value for key, value in codec.items() if key != "id"}
    problems: list[ZarrstackError] = []
    if facts.objects == "document" and transposed:
        # zarr-python 2.18 and 3.1.6 flatten the items in C order and reshape them in F order: they do not
        # read what was written, and which of the two was intended is unknown.
        problems.append(
            UnsupportedError(
                f"{codec['id']} with order F: zarr-python does not read what was written",
                found='"order": "F"',
                expected='"order": "C"',
            )
        )
    if facts.objects == "labels":
        labels = configuration.get("labels")
        if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
            problems.append(
                UnsupportedError(
                    "categorize with labels that are not text", found=excerpt(labels), expected="strings"
                )
            )
    spec = CodecSpec(facts.name, configuration)
    try:
        require_package(facts, spec)
    except UnsupportedError as error:
        problems.append(error)
    return spec, DataType(_HOLDS.get(str(facts.objects), "object")), problems


# ----- bytes to bytes


def _filter(codec: JSONObject, item: Dtype) -> tuple[CodecSpec, Dtype]:
    """The codec in our chain, and the type of its encoded items; `item` is that of its input."""
    name = codec["id"]
    facts = facts_in_v2(name)
    if facts is None:
        raise _unknown(codec)
    spec = CodecSpec(facts.name, {key: value for key, value in codec.items() if key != "id"})
    if facts.package is not None or (name == "lzma" and codec.get("format") == _RAW_LZMA):
        # Its package may be missing; a raw stream's filters come from the document, and may be invalid.
        compile_bytes_codec(spec, item)
    problems: list[ZarrstackError] = []
    encoded = _encoded_item(codec, item, facts, problems)
    if problems:
        raise problems[0]
    return registered(spec, item.itemsize), encoded


def _unknown(codec: JSONObject) -> UnsupportedError:
    name = codec["id"]
    if name in OBJECT_CODECS:
        return UnsupportedError(
            f"the object codec {name!r} is applied to an array that has no objects",
            found=excerpt(codec),
            expected="an object codec first, in an array of objects",
        )
    if name.startswith("imagecodecs_"):
        return UnsupportedError(
            f"codec {name!r} of imagecodecs is not supported",
            found=excerpt(codec),
            expected=", ".join(sorted(each for each in TABLE if each.startswith("imagecodecs_"))),
            advice="Write the array again with zarr-python 2 and another codec, or exclude it.",
        )
    return UnsupportedError(f"unknown codec {name!r}", found=excerpt(codec))


def _encoded_item(codec: JSONObject, item: Dtype, facts: CodecFacts, problems: list[ZarrstackError]) -> Dtype:
    """The type of a filter's encoded items (numcodecs 0.16.6, `encode` of each filter)."""
    items = facts.items
    if items is None:
        return np.dtype(np.uint8)
    stated = item
    if items.decoded is not None and items.otherwise is None:
        stated = _item_of(codec, items.decoded, item, problems)
        _check_fit(codec, items.decoded, stated, item, problems)
    default = stated if items.otherwise is None else np.dtype(items.otherwise)
    return default if items.encoded is None else _item_of(codec, items.encoded, default, problems)


def _check_fit(
    codec: JSONObject, member: str, stated: Dtype, item: Dtype, problems: list[ZarrstackError]
) -> None:
    """Append a problem if a filter views its input as a very different type.

    numcodecs views any input as the stated type. Differences of integers are restored exactly under any view
    of the same size, so times as int64 and the like are valid; arithmetic on numbers of another kind yields
    meaningless values.
    """
    exact = codec["id"] == "delta" and stated.kind in _WHOLE
    kinds = stated.kind == item.kind or {stated.kind, item.kind} <= _WHOLE
    bytes_of = item.kind == "u" and item.itemsize == 1 and stated.kind in _WHOLE
    if bytes_of or (stated.itemsize == item.itemsize and (exact or kinds)):
        return
    problems.append(
        MetadataError(
            f"{codec['id']}: {member} does not match the filter's input",
            found=stated.str,
            expected=f"a type such as {item.str}",
            advice="If the array was written this way, its values cannot be recovered; exclude it.",
        )
    )


def _item_of(codec: JSONObject, member: str, default: Dtype, problems: list[ZarrstackError]) -> Dtype:
    text = codec.get(member)
    if text is None:
        return default
    # numcodecs accepts short spellings, one of which is its default for categorize.
    short = {"u1": "|u1", "i1": "|i1", "<u1": "|u1", "<i1": "|i1"}
    try:
        return parse_v2_dtype(short.get(text, text) if isinstance(text, str) else text)
    except ZarrstackError as error:
        problems.append(type(error).of(error.problem, before=f"{codec['id']}: {member}: "))
        return default

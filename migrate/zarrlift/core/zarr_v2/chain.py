"""Zarr v2 `order`, `filters` and `compressor` -> a codec chain in normal form.

Facts: https://zarr-specs.readthedocs.io/en/latest/v2/v2.0.html#chunks and #filters; codec configurations are
numcodecs' (`get_config`), checked by the members in the table of codecs. Blosc's type size, as observed with
numcodecs 0.16.6, is the item size of its input buffer: that of the last array filter, and 1 after any codec
that returns bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from zarrstack.core.errors import MetadataError, Problem, UnsupportedError, ZarrstackError
from zarrstack.core.json_text import JSON, JSONObject, excerpt

from ..chain.chain import Chain
from ..codec_facts import Choice, CodecFacts, Integer, wrong_member
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


def read_chain(document: JSONObject, dtype: Dtype) -> tuple[Chain, DataType, list[ZarrstackError]]:
    """Chain and data type of a document without `codec_problems`.

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
            try:
                item = _item_of(filters[0], "astype", item)
            except ZarrstackError as error:
                problems.append(error)
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


def codec_problems(document: JSONObject) -> Iterator[Problem]:
    """What is wrong with `filters` and `compressor` themselves, whatever the data type."""
    filters, compressor = document.get("filters"), document.get("compressor")
    if filters is not None and not isinstance(filters, list):
        yield bad_member(
            "filters is not a list", found=excerpt(filters), expected="a list of codecs, or null"
        )
    codecs = [(f"filters[{i}]", item) for i, item in enumerate(filters if isinstance(filters, list) else ())]
    for place, codec in [*codecs, *([] if compressor is None else [("compressor", compressor)])]:
        if not isinstance(codec, dict) or not isinstance(codec.get("id"), str):
            yield bad_member(f"{place} is not a codec", found=excerpt(codec), expected='{"id": ..., ...}')
            continue
        is_object = place == "filters[0]" and document.get("dtype") == "|O"
        facts = OBJECT_CODECS.get(codec["id"]) if is_object else None
        facts = facts or facts_in_v2(codec["id"]) or OBJECT_CODECS.get(codec["id"])
        try:
            if facts is None:
                raise _unknown(codec)
            _read_members(facts, codec)
        except ZarrstackError as error:
            yield type(error).of(error.problem, before=f"{place}: ").problem


def _read_members(facts: CodecFacts, codec: JSONObject) -> None:
    """Raise MetadataError for a member that numcodecs does not accept, such as a level of 5.0 or null."""
    spec = replace(_spec(facts, codec), name=codec["id"])
    if facts.members is not None:
        facts.read(spec)
        for name, value in spec.configuration.items():
            member = facts.members[name]
            is_float = isinstance(member, Integer | Choice) and isinstance(value, float)
            if is_float or (value is None and member.default is not None):
                raise wrong_member(spec, name, member.expected)


def _spec(facts: CodecFacts, codec: JSONObject) -> CodecSpec:
    return CodecSpec(facts.name, {name: value for name, value in codec.items() if name != "id"})


def bad_member(message: str, **fields: Any) -> Problem:
    """The problem of a member of a `.zarray`."""
    return Problem(kind="metadata", message=message, **fields)


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
    if dtype.metadata:  # bfloat16
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
    spec = _spec(facts, codec)
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
    spec = _spec(facts, codec)
    if facts.package is not None or name == "lzma":
        # Its package may be missing, or the filters that the document gives to lzma be invalid.
        compile_bytes_codec(spec, item)
    return registered(spec, item.itemsize), _encoded_item(codec, item, facts)


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


def _encoded_item(codec: JSONObject, item: Dtype, facts: CodecFacts) -> Dtype:
    """The type of a filter's encoded items (numcodecs 0.16.6, `encode` of each filter)."""
    items = facts.items
    if items is None:
        return np.dtype(np.uint8)
    stated = item
    if items.decoded is not None and items.otherwise is None:
        stated = _item_of(codec, items.decoded, item)
        _require_fit(codec, items.decoded, stated, item)
    default = stated if items.otherwise is None else np.dtype(items.otherwise)
    return default if items.encoded is None else _item_of(codec, items.encoded, default)


def _require_fit(codec: JSONObject, member: str, stated: Dtype, item: Dtype) -> None:
    """Raise MetadataError if a filter views its input as a very different type.

    numcodecs views any input as the stated type. Differences of integers are restored exactly under any view
    of the same size, so times as int64 and the like are valid; arithmetic on numbers of another kind yields
    meaningless values.
    """
    exact = codec["id"] == "delta" and stated.kind in _WHOLE
    kinds = stated.kind == item.kind or {stated.kind, item.kind} <= _WHOLE
    bytes_of = item.kind == "u" and item.itemsize == 1 and stated.kind in _WHOLE
    if not bytes_of and (stated.itemsize != item.itemsize or not (exact or kinds)):
        raise MetadataError(
            f"{codec['id']}: {member} does not match the filter's input",
            found=stated.str,
            expected=f"a type such as {item.str}",
            advice="If the array was written this way, its values cannot be recovered; exclude it.",
        )


def _item_of(codec: JSONObject, member: str, default: Dtype) -> Dtype:
    text = codec.get(member)
    if text is None:
        return default
    # numcodecs accepts short spellings, one of which is its default for categorize.
    short = {"u1": "|u1", "i1": "|i1", "<u1": "|u1", "<i1": "|i1"}
    try:
        return parse_v2_dtype(short.get(text, text) if isinstance(text, str) else text)
    except ZarrstackError as error:
        raise type(error).of(error.problem, before=f"{codec['id']}: {member}: ") from None

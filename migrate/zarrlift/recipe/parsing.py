"""Parses the options of a recipe that have a form of their own: codecs, data types, lengths and conventions.

Short forms of `--codecs`, joined by `+` from the array to the stored bytes:

    none                        no compression
    zstd[:level]                level -131072 to 22, default 3
    gzip[:level]                level 0 to 9, default 6
    blosc[:cname[:level[:shuffle]]]     default zstd, 5, and a shuffle suitable for the data type
    crc32c                      a checksum, such as zstd:3+crc32c

JSON is a list of v3 codecs; without an array-to-bytes codec it only defines the compression. Limits:
https://zarr-specs.readthedocs.io/en/latest/v3/codecs/ (gzip, blosc) and
https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/zstd.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeAlias

from zarrstack.core.errors import UsageError, ZarrstackError
from zarrstack.core.json_text import JSON, JSONObject, canonical
from zarrstack.core.similar_names import did_you_mean
from zarrstack.core.sizes import parse_size

from ..core.chain.chain import Chain
from ..core.chain.codec_limits import limits_problem
from ..core.chain.reader_table import codecs, data_types
from ..core.codec_spec import CodecSpec
from ..core.codec_table import ARRAY_FILTERS, ARRAY_TO_BYTES
from ..core.data_types.v3 import DataType

MODES: Final = ("portable", "registered", "keep")
SHORT_NAMES: Final = ("none", "zstd", "gzip", "blosc", "crc32c")
_KNOWN: Final = (
    "portable, registered, keep, none, zstd:3, gzip:6, blosc:zstd:5:shuffle, crc32c (joined by '+'), "
    "or v3 JSON"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CodecRequest:
    """The requested codec chain of an array."""

    mode: Literal["portable", "registered", "keep", "explicit"]
    head: tuple[CodecSpec, ...] = ()
    """Any transpose codecs and the array-to-bytes codec, if requested; otherwise empty."""
    tail: tuple[CodecSpec, ...] = ()
    """The codecs after it; a `blosc` without `typesize` or `shuffle` is completed for the data type."""
    text: str | None = field(default=None, compare=False)
    """The request as it was written; None if it was given as a chain."""

    def to_json(self) -> JSON:
        """The text, or the chain in normal form."""
        return self.text or [codec.to_json() for codec in (*self.head, *self.tail)]


def parse_codecs(value: str | JSONObject | list[JSON] | Chain | CodecRequest) -> CodecRequest:
    """The request in `--codecs`; raises UsageError with the supported forms."""
    if isinstance(value, CodecRequest):
        return value
    if isinstance(value, Chain):
        return _split(value)
    text = value if isinstance(value, str) else canonical(value)
    return replace(_parse_text(text), text=text)


def _parse_text(text: str) -> CodecRequest:
    stripped = text.strip()
    for mode in MODES:
        if stripped == mode:
            return CodecRequest(mode=mode)
    if stripped.startswith(("[", "{")):
        return _parse_json(stripped)
    if not stripped:
        raise UsageError("no codecs given", expected=_KNOWN)
    parts = stripped.split("+")
    if parts == ["none"]:
        return CodecRequest(mode="explicit")
    return CodecRequest(mode="explicit", tail=tuple(_short(part.strip(), text) for part in parts))


def _short(part: str, text: str) -> CodecSpec:
    name, *options = part.split(":")
    if name == "none" or name not in SHORT_NAMES:
        raise UsageError(
            f"unknown codec {name!r}" if name != "none" else "'none' cannot be combined with others",
            found=text,
            expected=_KNOWN,
            advice=did_you_mean(name, (*SHORT_NAMES, *MODES)),
        )
    most = {"crc32c": 0, "zstd": 1, "gzip": 1, "blosc": 3}[name]
    if len(options) > most:
        raise UsageError(f"too many options for {name}", found=part, expected=_KNOWN)
    if name == "crc32c":
        return CodecSpec("crc32c")
    configuration: dict[str, JSON]
    if name == "zstd":
        configuration = {"level": _level(options, 0, 3, part), "checksum": False}
    elif name == "gzip":
        configuration = {"level": _level(options, 0, 6, part)}
    else:
        cname = options[0] if options and options[0] else "zstd"
        configuration = {"cname": cname, "clevel": _level(options, 1, 5, part)}
        if len(options) == 3:
            configuration["shuffle"] = options[2]
        configuration["blocksize"] = 0
    return _within(CodecSpec(name, configuration), part)


def _level(options: list[str], index: int, default: int, part: str) -> int:
    if len(options) <= index or not options[index]:
        return default
    try:
        return int(options[index])
    except ValueError:
        raise UsageError("a level is an integer", found=part, expected="such as zstd:3") from None


def _within(spec: CodecSpec, text: str) -> CodecSpec:
    problem = limits_problem(spec)
    if problem is not None:
        raise UsageError(f"{spec.name}: {problem[0]}", found=text, expected=problem[1])
    return spec


def _parse_json(text: str) -> CodecRequest:
    try:
        data = json.loads(text)
    except ValueError as error:
        raise UsageError("the codecs are not valid JSON", found=str(error), expected=_KNOWN) from error
    data = [data] if isinstance(data, dict) else data
    try:
        specs = [CodecSpec.from_json(item) for item in data]
        for spec in specs:
            _check(spec)
        if any(spec.name in ARRAY_TO_BYTES for spec in specs):
            return _split(Chain.from_json(data))
    except UsageError:
        raise
    except ZarrstackError as error:
        problem = error.problem
        raise UsageError(problem.message, found=problem.found or text, expected=problem.expected) from error
    misplaced = [spec.name for spec in specs if spec.name == "transpose" or spec.name in ARRAY_FILTERS]
    if misplaced:
        raise UsageError(
            f"{misplaced[0]} requires an array-to-bytes codec in the same chain",
            found=text,
            expected='a whole chain, such as [{"name": "transpose", ...}, {"name": "bytes", ...}]',
            advice="--set order is the short form." if "transpose" in misplaced else None,
        )
    return CodecRequest(mode="explicit", tail=tuple(specs))


def _check(spec: CodecSpec) -> None:
    table = codecs()
    row = table.get(spec.name)
    if row is None or not row.readers:
        raise UsageError(
            f"unknown codec {spec.name!r}",
            found=canonical(spec.to_json()),
            expected="one of " + ", ".join(name for name, other in table.items() if other.readers),
            advice=did_you_mean(spec.name, table),
        )
    if spec.name == "sharding_indexed":
        raise UsageError(
            "shards cannot be requested as a codec",
            found=canonical(spec.to_json()),
            advice="Use --shards.",
        )
    _within(spec, canonical(spec.to_json()))


def _split(chain: Chain) -> CodecRequest:
    middle = chain.middle + 1
    return CodecRequest(mode="explicit", head=chain.codecs[:middle], tail=chain.codecs[middle:])


def parse_data_type(value: str | JSONObject | DataType | None) -> DataType | None:
    """The data type for `--dtype`: a v3 name such as float32, or v3 JSON; UsageError for anything else."""
    if value is None or isinstance(value, DataType):
        return value
    text = value if isinstance(value, str) else canonical(value)
    table = data_types()
    try:
        data_type = DataType.from_json(json.loads(text) if text.lstrip().startswith("{") else text)
    except (ZarrstackError, ValueError, KeyError) as error:
        raise UsageError(
            "unknown data type",
            found=text,
            expected=", ".join(name for name, row in table.items() if row.portable) + ", or v3 JSON",
            advice=did_you_mean(text, table),
        ) from error
    row = table.get(data_type.name)
    if row is None or "zarr-python" not in row.readers:
        raise UsageError("this data type cannot be written", found=text, expected=", ".join(table))
    return data_type


def data_type_text(data_type: DataType) -> str:
    """Inverse of `parse_data_type`."""
    data = data_type.to_json()
    return data if isinstance(data, str) else canonical(data)


Shape: TypeAlias = tuple[int, ...]

_LENGTHS: Final = re.compile(r"-?[0-9]{1,18}( *, *-?[0-9]{1,18})*")
_NAMED: Final = re.compile(r"([^,=]*[^,= ]) *= *(-?[0-9]{1,18})")
_TIMES: Final = re.compile(r"([1-9][0-9]{0,8})x")


@dataclass(frozen=True, slots=True)
class ByName:
    """Numbers by names of dimensions, such as time=100,lat=50."""

    numbers: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class EachAxis:
    """The same number of chunks per shard along each axis, such as 4x."""

    chunks: int


@dataclass(frozen=True, slots=True)
class ShardSize:
    """The size of a shard, such as 100MB."""

    nbytes: int
    text: str = field(compare=False)


Lengths: TypeAlias = Shape | ByName
"""Numbers for all axes in their order, or for the dimensions that are named."""
_LengthForms: TypeAlias = str | Sequence[int] | Mapping[str, int] | ByName
ShardRequest: TypeAlias = Literal["auto", "none"] | EachAxis | ShardSize | Lengths


def parse_chunks(value: _LengthForms | None) -> Lengths | None:
    """The lengths in `--chunks`, such as 64,64,64 or time=100, where -1 is a whole axis; UsageError."""
    if value is None:
        return None
    lengths = _lengths(value)
    numbers = _numbers(lengths)
    if not numbers or not all(n > 0 or n == -1 for n in numbers):
        raise UsageError(
            "--chunks takes lengths",
            found=repr(value),
            expected="such as 64,64,64, or time=100,lat=50; -1 is the whole axis",
        )
    return lengths


def parse_shards(value: _LengthForms | ShardRequest | None) -> ShardRequest | None:
    """The request in `--shards`: auto, none, 100MB, 8,8,8, time=4 or 4x, for example; raises UsageError."""
    if value is None or isinstance(value, EachAxis | ShardSize):
        return value
    if value == "auto":
        return "auto"
    if value == "none":
        return "none"
    if isinstance(value, str) and (times := _TIMES.fullmatch(value)):
        return EachAxis(int(times[1]))
    if isinstance(value, str) and value[-1:].isalpha() and (nbytes := parse_size(value) or 0) >= 1:
        return ShardSize(int(nbytes), value)
    counts = _lengths(value)
    numbers = _numbers(counts)
    if not numbers or any(n < 1 for n in numbers):
        raise UsageError(
            "--shards takes chunks per shard, or the size of a shard",
            found=repr(value),
            expected="auto, none, such as 100MB, 8,8,8, time=4 or 4x (along each axis)",
        )
    return counts


def is_by_size(request: ShardRequest | None) -> bool:
    """Whether the number of chunks per shard depends on their size."""
    return request == "auto" or isinstance(request, ShardSize)


def shards_text(request: ShardRequest) -> str:
    """Inverse of `parse_shards`."""
    match request:
        case str():
            return request
        case EachAxis():
            return f"{request.chunks}x"
        case ShardSize():
            return request.text
    return lengths_text(request)


def lengths_text(lengths: Lengths) -> str:
    """Inverse of `parse_chunks`."""
    if isinstance(lengths, ByName):
        return ",".join(f"{name}={number}" for name, number in lengths.numbers)
    return ",".join(map(str, lengths))


def _numbers(lengths: Lengths) -> Shape:
    return tuple(number for _, number in lengths.numbers) if isinstance(lengths, ByName) else lengths


def _lengths(value: object) -> Lengths:
    """The integers in a text, a sequence or a mapping; empty if it contains anything else."""
    if isinstance(value, ByName):
        return value
    if isinstance(value, Mapping):
        value = ",".join(f"{name}={number}" for name, number in value.items())
    if isinstance(value, str):
        if _LENGTHS.fullmatch(value):
            return tuple(map(int, value.split(",")))
        named = [_NAMED.fullmatch(part.strip()) for part in value.split(",")]
        pairs = tuple((match[1], int(match[2])) for match in named if match)
        return ByName(pairs) if len(dict(pairs)) == len(named) else ()
    if isinstance(value, Sequence) and all(type(n) is int for n in value):
        return tuple(value)
    return ()


BUILT_IN: Final = ("hdmf", "n5", "ome", "spatialdata", "xarray")
"""The conventions included in zarrlift."""
AUTO: Final = "auto"
NONE: Final = "none"
classes_by_name: Final[dict[str, type]] = {}
"""The classes that recipes of this process have named, by their names."""


def known_names() -> tuple[str, ...]:
    """All available names, sorted."""
    return tuple(sorted({*BUILT_IN, *classes_by_name}))


def parse_conventions(value: str | Sequence[str | type]) -> tuple[str, ...]:
    """The names in `auto`, `none` or a comma-separated list, each once; see `require_conventions`.

    `none` gives no names. `auto`, for all of zarrlift's own, may be part of a list: `auto,spatialdata`. In
    Python, a list may have subclasses of `zarrlift.conventions.Convention`, too: `["auto", Labels]`. Recipes
    and jobs store their names, and each process knows those that a recipe has named in it.
    """
    items: Any = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, Sequence) or not all(isinstance(item, str | type) for item in items):
        raise UsageError("--conventions takes names", found=repr(value), expected="such as ome,xarray")
    parsed = tuple(dict.fromkeys(item.strip() if isinstance(item, str) else _named(item) for item in items))
    return () if parsed == (NONE,) else parsed


def _named(convention: type) -> str:
    """The name of a class, which is remembered; a later class of the same name replaces it."""
    name: object = getattr(convention, "name", None)
    if not isinstance(name, str) or not name or "," in name or name in (*BUILT_IN, AUTO, NONE):
        raise UsageError(
            "a convention needs a name that is not one of zarrlift's own",
            found=repr(name),
            advice=f"Set `name` in {convention.__qualname__}.",
        )
    classes_by_name[name] = convention
    return name


def conventions_text(names: Iterable[str]) -> str:
    """Inverse of `parse_conventions`."""
    return ",".join(names) or NONE


def require_conventions(names: Iterable[str]) -> None:
    """Raise UsageError unless every name is `auto` or that of a known convention.

    Not part of parsing: a job may name a class that this process does not know.
    """
    for name in names:
        if name in BUILT_IN or name == AUTO or name in (choices := known_names()):
            continue
        raise UsageError(
            "'none' cannot be combined with others" if name == NONE else f"unknown convention {name!r}",
            found=",".join(names),
            expected="auto, none, or names: " + ", ".join(choices),
            advice=did_you_mean(name, choices)
            or "One of your own is known once `zarrlift.ArrayRecipe(conventions=[...])` has its class.",
        )

"""The options of the command line, and their conversion to frozen data."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer

from .choices import (
    Attributes,
    Axes,
    Check,
    Encoding,
    Endian,
    Format,
    Link,
    Location,
    Multiscale,
    Objects,
    Order,
    Separator,
    ShardIndex,
)

if TYPE_CHECKING:
    from zarrstack.core.json_text import JSONObject

    from ..recipe.recipe import Recipe


_FIELDS: Final = (
    "dtype",
    "endian",
    "order",
    "key_encoding",
    "separator",
    "chunks",
    "shards",
    "shard_index",
    "shard_index_location",
    "drop_empty",
    "objects",
    "allow_pickle",
    "attributes",
    "conventions",
    "multiscale",
)
"""Parameters named like a field of `ArrayRecipe`; None and False mean "not given"."""


def _option(*names: str, help: str, metavar: str | None = None, **more: Any) -> Any:
    return typer.Option(*names, help=help, metavar=metavar, **more)


Source: TypeAlias = Annotated[str, typer.Argument(help="The archive: a path or URL.", metavar="SRC")]
Destination: TypeAlias = Annotated[
    str | None, typer.Argument(help="Where the result goes; it must not exist yet.", metavar="DST")
]
Target: TypeAlias = Annotated[
    str,
    typer.Argument(
        help="The destination of the job (in place, the archive), or the job file.", metavar="TARGET"
    ),
]
SourceThrough: TypeAlias = Annotated[
    str | None,
    _option(
        "--source-through",
        help="Storage transformers over the source, such as retry,throttle:50MB/s,log:events.jsonl.",
        metavar="LAYERS",
    ),
]
DestThrough: TypeAlias = Annotated[
    str | None, _option("--dest-through", help="Storage transformers over the destination.", metavar="LAYERS")
]
InPlace: TypeAlias = Annotated[
    bool, _option("--in-place", help="Add v3 metadata to the source; its chunks stay.")
]
From: TypeAlias = Annotated[
    Format | None, _option("--from", help="The source's format, where two are found.")
]
Job: TypeAlias = Annotated[
    str | None, _option("--job", help="The job file; else beside the result.", metavar="PATH")
]
FollowLinks: TypeAlias = Annotated[
    bool, _option("--follow-links", help="Follow symbolic links that leave the archive.")
]
AxesOption: TypeAlias = Annotated[
    Axes | None,
    _option(
        "--axes",
        help="N5 only: reversed, to (z, y, x), is the default of copies; kept is the only choice in place.",
    ),
]
AllowFallback: TypeAlias = Annotated[
    bool,
    _option(
        "--allow-fallback",
        help="2022 draft of v3 only: read unknown data types as the fallback they name.",
    ),
]
MaxDocumentSize: TypeAlias = Annotated[
    str | None, _option("--max-document-size", help="Of a metadata document; else 64MiB.", metavar="SIZE")
]
Overwrite: TypeAlias = Annotated[
    bool, _option("--overwrite", help="Replace DST; the old one goes once the new one is whole.")
]
MovedSource: TypeAlias = Annotated[
    str | None, _option("--source", help="Where the source is now, if it was moved.", metavar="SRC")
]
MovedDestination: TypeAlias = Annotated[
    str | None, _option("--destination", help="Where the destination is now, if it was moved.", metavar="DST")
]
TakeOver: TypeAlias = Annotated[
    bool,
    _option(
        "--take-over",
        help="Go on although a process of another host has claimed the place. Only if that has surely ended.",
    ),
]
_OPTIONS_HELP = "fsspec options: KEY=VALUE (repeatable) or one JSON object."
StorageOptions: TypeAlias = Annotated[
    list[str] | None,
    _option("--storage-options", help=f"{_OPTIONS_HELP} For the source.", metavar="OPTIONS"),
]
BothOptions: TypeAlias = Annotated[
    list[str] | None,
    _option("--storage-options", help=f"{_OPTIONS_HELP} For both places.", metavar="OPTIONS"),
]
DestOptions: TypeAlias = Annotated[
    list[str] | None,
    _option("--dest-storage-options", help=f"{_OPTIONS_HELP} For the destination.", metavar="OPTIONS"),
]

RecipeFile: TypeAlias = Annotated[
    str | None,
    _option(
        "--recipe",
        help="A TOML recipe. Options given here replace its general part; its sections per path still win.",
        metavar="FILE.toml",
    ),
]
ViewRecipe: TypeAlias = Annotated[
    str | None,
    _option("--recipe", help="A TOML recipe: show what a migration by it would give.", metavar="FILE.toml"),
]
VerifyRecipe: TypeAlias = Annotated[
    str | None,
    _option("--recipe", help="The recipe of the migration, where no job knows it.", metavar="FILE.toml"),
]
Codecs: TypeAlias = Annotated[
    str | None,
    _option(
        "--codecs",
        help="portable (default of copies), keep (default in place), none, zstd:3, gzip:6, "
        "blosc:zstd:5:shuffle, or v3 JSON.",
        metavar="CODECS",
    ),
]
Dtype: TypeAlias = Annotated[
    str | None,
    _option("--dtype", help="Cast to a v3 data type; a value that does not fit is an error.", metavar="NAME"),
]
Clamp: TypeAlias = Annotated[
    bool, _option("--clamp", help="With --dtype: values out of range become the nearest one.")
]
Round: TypeAlias = Annotated[bool, _option("--round", help="With --dtype: values may be rounded.")]
EndianOption: TypeAlias = Annotated[Endian | None, _option("--endian", help="Byte order of the result.")]
OrderOption: TypeAlias = Annotated[
    Order | None, _option("--order", help="Memory order within the result's chunks.")
]
KeyEncoding: TypeAlias = Annotated[
    Encoding | None, _option("--key-encoding", help="How the result's chunks are named.")
]
SeparatorOption: TypeAlias = Annotated[
    Separator | None, _option("--separator", help="Separator within chunk keys.")
]
Chunks: TypeAlias = Annotated[
    str | None,
    _option(
        "--chunks", help="Shape of the result's chunks, such as 64,64,64; -1 is a whole axis.", metavar="N,N"
    ),
]
Shards: TypeAlias = Annotated[
    str | None,
    _option(
        "--shards",
        help="Chunks per shard: auto, 8,8,8, 4x (along each axis) or none; payloads are not decoded for it.",
        metavar="SHARDS",
    ),
]
Memory: TypeAlias = Annotated[
    str | None,
    _option(
        "--memory",
        help="With --chunks: what the process may take, such as 2GB; else a quarter of the machine's.",
        metavar="SIZE",
    ),
]
IndexLocation: TypeAlias = Annotated[
    Location | None,
    _option("--shard-index-location", help="Where in a shard its index stands; end if not given."),
]
ShardIndexOption: TypeAlias = Annotated[
    ShardIndex | None,
    _option("--shard-index", help="crc32c: the index of each shard gets a checksum; bytes: none."),
]
Include: TypeAlias = Annotated[
    list[str] | None,
    _option("--include", help="Only nodes whose path matches; repeatable.", metavar="GLOB"),
]
Exclude: TypeAlias = Annotated[
    list[str] | None,
    _option("--exclude", help="Not the nodes whose path matches; repeatable.", metavar="GLOB"),
]
DropEmpty: TypeAlias = Annotated[
    bool, _option("--drop-empty", help="Leave out chunks that hold the fill value alone.")
]
ObjectsOption: TypeAlias = Annotated[
    Objects | None, _option("--objects", help="json: store object values as JSON text.")
]
AllowPickle: TypeAlias = Annotated[
    bool, _option("--allow-pickle", help="Unpickle objects. This runs code from the archive.")
]
AttributesOption: TypeAlias = Annotated[
    Attributes | None,
    _option("--attributes", help="keep: write bare NaN and Infinity; strict makes them strings."),
]
ConventionsOption: TypeAlias = Annotated[
    str | None,
    _option(
        "--conventions",
        help="auto, or names: what applications laid on top is carried over; none: no attribute changes.",
        metavar="NAMES",
    ),
]
MultiscaleOption: TypeAlias = Annotated[
    Multiscale | None,
    _option(
        "--multiscale",
        help="N5: ome describes pyramids by COSEM, n5-viewer, Paintera, BigDataViewer as OME-Zarr 0.5.",
    ),
]
Consolidate: TypeAlias = Annotated[
    bool | None,
    _option(
        "--consolidate/--no-consolidate",
        help="Write consolidated metadata; else as the source has it.",
    ),
]
ModelOption: TypeAlias = Annotated[
    str | None,
    _option(
        "--model",
        help="What the result must be: a ZOM or JSON Schema in a file, or module:Name. Checked in the plan.",
        metavar="MODEL",
    ),
]

Workers: TypeAlias = Annotated[
    int | None,
    _option(
        "--workers",
        help="How many threads or processes; else as many as fit the work and the machine.",
        metavar="N",
        min=1,
    ),
]
Processes: TypeAlias = Annotated[bool, _option("--processes", help="Processes instead of threads.")]
Verify: TypeAlias = Annotated[
    Check, _option("--verify", help="How much is compared before an array appears.")
]
VerifyAgain: TypeAlias = Annotated[
    Check | None, _option("--verify", help="How much is compared; else as the job says.")
]
Fsync: TypeAlias = Annotated[bool, _option("--fsync", help="Survive power loss too; slower.")]
LinkOption: TypeAlias = Annotated[
    Link,
    Location,
    _option("--link", help="hard: hard links for unchanged chunks, which then share bytes with the source."),
]
Full: TypeAlias = Annotated[bool, _option("--full", help="Compare every value, not samples.")]

Json: TypeAlias = Annotated[bool, _option("--json", help="One JSON document on standard output.")]
Quiet: TypeAlias = Annotated[bool, _option("--quiet", "-q", help="Only what went wrong, on standard error.")]
Verbose: TypeAlias = Annotated[
    bool, _option("--verbose", "-v", help="Say on standard error what is done, array by array.")
]
LogFile: TypeAlias = Annotated[
    str | None, _option("--log-file", help="Add what is done, and every failure, to a file.", metavar="PATH")
]
All: TypeAlias = Annotated[bool, _option("--all", help="Every row and every place, not the first few.")]


def value(choice: Any) -> Any:
    """The value of an enum member; any other object unchanged."""
    return choice.value if isinstance(choice, Enum) else choice


def storage_options(texts: Iterable[str] | None, name: str = "--storage-options") -> JSONObject | None:
    """Options for fsspec from `key=value` words and JSON objects; later ones win. UsageError for others.

    The value of a pair is JSON if it can be parsed as such (`anon=true`, `timeout=5`), otherwise text.
    """
    options: JSONObject = {}
    for text in texts or ():
        if text.lstrip().startswith("{"):
            options.update(_object(text, name))
            continue
        key, equals, content = text.partition("=")
        if not equals or not key:
            # The word may be a secret in the wrong form, so it is not repeated.
            raise _usage(f"{name} takes KEY=VALUE or a JSON object", expected="such as anon=true")
        try:
            options[key] = json.loads(content)
        except ValueError:
            options[key] = content
    return options or None


def _object(text: str, name: str) -> JSONObject:
    try:
        data = json.loads(text)
    except ValueError as error:
        raise _usage(f"{name} is not JSON: {error}") from None
    if not isinstance(data, dict):
        raise _usage(f"{name} is not a JSON object")
    return data


def size(text: str | None, name: str) -> int | None:
    """Bytes for a text such as 512MB, 2GB or 1GiB; None if no text is given. UsageError."""
    from zarrstack.core.sizes import parse_size

    if text is None:
        return None
    number = parse_size(text)
    if number is None:
        raise _usage(f"{name} is no size: {text}", expected="such as 512MB or 2GB")
    return int(number)


def load_recipe(path: str) -> Recipe:
    """The recipe in a TOML file; raises UsageError."""
    from ..recipe.toml_file import load_recipe as load

    return load(path)


def recipe(given: Mapping[str, Any]) -> Recipe:
    """The recipe of a file, or the default one, modified by the command line.

    `given` contains the parameters of `plan` or `migrate` by name. Raises UsageError.
    """
    from dataclasses import replace

    from ..recipe.recipe import Recipe

    result = Recipe()
    if given["recipe_file"] is not None:
        result = load_recipe(given["recipe_file"])
    fields = {name: value(given[name]) for name in _FIELDS}
    base: dict[str, Any] = {name: choice for name, choice in fields.items() if choice not in (None, False)}
    if given["codecs"] is not None:
        base["codecs"] = given["codecs"]
    if given["conventions"] is not None:
        from ..recipe.convention_names import parse_conventions, require_known

        require_known(parse_conventions(given["conventions"]))
    casting = "+".join(word for word, name in (("clamp", "clamp"), ("round", "round_")) if given[name])
    if casting:
        if given["recipe_file"] is None and "dtype" not in base:
            raise _usage("--clamp and --round say how --dtype casts", expected="--dtype NAME beside them")
        base["casting"] = casting
    whole: dict[str, Any] = {name: tuple(given[name]) for name in ("include", "exclude") if given[name]}
    if given["consolidate"] is not None:
        whole["consolidate"] = given["consolidate"]
    if given["memory"] is not None:
        whole["memory"] = size(given["memory"], "--memory")
    if given["model"] is not None:
        from ..models.requirement import load as load_model

        whole["model"] = load_model(given["model"]).named()
    return replace(result, base=replace(result.base, **base), **whole)


def _usage(message: str, *, expected: str | None = None) -> Exception:
    from zarrstack.core.errors import UsageError

    return UsageError(message, expected=expected)

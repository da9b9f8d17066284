"""The changes requested by the user, parsed once into frozen data."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, Final, Generic, NamedTuple, Self, TypeAlias, TypeVar

from zarrstack.core.errors import UsageError
from zarrstack.core.json_text import JSON, JSONObject
from zarrstack.core.paths import parents

from ..core.chain.chain import Chain
from ..core.codec_spec import CodecSpec
from ..core.data_types.v3 import DataType
from ..core.json_fields import FieldsAsJSON
from .changes import (
    ARRAY_OPTIONS,
    Attributes,
    Casting,
    Endian,
    IndexLocation,
    KeyEncodingName,
    Multiscale,
    Objects,
    OmeVersion,
    Order,
    Separator,
    ShardIndexCodec,
    ZeroFill,
)
from .parsing import (
    CodecRequest,
    Lengths,
    ShardRequest,
    conventions_text,
    data_type_text,
    lengths_text,
    parse_chunks,
    parse_codecs,
    parse_conventions,
    parse_data_type,
    parse_shards,
    shards_text,
)

CodecForms: TypeAlias = str | JSONObject | list[JSON] | Chain | CodecRequest

Given = TypeVar("Given")
Value = TypeVar("Value")


_EXPECTED: Final = {bool: "true or false", int: "a whole number"}
"""Values of options that are neither parsed nor have choices."""


class _Parsed(Generic[Given, Value]):
    """A field that accepts the forms of `Given`, such as text, and holds the value parsed from them."""

    def __init__(
        self, parse: Callable[[Given], Value], default: Given, to_json: Callable[[Any], JSON]
    ) -> None:
        self._parse = parse
        self._default = parse(default)
        self.to_json = to_json
        """The form in which jobs store a value other than None."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type | None = None) -> Value:
        value: Value = self._default if instance is None else instance.__dict__[self._name]
        return value

    def __set__(self, instance: object, value: Given) -> None:
        instance.__dict__[self._name] = self._parse(value)


class ValueOptions(NamedTuple):
    """The options by which values are converted: workers and the comparison of values need them.

    Fields of `ArrayRecipe`, and members of an array's plan in JSON.
    """

    casting: Casting = "exact"
    objects: Objects = "refuse"
    allow_pickle: bool = False
    drop_empty: bool = False


@dataclass(frozen=True, kw_only=True)
class ArrayRecipe:
    """The requested changes of one array; the defaults change only what portability requires.

    Values may be given as on the command line (`codecs="zstd:3"`, `chunks="64,64"`) and are parsed when the
    recipe is created. Raises UsageError if a value is invalid for every array.

    Examples
    --------
    >>> zarrlift.ArrayRecipe(codecs="zstd:3", chunks="90,180", shards="auto").to_json()
    {'codecs': 'zstd:3', 'chunks': '90,180', 'shards': 'auto'}
    """

    codecs: _Parsed[CodecForms, CodecRequest] = _Parsed(parse_codecs, "portable", CodecRequest.to_json)
    """"portable", "registered", "keep", a short form such as "zstd:3", v3 JSON, or a whole chain."""
    dtype: _Parsed[str | JSONObject | DataType | None, DataType | None] = _Parsed(
        parse_data_type, None, data_type_text
    )
    """A v3 data type to cast to; None keeps the type."""
    casting: Casting = "exact"
    """Treatment of a value that `dtype` cannot represent; "exact" raises an error."""
    endian: Endian = "keep"
    order: Order = "keep"
    key_encoding: KeyEncodingName | None = None
    """None is "default" for copies and "v2" in place."""
    separator: Separator | None = None
    """None is the encoding's default for copies, the source's in place."""
    chunks: _Parsed[str | Sequence[int] | Mapping[str, int] | None, Lengths | None] = _Parsed(
        parse_chunks, None, lengths_text
    )
    """Shape of a chunk, such as "64,64,64"; -1 is a whole axis. None keeps it.

    By names of dimensions, such as "time=100,lat=50" or a dict, the others keep their length.
    """
    shards: _Parsed[str | ShardRequest | Sequence[int] | Mapping[str, int] | None, ShardRequest | None] = (
        _Parsed(parse_shards, None, shards_text)
    )
    """Chunks per shard: "auto", "8,8,8", "4x" or "none", or by names of dimensions, where the others have
    one; or the size of a shard, such as "100MB". None keeps the present shards.
    """
    shard_index_location: IndexLocation | None = None
    shard_index: ShardIndexCodec | None = None
    """Whether the index of a shard has a checksum; None keeps its form."""
    drop_empty: bool = False
    """Omit chunks in which every element has the bit pattern of the fill value."""
    objects: Objects = "refuse"
    """Treatment of object values that are neither str nor bytes."""
    allow_pickle: bool = False
    zero_fill: ZeroFill | None = None
    """Meaning of the fill value 0 of text of a fixed length; None refuses an array whose values need it."""
    attributes: Attributes = "strict"
    """"strict" converts bare NaN and Infinity to strings."""
    conventions: _Parsed[str | Sequence[str | type], tuple[str, ...]] = _Parsed(
        parse_conventions, "auto", conventions_text
    )
    """"auto", "none", names joined by commas, or a list of names and of classes of your own."""
    multiscale: Multiscale | None = None
    """"ome" writes OME-Zarr 0.5 metadata for the multiscale pyramids of N5 programs."""
    ome: OmeVersion = "0.5"
    """The version of OME-Zarr that conventions write."""

    def __post_init__(self) -> None:
        for name, option in ARRAY_OPTIONS.items():
            value = getattr(self, name)
            expected = _EXPECTED.get(option.type)
            if expected and type(value) is not option.type and value is not getattr(ArrayRecipe, name):
                raise UsageError(f"wrong type of {name}", found=repr(value), expected=expected)
            if option.choices and value is not None and value not in option.choices:
                raise UsageError(
                    f"unknown value of {name}", found=repr(value), expected=", ".join(option.choices)
                )

    @cached_property
    def values(self) -> ValueOptions:
        """The options by which values are converted."""
        return ValueOptions(*(getattr(self, name) for name in ValueOptions._fields))

    def to_json(self) -> JSONObject:
        """The fields that differ from the defaults; a chain in normal form, as a list."""
        changed = {name: getattr(self, name) for name in ARRAY_OPTIONS}
        return {
            name: _to_json(name, value)
            for name, value in changed.items()
            if value != getattr(ArrayRecipe, name)
        }

    @classmethod
    def from_json(cls, data: JSONObject) -> Self:
        """Inverse of `to_json`."""
        return cls(**{name: _from_json(name, value) for name, value in data.items()})


@dataclass(frozen=True, slots=True, kw_only=True)
class RequiredModel(FieldsAsJSON):
    """A model to which the result must conform, for `zarrlift.models`; created by `load(...).named()`."""

    name: str
    """The file of origin."""
    content: str
    """The JSON of a ZOM or JSON Schema, so that a job needs no file."""

    @classmethod
    def at(cls, text: str, *, beside: str = "") -> Self:
        """The model named in a recipe file: a file relative to the directory `beside`.

        Planning checks whether it is a model. UsageError if the file cannot be read.
        """
        path = os.path.join(beside, text)
        try:
            with open(path, encoding="utf-8") as file:
                return cls(name=path, content=file.read())
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError("the model cannot be read", found=f"{path}: {error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A recipe for a whole archive.

    *Path globs* are matched against whole paths of nodes, which are names joined by "/" without a leading
    one: `*` and `?` match characters within a name, `[abc]` matches one of them, and `**` as a whole name
    matches any number of names, including none (`a/**` is a and everything below it). A glob of "" or "/"
    matches the root. Matching is case-sensitive.

    Examples
    --------
    >>> recipe = zarrlift.Recipe(base=zarrlift.ArrayRecipe(shards="auto"), exclude=("time",))
    >>> len(zarrlift.plan("ocean.zarr", recipe=recipe).arrays)
    3
    """

    base: ArrayRecipe = field(default_factory=ArrayRecipe)
    sections: tuple[tuple[str, tuple[tuple[str, object], ...]], ...] = ()
    """(path glob, changed fields of ArrayRecipe), applied in order; later ones have priority."""
    include: tuple[str, ...] = ()
    """Path globs; empty means everything."""
    exclude: tuple[str, ...] = ()
    memory: int | None = None
    """Memory limit of the process in bytes if the chunk shape changes; None is a quarter of the machine's."""
    consolidate: bool | None = None
    """None follows the source."""
    model: RequiredModel | None = None
    """Model to which the result must conform; checked during planning, before anything is moved."""

    _combined: dict[tuple[int, ...], ArrayRecipe] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """The recipes of arrays so far, by the places of their sections."""

    def __post_init__(self) -> None:
        parsed = tuple(
            (glob, tuple((name, getattr(ArrayRecipe(**{name: value}), name)) for name, value in changes))  # type: ignore[arg-type]
            for glob, changes in self.sections
        )
        object.__setattr__(self, "sections", parsed)

    def for_array(self, path: str) -> ArrayRecipe:
        """The requested changes for the node at `path`: the base, modified by each matching section."""
        if not self.sections:
            return self.base
        which = tuple(place for place, (glob, _) in enumerate(self.sections) if matches(glob, path))
        combined = self._combined.get(which)
        if combined is None:
            changes = {name: value for place in which for name, value in self.sections[place][1]}
            combined = self._combined[which] = replace(self.base, **changes)  # type: ignore[arg-type]
        return combined

    def selects(self, path: str) -> bool:
        """Whether the node at `path` is selected: included, and not excluded.

        A glob that matches a group applies to everything below it: excluding `a` excludes `a/b`.
        """
        if not self.include and not self.exclude:
            return True
        lines = (path, *parents(path))
        if self.include and not any(matches(glob, line) for glob in self.include for line in lines):
            return False
        return not any(matches(glob, line) for glob in self.exclude for line in lines)

    def needed(self, paths: Iterable[str]) -> frozenset[str]:
        """Those of `paths` that are selected, and the groups above them."""
        result: set[str] = set()
        for line in filter(self.selects, paths):
            while line not in result:  # else, those above it are known too
                result.add(line)
                line = line.rpartition("/")[0]  # noqa: PLW2901
        return frozenset(result)

    def globs(self) -> tuple[str, ...]:
        """All path globs in the recipe, in order, each once."""
        return tuple(dict.fromkeys((*(glob for glob, _ in self.sections), *self.include, *self.exclude)))

    def unmatched(self, paths: Iterable[str]) -> tuple[str, ...]:
        """The globs that match none of `paths`, probably by a typing error."""
        all_paths = tuple(paths)
        return tuple(glob for glob in self.globs() if not any(matches(glob, path) for path in all_paths))

    def to_json(self) -> JSONObject:
        """The complete recipe as JSON, for the job file."""
        return {
            "base": self.base.to_json(),
            "sections": [
                [glob, {name: _to_json(name, value) for name, value in changes}]
                for glob, changes in self.sections
            ],
            "include": list(self.include),
            "exclude": list(self.exclude),
            "consolidate": self.consolidate,
            "memory": self.memory,
            **({} if self.model is None else {"model": self.model.to_json()}),
        }

    @classmethod
    def from_json(cls, data: JSONObject) -> Self:
        """Inverse of `to_json`."""
        return cls(
            base=ArrayRecipe.from_json(data["base"]),
            sections=tuple(
                (glob, tuple((name, _from_json(name, value)) for name, value in changes.items()))
                for glob, changes in data["sections"]
            ),
            include=tuple(data["include"]),
            exclude=tuple(data["exclude"]),
            consolidate=data["consolidate"],
            memory=data.get("memory"),
            model=RequiredModel(**data["model"]) if "model" in data else None,
        )


def _to_json(name: str, value: Any) -> JSON:
    """A value in the form in which jobs store it."""
    field_ = vars(ArrayRecipe).get(name)
    return field_.to_json(value) if isinstance(field_, _Parsed) and value is not None else value


def _from_json(name: str, value: Any) -> Any:
    if name == "codecs" and isinstance(value, list):
        return Chain(tuple(CodecSpec.from_json(item) for item in value))
    return value


# ----- path globs


def matches(glob: str, path: str) -> bool:
    """Whether a path glob (see `Recipe`) matches the node at `path`."""
    return _pattern(glob).fullmatch(path + "/" if path else "") is not None


def check_glob(glob: str) -> None:
    """Raise UsageError if a text is not a path glob."""
    _pattern(glob)


@lru_cache(maxsize=1024)
def _pattern(glob: str) -> re.Pattern[str]:
    """A glob as a regular expression for a path with "/" after every name.

    In `fnmatch`, `*` matches "/" and `**` has no meaning; `glob.translate` requires Python 3.13.
    """
    names = [name for name in glob.strip("/").split("/") if name]
    parts = ("(?:[^/]+/)*" if name == "**" else _name(glob, name) + "/" for name in names)
    try:
        return re.compile("".join(parts), re.DOTALL)
    except re.error as error:
        raise UsageError(
            "this is not a path glob", found=glob, expected=f"other characters: {error}"
        ) from error


def _name(glob: str, name: str) -> str:
    if "**" in name:
        raise UsageError(
            "'**' must be a whole name", found=glob, expected="a separate name, as in 'images/**'"
        )
    text, index = "", 0
    while index < len(name):
        letter, index = name[index], index + 1
        end = name.find("]", index + 2 if name[index : index + 1] == "!" else index + 1)
        if letter == "*":
            text += "[^/]*"
        elif letter == "?":
            text += "[^/]"
        elif letter == "[" and end > 0:
            inside, index = name[index:end], end + 1
            negated = inside.startswith("!")
            inside = re.sub(r"([\\\[\]^&~|])", r"\\\1", inside[1:] if negated else inside)
            text += f"[{'^/' if negated else ''}{inside}]"
        else:
            text += re.escape(letter)
    return text

"""The changes requested by the user, parsed once into frozen data."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from zarrstack.core.chain.chain import Chain
from zarrstack.core.chain.codec_spec import CodecSpec
from zarrstack.core.errors import UsageError
from zarrstack.core.grid.chunk_keys_v3 import Separator
from zarrstack.core.json_text import JSONObject
from zarrstack.core.paths import parents

if TYPE_CHECKING:
    from zarrstack.core.data_types.cast import Casting


CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "casting": ("exact", "clamp", "round", "clamp+round"),
    "endian": ("little", "big", "keep"),
    "order": ("C", "F", "keep"),
    "key_encoding": ("default", "v2"),
    "separator": (".", "/"),
    "shard_index": ("bytes", "crc32c"),
    "shard_index_location": ("start", "end"),
    "objects": ("refuse", "json"),
    "attributes": ("strict", "keep"),
    "multiscale": ("ome",),
}
"""Option -> its permitted values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayRecipe:
    """The requested changes of one array; the defaults change only what portability requires."""

    codecs: Literal["portable", "keep"] | Chain | str = "portable"
    """"portable", "keep", a short form such as "zstd:3", v3 JSON as text, or a whole chain.

    `codecs.parse_codecs` defines the text forms.
    """
    dtype: str | None = None
    """Name of a v3 data type to cast to; None keeps the type."""
    casting: Casting = "exact"
    """Treatment of a value that `dtype` cannot represent; "exact" raises an error."""
    endian: Literal["little", "big", "keep"] = "keep"
    order: Literal["C", "F", "keep"] = "keep"
    key_encoding: Literal["default", "v2"] | None = None
    """None is "default" for copies and "v2" in place."""
    separator: Separator | None = None
    """None is the encoding's default for copies, the source's in place."""
    chunks: str | None = None
    """Shape of a chunk, such as "64,64,64"; -1 is a whole axis. None keeps it."""
    shards: str | None = None
    """Chunks per shard: "auto", "8,8,8", "4x" or "none"; None keeps the present shards."""
    shard_index_location: Literal["start", "end"] | None = None
    shard_index: Literal["bytes", "crc32c"] | None = None
    """Whether the index of a shard has a checksum; None keeps its form."""
    drop_empty: bool = False
    """Omit chunks in which every element has the bit pattern of the fill value."""
    objects: Literal["refuse", "json"] = "refuse"
    """Treatment of object values that are neither str nor bytes."""
    allow_pickle: bool = False
    attributes: Literal["strict", "keep"] = "strict"
    """"strict" converts bare NaN and Infinity to strings."""
    conventions: str = "auto"
    """"auto", "none", or names joined by commas; see `convention_names.parse_conventions`."""
    multiscale: Literal["ome"] | None = None
    """"ome" writes OME-Zarr 0.5 metadata for the multiscale pyramids of N5 programs."""

    def to_json(self) -> JSONObject:
        """The fields that differ from the defaults; a chain in normal form, as a list."""
        default = ArrayRecipe()
        changed = {name: getattr(self, name) for name in FIELDS}
        return {name: _to_json(value) for name, value in changed.items() if value != getattr(default, name)}

    @classmethod
    def from_json(cls, data: JSONObject) -> Self:
        """Inverse of `to_json`."""
        return cls(**{name: _from_json(name, value) for name, value in data.items()})


FIELDS: Final = tuple(item.name for item in fields(ArrayRecipe))
"""Field names allowed in an array recipe and in a section of a recipe file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequiredModel:
    """A model to which the result must conform, for `zarrlift.models`; created by `load(...).named()`."""

    name: str
    """The file of origin, or `module:Name` of a Python type."""
    content: str | None = None
    """The JSON of a ZOM or JSON Schema, so that a job needs no file; None for a Python type."""

    @classmethod
    def at(cls, text: str, *, beside: str = "") -> Self:
        """The model named in a recipe file: a file relative to the directory `beside`, or `module:Name`.

        Planning checks whether it is a model. UsageError if the file cannot be read.
        """
        path = os.path.join(beside, text)
        if re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*", text) and not os.path.exists(path):
            return cls(name=text)
        try:
            with open(path, encoding="utf-8") as file:
                return cls(name=path, content=file.read())
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError("the model cannot be read", found=f"{path}: {error}") from error

    def to_json(self) -> JSONObject:
        """The complete object as JSON."""
        return {"name": self.name, "content": self.content}


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A recipe for a whole archive.

    *Path globs* are matched against whole paths of nodes, which are names joined by "/" without a leading
    one: `*` and `?` match characters within a name, `[abc]` matches one of them, and `**` as a whole name
    matches any number of names, including none (`a/**` is a and everything below it). A glob of "" or "/"
    matches the root. Matching is case-sensitive.
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

    def for_array(self, path: str) -> ArrayRecipe:
        """The requested changes for the node at `path`: the base, modified by each matching section."""
        result = self.base
        for glob, changes in self.sections:
            if matches(glob, path):
                result = replace(result, **dict(changes))  # type: ignore[arg-type]
        return result

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

    def globs(self) -> tuple[str, ...]:
        """All path globs in the recipe, in order, each once."""
        return tuple(dict.fromkeys((*(glob for glob, _ in self.sections), *self.include, *self.exclude)))

    def unmatched(self, paths: Iterable[str]) -> tuple[str, ...]:
        """The globs that match none of `paths`, probably by a typing error."""
        known = tuple(paths)
        return tuple(glob for glob in self.globs() if not any(matches(glob, path) for path in known))

    def to_json(self) -> JSONObject:
        """The complete recipe as JSON, for the job file."""
        return {
            "base": self.base.to_json(),
            "sections": [
                [glob, {name: _to_json(value) for name, value in changes}] for glob, changes in self.sections
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


def _to_json(value: object) -> Any:
    return [codec.to_json() for codec in value.codecs] if isinstance(value, Chain) else value


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
        raise UsageError("this is no path glob", found=glob, expected=f"other characters: {error}") from error


def _name(glob: str, name: str) -> str:
    if "**" in name:
        raise UsageError(
            "'**' stands for whole names", found=glob, expected="a name of its own, as in 'images/**'"
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

"""What the user wants changed, parsed once into frozen data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from zarrstack.core.chain import Chain
from zarrstack.core.keys import Separator

Casting: TypeAlias = Literal["exact", "clamp", "round", "clamp+round"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayRecipe:
    """What is asked of one array; the defaults change nothing but what portability needs."""

    codecs: Literal["portable", "keep"] | Chain | str = "portable"
    """"portable", "keep", a short form such as "zstd:3", or a chain given as v3 JSON."""
    dtype: str | None = None
    """A v3 data type name to cast to; None keeps the values' type."""
    casting: Casting = "exact"
    """What may happen to a value that `dtype` cannot represent; "exact" makes it an error."""
    endian: Literal["little", "big", "keep"] = "keep"
    order: Literal["C", "F", "keep"] = "keep"
    key_encoding: Literal["default", "v2"] | None = None
    """None is "default" for copies and "v2" in place."""
    separator: Separator | None = None
    """None is the encoding's own default for copies, the source's in place."""
    drop_empty: bool = False
    """Leave out chunks whose bit pattern is all fill value."""
    objects: Literal["refuse", "json"] = "refuse"
    """What becomes of object values that are neither str nor bytes."""
    allow_pickle: bool = False
    attributes: Literal["strict", "keep"] = "strict"
    """"strict" turns bare NaN and Infinity into strings."""
    conventions: Literal["auto", "none"] = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A recipe for a whole archive."""

    base: ArrayRecipe = field(default_factory=ArrayRecipe)
    sections: tuple[tuple[str, tuple[tuple[str, object], ...]], ...] = ()
    """(path glob, changed fields of ArrayRecipe), applied in order; later ones win."""
    include: tuple[str, ...] = ()
    """Path globs; empty means everything."""
    exclude: tuple[str, ...] = ()
    consolidate: bool | None = None
    """None follows the source."""

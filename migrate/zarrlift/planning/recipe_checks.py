"""Checks of a recipe that are the same for every array: options that exclude each other."""

from __future__ import annotations

from typing import Final

from zarrstack.core.errors import UsageError

from ..recipe.changes import ARRAY_OPTIONS
from ..recipe.options import flag_of
from ..recipe.parsing import conventions_text
from ..recipe.recipe import ArrayRecipe

_LEAVE_PAYLOADS: Final = frozenset(
    {"--codecs", "--set key-encoding", "--shards", "--set shard-index", "--set shard-index-location"}
)
"""Options that do not change the stored bytes of chunks."""


def check_recipe(recipe: ArrayRecipe, *, in_place: bool = False) -> None:
    """Raise UsageError if the requested changes contradict each other, or the place of the chunks."""
    if recipe.multiscale is not None and not {"auto", "n5"} & {*recipe.conventions}:
        raise UsageError(
            "--set multiscale=ome requires the convention n5, which is not requested",
            found=f"--conventions {conventions_text(recipe.conventions)}",
            expected="auto, or n5 among the names",
        )
    if recipe.ome != ArrayRecipe.ome and not {"auto", "ome"} & {*recipe.conventions}:
        raise UsageError(
            f"--set ome={recipe.ome} requires the convention ome, which is not requested",
            found=f"--conventions {conventions_text(recipe.conventions)}",
            expected="auto, or ome among the names",
        )
    changes = [
        flag_of(name, ARRAY_OPTIONS[name])
        for name, is_set in (
            ("dtype", recipe.dtype is not None),
            ("endian", recipe.endian != "keep"),
            ("order", recipe.order != "keep"),
            ("drop_empty", recipe.drop_empty),
            ("codecs", recipe.codecs.mode == "explicit"),
            ("key_encoding", recipe.key_encoding == "default"),
            ("chunks", recipe.chunks is not None),
            ("shards", recipe.shards is not None),
            ("shard_index", recipe.shard_index is not None),
            ("shard_index_location", recipe.shard_index_location is not None),
        )
        if is_set
    ]
    if in_place and changes:
        raise UsageError(
            "in place only metadata is added; chunks and their keys do not change",
            found=", ".join(changes),
            advice="Migrate to a new destination, or omit the option.",
        )
    changes = [name for name in changes if name not in _LEAVE_PAYLOADS]
    if recipe.codecs.mode == "keep" and changes:
        raise UsageError(
            "--codecs keep does not change stored bytes",
            found=", ".join(changes),
            advice="Omit one of the two.",
        )
    if recipe.codecs.head and (recipe.endian != "keep" or recipe.order != "keep"):
        raise UsageError(
            "a complete codec chain defines byte order and memory order",
            found="--set endian or order in addition",
            advice="Omit them.",
        )

"""Who can read a result, by the table of readers, and results that are adapted to the readers of `--for`.

Only what is free to choose is adapted: codecs and shards that the recipe does not request, byte and memory
order, the index of shards, chunk keys. What remains is refused, by feature and reader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import product
from typing import Final, NamedTuple, TypeAlias

from zarrstack.core.chunk_keys_v3 import KeyEncoding
from zarrstack.core.errors import Problem
from zarrstack.core.json_text import JSONObject

from ..archive.nodes import Layout
from ..core.chain.chain import Chain
from ..core.chain.reader_table import Reader, head_features, node_features, table
from ..core.codec_spec import CodecSpec
from ..core.data_types.v3 import DataType
from ..core.grid.frames import Shards
from ..core.identity_cache import IdentityCache
from ..core.problems import note
from ..recipe.recipe import ArrayRecipe
from .plans import ArrayPlan
from .portable_codecs import blosc_zstd
from .zarr_json import array_head

_Choices: TypeAlias = Iterator[Layout]

_ADVICE: Final[Mapping[str, str]] = {
    "data type": "Cast it with --dtype, exclude the array with --exclude, or omit the reader.",
    "codec": "Choose other codecs, or omit --codecs.",
    "shards": "Omit --shards and the options of the index.",
    "chunk keys": "Omit --set key-encoding and separator.",
    "dimension names": "Correct the names, or omit the reader.",
    "attributes": "Omit --set attributes=keep.",
}
"""What may help, by the beginning of a feature."""
_OMIT: Final = "Exclude the array with --exclude, or omit the reader."


class Reading(NamedTuple):
    """What readers make of a node."""

    able: tuple[Reader, ...]
    unable: Mapping[Reader, tuple[str, ...]]
    """Reader -> features that it does not read."""
    unknown: Mapping[Reader, tuple[str, ...]]
    """Reader -> features of which nothing is known; it reads all others."""


@lru_cache(maxsize=1024)
def reading(features: tuple[str, ...], readers: tuple[Reader, ...]) -> Reading:
    """Which of the readers read a node with these features."""
    able: list[Reader] = []
    unable: dict[Reader, tuple[str, ...]] = {}
    unknown: dict[Reader, tuple[str, ...]] = {}
    for reader in readers:
        answers = {feature: reader.answer(feature) for feature in features}
        if no := tuple(feature for feature, answer in answers.items() if answer is False):
            unable[reader] = no
        elif nothing := tuple(feature for feature, answer in answers.items() if answer is None):
            unknown[reader] = nothing
        else:
            able.append(reader)
    return Reading(tuple(able), unable, unknown)


def document_features(document: JSONObject, path: str) -> tuple[str, ...]:
    """The features of a node with a `zarr.json`."""
    head = head_features(document) if document["node_type"] == "array" else ()
    return (*head, *node_features(path, document["attributes"]))


def readings(
    arrays: Iterable[ArrayPlan], readers: tuple[Reader, ...] | None = None
) -> Iterator[tuple[ArrayPlan, Reading]]:
    """What readers make of each array of a plan's result; by default the newest tested version of each."""
    chosen = table().current if readers is None else readers
    head = IdentityCache(_layout_features)
    for array in arrays:
        node = node_features(array.path, array.document.get("attributes", {}))
        yield array, reading((*head(array.destination), *node), chosen)


def _layout_features(layout: Layout) -> tuple[str, ...]:
    return head_features(array_head(layout))


# ----- the readers of a recipe


def wanted(recipe: ArrayRecipe) -> tuple[Reader, ...]:
    """The readers of `--for`."""
    return tuple(table().named(name) for name in recipe.readers)


def reader_refusals(document: JSONObject, path: str, recipe: ArrayRecipe) -> Iterator[Problem]:
    """What the readers of `--for` cannot read of a node's new document; a warning for what is unknown."""
    if not recipe.readers:
        return
    result = reading(document_features(document, path), wanted(recipe))
    for features, readers in _together(result.unable).items():
        yield Problem(
            kind="readers",
            message=f"{_and(readers)} cannot read the result",
            found=f"{', '.join(features)} ({_evidence(readers, features[0])})",
            advice=next((text for start, text in _ADVICE.items() if features[0].startswith(start)), _OMIT),
        )
    for features, readers in _together(result.unknown).items():
        yield Problem(
            kind="readers",
            severity="warning",
            message=f"it is not known whether {_and(readers)} can read the result",
            found=", ".join(features),
            advice="`zarrlift list readers` shows what is known.",
        )


def _together(features_by_reader: Mapping[Reader, tuple[str, ...]]) -> dict[tuple[str, ...], list[Reader]]:
    """Features -> the readers that they concern."""
    result: dict[tuple[str, ...], list[Reader]] = {}
    for reader, features in features_by_reader.items():
        result.setdefault(features, []).append(reader)
    return result


def _and(readers: Iterable[object]) -> str:
    return " and ".join(map(str, readers))


def _evidence(readers: Sequence[Reader], feature: str) -> str:
    """What the first reader said when it was tested, or where it is documented."""
    first = readers[0]
    who = "it says" if len(readers) == 1 else f"{first.name} says"
    return f"{who}: {first.refuses[feature]}" if first.tested else f"{first.source}: {first.refuses[feature]}"


def adapted(layout: Layout, recipe: ArrayRecipe, *, in_place: bool) -> tuple[Layout, list[Problem]]:
    """A layout for the readers of `--for`, as far as the recipe leaves a choice; a note per change."""
    readers = wanted(recipe)
    notes: list[Problem] = []
    if in_place:
        return layout, notes
    for choices, text_of in _CHOICES:
        best, fewest = layout, _unread(layout, readers)
        for other in choices(layout, recipe) if fewest else ():
            missing = _unread(other, readers)
            if len(missing) < len(fewest):
                best, fewest = other, missing
        if best is not layout:
            helped = _and(reader for reader in readers if _concerns(reader, layout, best))
            notes.append(
                note("readers", f"adapted for {helped}", found=text_of(layout), expected=text_of(best))
            )
            layout = best
    return layout, notes


def _unread(layout: Layout, readers: tuple[Reader, ...]) -> set[tuple[Reader, str]]:
    unable = reading(_layout_features(layout), readers).unable
    return {(reader, feature) for reader, features in unable.items() for feature in features}


def _concerns(reader: Reader, before: Layout, after: Layout) -> bool:
    return _unread(before, (reader,)) > _unread(after, (reader,))


def _keys(layout: Layout, recipe: ArrayRecipe) -> _Choices:
    """Other chunk keys."""
    for name, separator in product(("default", "v2"), ("/", ".")):
        if recipe.key_encoding in (None, name) and recipe.separator in (None, separator):
            yield replace(layout, keys=KeyEncoding(name, separator))  # type: ignore[arg-type]


def _shards(layout: Layout, recipe: ArrayRecipe) -> _Choices:
    """Another index, or no shards."""
    if not isinstance(layout.frame, Shards):
        return
    index = layout.frame.index
    if recipe.shard_index_location is None:
        yield replace(layout, frame=replace(layout.frame, index=replace(index, location="end")))
    if recipe.shard_index is None:
        yield replace(layout, frame=replace(layout.frame, index=replace(index, checksum=True)))
    if recipe.shard_index is None and recipe.shard_index_location is None:
        yield replace(
            layout, frame=replace(layout.frame, index=replace(index, checksum=True, location="end"))
        )
    if not any((recipe.shards, recipe.shard_index, recipe.shard_index_location)):
        yield replace(layout, frame=None)


def _head(layout: Layout, recipe: ArrayRecipe) -> _Choices:
    """Little-endian values in C order."""
    if recipe.codecs.mode == "keep" or recipe.codecs.head:
        return
    transposes, middle, tail = _parts(layout.chain)
    plain = middle
    if middle.configuration.get("endian") == "big":
        plain = CodecSpec("bytes", {**middle.configuration, "endian": "little"})
    if recipe.endian == "keep":
        yield replace(layout, chain=Chain((*transposes, plain, *tail)))
    if recipe.order == "keep":
        yield replace(layout, chain=Chain((middle, *tail)))
    if recipe.endian == recipe.order == "keep":
        yield replace(layout, chain=Chain((plain, *tail)))


def _tail(layout: Layout, recipe: ArrayRecipe) -> _Choices:
    """Other compressors, with the checksum if there is one and it is read."""
    if recipe.codecs.mode != "portable":
        return
    transposes, middle, tail = _parts(layout.chain)
    rest = tuple(spec for spec in tail if spec.name != "crc32c")
    for compressor in (rest, *_compressors(rest, layout.data_type)):
        for checksum in (True, False) if len(rest) < len(tail) else (False,):
            codecs = (*compressor, CodecSpec("crc32c")) if checksum else compressor
            yield replace(layout, chain=Chain((*transposes, middle, *codecs)))


def _compressors(present: tuple[CodecSpec, ...], data_type: DataType) -> Iterator[tuple[CodecSpec, ...]]:
    if not present:
        return
    yield (CodecSpec("zstd", {"level": 3, "checksum": False}),)
    yield (CodecSpec("gzip", {"level": 6}),)
    yield (blosc_zstd(data_type),)
    yield ()


def _parts(chain: Chain) -> tuple[tuple[CodecSpec, ...], CodecSpec, tuple[CodecSpec, ...]]:
    middle = chain.middle
    return chain.codecs[:middle], chain.codecs[middle], chain.codecs[middle + 1 :]


def _chain_text(layout: Layout) -> str:
    return str(layout.chain)


_CHOICES: Final[tuple[tuple[Callable[[Layout, ArrayRecipe], _Choices], Callable[[Layout], str]], ...]] = (
    (_keys, lambda layout: f"chunk keys {layout.keys}"),
    (_shards, lambda layout: str(layout.frame) if layout.frame is not None else "no shards"),
    (_head, _chain_text),
    (_tail, _chain_text),
)
"""What can be chosen, each with the text that shows it."""

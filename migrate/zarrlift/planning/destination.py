"""(ArrayNode, ArrayRecipe) -> the layout of the result, with notes, warnings and refusals.

By default a copy is *portable* (see `portable_codecs`): only what some reader cannot read is changed, so most
chunks are copied unchanged. In place, and with `--codecs keep`, the stored bytes are unchanged. With
`--codecs registered`, a result may have any registered codec, so that packed values stay (`equal_chains`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import prod
from typing import Any, Final

import numpy as np

from zarrstack.core.errors import Problem, UnsupportedError, UsageError, ZarrstackError
from zarrstack.core.json_text import JSON, excerpt

from ..archive.nodes import ArrayNode, Layout
from ..core.chain.chain import Chain
from ..core.chain.codec_limits import misread_nan, within_limits
from ..core.chain.unchanged_bytes import keep_problems
from ..core.codec_spec import CodecSpec
from ..core.codec_table import REGISTERED_FILTERS, facts_of, require_facts
from ..core.data_types.cast import cast, cast_refusal
from ..core.data_types.object_values import may_be_anything, plain, tagged_form
from ..core.data_types.v3 import DataType, fill_from_json, fill_to_json, zero_fill
from ..core.grid.frames import N5Blocks
from ..core.problems import any_refusal, note, refusal, warning
from ..recipe.recipe import ArrayRecipe
from .chunks_and_shards import keys_for, with_grid
from .portable_codecs import complete, portable_tail, resize
from .reader_limits import codec_problems
from .recipe_checks import changes_payloads, check_recipe

_VARIABLE: Final[Mapping[str, str]] = {
    "string": "vlen-utf8",
    "bytes": "vlen-bytes",
    "variable_length_bytes": "vlen-bytes",
}
"""Data type of variable length -> its array-to-bytes codec."""
_COPY_ADVICE: Final = "Migrate to a new destination, or exclude the array."
_KEPT_ADVICE: Final = "A copy without --codecs keep re-encodes it."


def destination_layout(
    node: ArrayNode,
    recipe: ArrayRecipe,
    *,
    in_place: bool,
    inner_chunk_bytes: float | None = None,
) -> tuple[Layout, tuple[Problem, ...]]:
    """The layout of a node's result, and notes, warnings and refusals about it.

    `inner_chunk_bytes` is the average stored size of a chunk; None assumes the size of its values. After a
    refusal the node cannot be migrated in this way, and the layout is the source's. Raises UsageError if the
    recipe is invalid for every array.
    """
    assert node.layout is not None
    check_recipe(recipe, in_place=in_place)
    source = node.layout
    keys = keys_for(source.keys, recipe, in_place=in_place)
    problems: list[Problem]
    try:
        if in_place or recipe.codecs.mode == "keep":
            layout, problems = replace(source, keys=keys), list(_kept_bytes_notes(source, in_place=in_place))
        else:
            layout, problems = _copy(source, recipe)
        if not in_place:
            size = inner_chunk_bytes
            if size is None:
                size = float(prod(source.chunk_shape) * (source.data_type.itemsize or 32))
            layout, notes = with_grid(source, layout, recipe, size)
            problems.extend(notes)
        if layout.data_type.numpy.kind in "fc" and misread_nan(layout.fill_value):
            problems.append(
                refusal(
                    "fill",
                    "zarr-python reads this fill value as another NaN",
                    found=excerpt(layout.fill_value),
                    expected="a NaN without payload",
                    advice="Change the fill value, or exclude the array with --exclude.",
                )
            )
        if recipe.drop_empty and node.fill_is_null:
            problems.append(
                refusal(
                    "fill",
                    "empty chunks cannot be identified: the source defines no fill value",
                    advice="Omit --drop-empty for this array.",
                )
            )
    except UsageError:
        raise
    except ZarrstackError as error:
        return source, (error.problem,)
    if any_refusal(problems):
        return source, tuple(problems)
    return layout, (*problems, *codec_problems(layout))


def _kept_bytes_notes(source: Layout, *, in_place: bool) -> Iterable[Problem]:
    """Notes about stored bytes that are kept."""
    if not in_place or not isinstance(source.frame, N5Blocks):
        return (*keep_problems(source.chain, source.data_type, _KEPT_ADVICE), *_packages(source.chain))
    from .n5_checks import in_place_problems, require_codec

    require_codec()
    return in_place_problems(source)


def _packages(chain: Chain) -> Iterable[Problem]:
    """A warning for each codec that zarr-python reads with another package only, and others do not read."""
    for spec in chain.codecs:
        facts = facts_of(spec.name)
        if facts is not None and facts.kind == "numbers":
            yield warning(
                "readers",
                f"only zarr-python reads the result, with the package {facts.package}",
                found=f"codec {spec.name}",
                advice=_KEPT_ADVICE,
            )


# ----- copies that may re-encode


def _copy(source: Layout, recipe: ArrayRecipe) -> tuple[Layout, list[Problem]]:
    request = recipe.codecs
    problems: list[Problem] = []
    data_type, fill = _values(source, recipe, problems)
    if request.head:
        head = _requested_head(request.head, data_type, len(source.shape))
    else:
        head = _head(source, data_type, recipe, problems)
    tail: tuple[CodecSpec, ...]
    if request.mode == "explicit":
        tail = tuple(complete(spec, data_type) for spec in request.tail)
    else:
        tail = source.chain.codecs[source.chain.middle + 1 :]
        if changes_payloads(recipe):  # these are not encoded
            tail = tuple(spec for spec in tail if spec.name not in REGISTERED_FILTERS)
        tail, notes = portable_tail(tail, data_type)
        problems.extend(notes)
        if data_type != source.data_type:
            tail = tuple(resize(spec, data_type) for spec in tail)
    chain = Chain((*head, *(within_limits(spec) for spec in tail)))
    result = replace(source, data_type=data_type, fill_value=fill, chain=chain)
    if data_type == source.data_type and chain == Chain(tuple(map(within_limits, source.chain.codecs))):
        # Only the encoder's level differs, so the stored bytes can be kept.
        result = replace(result, chain=source.chain)
    if request.mode == "explicit":
        advice = "Omit --codecs, or choose other codecs."
        problems.extend(keep_problems(result.chain, result.data_type, advice))
    return result, problems


def _values(source: Layout, recipe: ArrayRecipe, problems: list[Problem]) -> tuple[DataType, JSON]:
    """Data type and fill value of the copy."""
    data_type, fill = source.data_type, source.fill_value
    middle = source.chain.codecs[source.chain.middle].name
    if middle == "numcodecs.pickle" and not recipe.allow_pickle:
        raise UnsupportedError(
            "reading pickled objects can execute arbitrary code",
            found="codec pickle",
            advice="Use --allow-pickle if you trust the author of this archive.",
        )
    if data_type.name == "object":
        # The values of these codecs are mostly str; others are refused in the move.
        if require_facts(middle).objects not in ("document", "pickle") and recipe.objects != "json":
            raise UnsupportedError(
                "the values have no Zarr v3 data type",
                found=_object_words(middle, source),
                advice="Use --set objects=json to write each value as JSON text.",
            )
        data_type, text = DataType("string"), _text_fill(fill, recipe, middle)
        if type(fill) in (int, float) and text == "":
            problems.append(
                Problem(
                    kind="fill",
                    severity="warning",
                    message="missing chunks will read as '': a fill value of 0 is not text",
                    found=repr(fill),
                    advice="Use --set objects=json to keep it as JSON text.",
                )
            )
        fill = text
        problems.append(
            Problem(
                kind="data-type",
                severity="note",
                message="objects become text"
                if recipe.objects == "refuse"
                else "each object becomes its JSON text",
                found=_object_words(middle, source),
                expected="string; every value must be a str" if recipe.objects == "refuse" else "string",
            )
        )
    if (target := recipe.dtype) is not None and target != data_type:
        if (reason := cast_refusal(data_type, target)) is not None:
            raise UnsupportedError(
                reason, found=str(data_type), expected=str(target), advice="Request it by path, in a recipe."
            )
        value = np.asarray(fill_from_json(fill, data_type), dtype=data_type.numpy)
        try:
            cast_value = cast(value.reshape(1), target.numpy, recipe.casting)[0]
        except ZarrstackError as error:
            raise type(error)(
                "the fill value cannot be represented: " + error.problem.message,
                found=error.problem.found,
                expected=str(target),
                advice=error.problem.advice,
            ) from error
        data_type, fill = target, fill_to_json(cast_value, target)
    return data_type, fill


def _text_fill(fill: JSON, recipe: ArrayRecipe, codec: str) -> str:
    """The fill value of objects that become text.

    zarr-python 2 writes 0 for object arrays without a fill value (2.18.7), which has no meaning for text: it
    becomes ''. As JSON text every value is kept.
    """
    if recipe.objects == "json":
        return json.dumps((tagged_form if may_be_anything(codec) else plain)(fill), ensure_ascii=False)
    if isinstance(fill, str):
        return fill
    if fill is None or (type(fill) in (int, float) and fill == 0):
        return str(zero_fill(DataType("string")))
    raise UnsupportedError(
        "the fill value is not a str",
        found=repr(fill)[:80],
        advice="Use --set objects=json to write each value as JSON text.",
    )


def _object_words(middle: str, source: Layout) -> str:
    if middle == "numpy_bytes":
        return str(source.chain.codecs[source.chain.middle].configuration.get("dtype"))
    return f"codec {middle.removeprefix('numcodecs.')}"


def _head(
    source: Layout, data_type: DataType, recipe: ArrayRecipe, problems: list[Problem]
) -> tuple[CodecSpec, ...]:
    """Any transpose codecs and the array-to-bytes codec of the copy."""
    transposes = source.chain.codecs[: source.chain.middle]
    middle = source.chain.codecs[source.chain.middle]
    ndim = len(source.shape)
    wanted = {"C": tuple(range(ndim)), "F": tuple(reversed(range(ndim)))}.get(recipe.order)
    if wanted is not None and wanted != _permutation(transposes, ndim):
        plain = wanted == tuple(range(ndim))
        transposes = () if plain else (CodecSpec("transpose", {"order": list(wanted)}),)
    if data_type.name in _VARIABLE:
        name = _VARIABLE[data_type.name]
        return (*transposes, middle if middle.name == name else CodecSpec(name))
    if not has_byte_order(data_type.numpy):
        same = middle.name == "bytes" and data_type == source.data_type
        return (*transposes, middle if same else CodecSpec("bytes"))
    stored = middle.configuration.get("endian", "little") if middle.name == "bytes" else "little"
    endian = stored if recipe.endian == "keep" else recipe.endian
    if data_type.name == "bfloat16" and endian != "little":
        raise UnsupportedError("bfloat16 is written in little-endian order only", found="--set endian=big")
    if data_type.numpy.names is not None and endian == "big":
        endian = "little"
        _struct_note(problems, middle)
    elif middle.name == "numpy_bytes":
        _struct_note(problems, middle)
    return (*transposes, CodecSpec("bytes", {"endian": endian}))


def _struct_note(problems: list[Problem], middle: CodecSpec) -> None:
    problems.append(
        note(
            "byte-order",
            "struct fields are written little-endian: zarr-python 3.1.6 misreads all others",
            found=str(middle.configuration.get("dtype", middle)),
        )
    )


def _permutation(transposes: tuple[CodecSpec, ...], ndim: int) -> tuple[int, ...]:
    order = tuple(range(ndim))
    for spec in transposes:
        order = tuple(order[axis] for axis in spec.configuration["order"])
    return order


def has_byte_order(dtype: np.dtype[Any]) -> bool:
    """Whether the `bytes` codec requires a byte order: multi-byte numbers, `U`, any struct, bfloat16."""
    return dtype.names is not None or bool(dtype.metadata) or (dtype.kind not in "SV" and dtype.itemsize > 1)


def _requested_head(head: tuple[CodecSpec, ...], data_type: DataType, ndim: int) -> tuple[CodecSpec, ...]:
    """The array side of the chain in the user's JSON, checked against the array."""
    for spec in head[:-1]:
        order = spec.configuration.get("order")
        if not isinstance(order, list) or sorted(order) != list(range(ndim)):
            raise UnsupportedError(
                "this transpose does not fit the array",
                found=str(order),
                expected=f"{ndim} axes in some order",
            )
    fitting = _VARIABLE.get(data_type.name, "bytes")
    last = head[-1]
    if last.name != fitting:
        raise UnsupportedError(f"codec {last.name!r} does not encode {data_type}", expected=fitting)
    if fitting == "bytes" and has_byte_order(data_type.numpy) and "endian" not in last.configuration:
        last = CodecSpec("bytes", {"endian": "little"})
    return (*head[:-1], last)

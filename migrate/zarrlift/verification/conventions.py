"""Checks the requirements of zarrlift's own conventions against the result alone.

The checks are written independently of the code that makes the changes, from the readers' source code, so
that the two can disagree. A witness yields (what differs, found, expected) for a node.
"""

from __future__ import annotations

import base64
import json
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from zarrstack.core.json_text import JSON, JSONObject, canonical

from ..archive.nodes import ArrayNode, Node
from ..core.data_types.compare import same
from ..recipe.parsing import AUTO
from ..recipe.recipe import ArrayRecipe
from .zarr_python_reader import ResultNode, chunk_shape, native

Finding: TypeAlias = tuple[str, str, str]


def findings(node: Node, result: ResultNode, recipe: ArrayRecipe) -> Iterator[Finding]:
    """The findings of the requested conventions' witnesses for a node."""
    yield from netcdf(node, result)
    for name, witness in WITNESSES.items():
        if name == "ome" and recipe.multiscale is not None:
            continue  # the content of `ome` has another form
        if name in recipe.conventions or AUTO in recipe.conventions:
            yield from witness(node, result)


def netcdf(node: Node, result: ResultNode) -> Iterator[Finding]:
    """Check that netcdf-c's members of `.zgroup` and `.zarray` are attributes; the reader moved them.

    Source: netcdf-c 4.10.1, `libnczarr/zsync.c` (`getnczarrkey`: an attribute of that name has priority).
    """
    documents = {document.key.rpartition("/")[2]: document.content for document in node.documents}
    for name in (".zgroup", ".zarray"):
        content = documents.get(name, b"")
        if b"_nczarr_" not in content.lower():
            continue
        held, stated = json.loads(content), json.loads(documents.get(".zattrs", b"{}"))
        for attribute in {"_nczarr_superblock", "_nczarr_group", "_nczarr_array"} - stated.keys():
            member = attribute if attribute in held else attribute.upper()
            moved = {member: result.attributes.get(attribute)}
            for place, text in lost_values({member: held[member]} if member in held else {}, moved, None, ()):
                yield f"attribute at {place}", "nothing that holds its value", text


def xarray(node: Node, result: ResultNode) -> Iterator[Finding]:
    """Check that dimensions are named, and that values masked by the fill value are masked.

    Source: xarray 2026.9.0, `xarray/backends/zarr.py` (`FillValueCoder.decode`, `open_store_variable`).
    """
    metadata = result.metadata
    if not isinstance(node, ArrayNode) or metadata is None or node.layout is None:
        return
    labels = node.attributes.get("_ARRAY_DIMENSIONS")
    if not isinstance(labels, list) or "_ARRAY_DIMENSIONS" in result.attributes:
        return
    if labels == [] and node.layout.shape == (1,):
        labels = ["_scalar_"]  # netcdf-c 4.9.0 names no axis of a scalar, 4.9.4 does
    names = metadata.dimension_names or (None,) * len(labels)
    if list(names) != labels:
        yield "list of dimension names", canonical(list(names)), canonical(labels)
    dtype = native(metadata)
    if dtype.names is not None or dtype.kind not in "biufc":
        if "_FillValue" in result.attributes:
            yield "mask", "_FillValue, which xarray cannot read", "missing_value, or none"
        if dtype.kind in "OTU" and node.layout.data_type.name in ("string", "fixed_length_utf32"):
            masks, wanted = _texts(result.attributes.get("missing_value")), _masking_texts(node)
            if masks != wanted:
                yield "mask", canonical(sorted(masks)), canonical(sorted(wanted))
        return
    stated = result.attributes.get("_FillValue")
    if node.fill_is_null and "_FillValue" not in node.attributes:
        if stated is not None:
            yield "mask", canonical(stated), "none: the source states no fill value"
        return
    if dtype.kind == "u" and result.attributes.get("_Unsigned") == "false" and isinstance(stated, int):
        stated %= 1 << 8 * dtype.itemsize  # `_convert_unsigned_fill_value`: a number of the signed type
    masks = _decoded(stated, dtype)
    wanted = metadata.fill_value
    if node.fill_is_null:
        wanted = _number(node.attributes["_FillValue"], dtype)
        if stated is None and wanted is None:
            return  # it masked nothing, or what `missing_value` masks in the result
    number = None if wanted is None else dtype.type(wanted)
    # A conversion to double turns a signalling NaN into a quiet one.
    both_nan = masks is not None and number is not None and np.isnan(masks) and np.isnan(number)
    if masks is None or number is None or not (both_nan or same(masks, number)):
        yield "mask", canonical(stated), repr(wanted)


def _texts(stated: JSON) -> set[str]:
    """The texts that xarray masks for an attribute."""
    return {item for item in (stated if isinstance(stated, list) else [stated]) if isinstance(item, str)}


def _masking_texts(node: ArrayNode) -> set[str]:
    """The texts that xarray masks in the source, by the fill value and `missing_value`."""
    assert node.layout is not None
    texts = _texts(node.attributes.get("missing_value"))
    if node.fill_is_null:
        return texts | _texts(node.attributes.get("_FillValue"))
    documents = [json.loads(document.content) for document in node.documents]
    stated = [document["fill_value"] for document in documents if "fill_value" in document]
    return texts | {str(node.layout.fill_value) for fill in stated[:1] if isinstance(fill, str)}


def _decoded(stated: JSON, dtype: np.dtype[Any]) -> Any:
    """The value that xarray masks for an attribute `_FillValue`, in the array's type; None if none."""
    try:
        if dtype.kind == "f":
            return dtype.type(_double(stated))
        if dtype.kind == "c":
            return dtype.type(complex(_double(stated[0]), _double(stated[1])))
        return dtype.type(stated) if isinstance(stated, int) else None
    except (TypeError, ValueError, IndexError, OverflowError, struct.error):
        return None


def _double(text: str) -> float:
    return float(struct.unpack("<d", base64.standard_b64decode(text))[0])


def _number(stated: JSON, dtype: np.dtype[Any]) -> Any:
    """The number in a legacy attribute; None if it is not a value of the data type."""
    value = stated[0] if isinstance(stated, list) and len(stated) == 1 else stated
    if isinstance(value, str) and (dtype.kind not in "fc" or value not in ("NaN", "Infinity", "-Infinity")):
        return None
    if not isinstance(value, int | float | str) or isinstance(value, bool) != (dtype.kind == "b"):
        return None
    try:
        with np.errstate(over="raise"):
            number = dtype.type(value)
    except (TypeError, ValueError, ArithmeticError):
        return None
    return None if dtype.kind in "iu" and number != value else number


def ome(node: Node, result: ResultNode) -> Iterator[Finding]:
    """Check that OME attributes are under `ome`, except versions and forbidden empty lists.

    Images and plates of 0.1 to 0.3 also have what 0.4 added, which is compared with what they state.

    Source: OME-Zarr 0.5, https://ngff.openmicroscopy.org/0.5/index.html
    """
    block = result.attributes.get("ome")
    if isinstance(node, ArrayNode) or not isinstance(block, dict) or "ome" in node.attributes:
        return
    if block.get("version") not in ("0.5", "0.6"):
        yield "version of ome", canonical(block.get("version")), '"0.5"'
    if block.get("version") == "0.6":
        images = block.get("multiscales")
        images_of_05 = [_image_of_05(image) for image in images] if isinstance(images, list) else []
        if None in images_of_05:
            yield "attribute ome/multiscales", canonical(images), "images of OME-Zarr 0.6"
            return
        block = {**block, "multiscales": images_of_05} if images_of_05 else block
    for name, value in block.items():
        if name == "version":
            continue
        if name in result.attributes:
            yield f"attribute {name!r}", "twice, in ome and beside it", "once"
        if name not in node.attributes:
            yield f"attribute ome/{name}", canonical(value), "nothing"
            continue
        source = _of_05(_with_text_paths(name, node.attributes[name]))
        added = _added(name, value, source)
        if added is not None:
            yield f"attribute ome/{name}", canonical(added), canonical(source)
            continue
        if canonical(_of_05(_as_before(name, value, source))) != canonical(source):
            yield f"attribute ome/{name}", canonical(value), canonical(node.attributes[name])
        elif canonical(_of_05(value)) != canonical(value):
            yield f"attribute ome/{name}", canonical(value), canonical(_of_05(value))


def _of_05(value: JSON) -> JSON:
    """An entry, or list of entries, without what 0.5 does not allow: versions and empty lists."""
    if isinstance(value, list):
        return [_of_05(item) if isinstance(item, dict) else item for item in value]
    if not isinstance(value, dict):
        return value
    empty = {name for name in ("coordinateTransformations", "colors", "properties") if value.get(name) == []}
    gone = empty | ({"version"} if value.get("version") in ("0.1", "0.2", "0.3", "0.4") else set())
    return {name: item for name, item in value.items() if name not in gone}


def _with_text_paths(name: str, value: JSON) -> JSON:
    """An attribute with the text that every version requires where ez_zarr wrote numbers as paths."""
    member = {"multiscales": "datasets", "well": "images"}.get(name, "")
    if isinstance(value, list):
        return [_with_text_paths(name, item) for item in value]
    entries = value.get(member) if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(entries, list):
        return value
    levels = [
        {**entry, "path": str(entry["path"])}
        if isinstance(entry, dict) and type(entry.get("path")) is int
        else entry
        for entry in entries
    ]
    return {**value, member: levels}


def _image_of_05(image: JSON) -> JSON:
    """An image of 0.6 with the members that say the same in 0.5; None if it has no such form.

    Source: https://ngff.openmicroscopy.org/0.6/schemas/image.schema
    """
    try:
        systems = {system["name"]: system["axes"] for system in image["coordinateSystems"]}
        top = image.get("coordinateTransformations")
        image_of_05 = {name: value for name, value in image.items() if name != "coordinateSystems"}
        levels = [_steps(level["coordinateTransformations"]) for level in image["datasets"]]
        [target] = {end for _, _, end in levels}
        if [start for _, start, _ in levels] != [{"path": level["path"]} for level in image["datasets"]]:
            return None
        if top is not None:
            steps, start, end = _steps(top)
            if start != {"name": target}:
                return None
            image_of_05["coordinateTransformations"] = steps
            target = end
        image_of_05["axes"] = systems[target]
        pairs = zip(image["datasets"], levels, strict=True)
        image_of_05["datasets"] = [
            {**level, "coordinateTransformations": steps} for level, (steps, _, _) in pairs
        ]
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
    return image_of_05


def _steps(transforms: JSON) -> tuple[JSON, JSON, str]:
    """The list of 0.5 that the only transformation of 0.6 stands for; where it starts and ends."""
    [only] = transforms
    plain = {name: value for name, value in only.items() if name not in ("input", "output")}
    steps = plain["transformations"] if plain["type"] == "sequence" else [plain]
    return steps, only["input"], only["output"]["name"]


def _older(image: JSON) -> bool:
    """Whether the axes of an image are those of 0.1 to 0.3: letters, or none."""
    axes = image.get("axes") if isinstance(image, dict) else {}
    return axes is None or (isinstance(axes, list) and all(isinstance(axis, str) for axis in axes))


def _pairs(value: JSON, source: JSON) -> Iterator[tuple[JSONObject, JSONObject]]:
    """The entries of two lists that both are objects."""
    if isinstance(value, list) and isinstance(source, list) and len(value) == len(source):
        for mine, theirs in zip(value, source, strict=True):
            if isinstance(mine, dict) and isinstance(theirs, dict):
                yield mine, theirs


def _added(name: str, value: JSON, source: JSON) -> JSON:
    """What a result adds to metadata of 0.1 to 0.3 and should not be there; None if all of it fits."""
    kinds = {"t": "time", "c": "channel", "z": "space", "y": "space", "x": "space"}
    if name == "multiscales":
        for mine, theirs in _pairs(value, source):
            if not _older(theirs):
                continue
            axes = [{"name": letter, "type": kinds.get(letter)} for letter in theirs.get("axes") or "tczyx"]
            if mine.get("axes") != axes:
                return mine.get("axes")
            for number, (level, before) in enumerate(_pairs(mine.get("datasets"), theirs.get("datasets"))):
                if level == before:
                    continue  # it had a scale already
                transforms = level.get("coordinateTransformations")
                scale = transforms[0].get("scale") if isinstance(transforms, list) and transforms else None
                if not isinstance(scale, list) or len(scale) != len(axes) or min(scale) < 1:
                    return level
                if transforms != [{"type": "scale", "scale": scale}]:
                    return level
                if number == 0 and any(factor != 1 for factor in scale):
                    return level
    if name == "plate":
        for mine, theirs in _pairs(value.get("wells"), source.get("wells")):
            rows, columns = ([item.get("name") for item in value[kind]] for kind in ("rows", "columns"))
            if mine != theirs and f"{rows[mine['rowIndex']]}/{columns[mine['columnIndex']]}" != mine["path"]:
                return mine
    return None


def _as_before(name: str, value: JSON, source: JSON) -> JSON:
    """A result without what it adds to metadata of 0.1 to 0.3."""
    if name == "multiscales" and isinstance(value, list):
        pairs = {id(mine): theirs for mine, theirs in _pairs(value, source) if _older(theirs)}
        return [_image_before(one, pairs[id(one)]) if id(one) in pairs else one for one in value]
    if name == "plate" and isinstance(value, dict):
        pairs = {id(mine): theirs for mine, theirs in _pairs(value.get("wells"), source.get("wells"))}
        wells = value.get("wells")
        return {**value, "wells": [_only(well, pairs.get(id(well))) for well in wells]} if wells else value
    return value


def _image_before(image: JSONObject, source: JSONObject) -> JSONObject:
    levels = {id(mine): theirs for mine, theirs in _pairs(image.get("datasets"), source.get("datasets"))}
    with_levels = {
        **image,
        "datasets": [_only(level, levels.get(id(level))) for level in image.get("datasets", ())],
    }
    return {**with_levels, "axes": source["axes"]} if "axes" in source else _only(with_levels, source)


def _only(value: JSON, source: JSONObject | None) -> JSON:
    """An object without the members of 0.4 that its source does not have."""
    if source is None or not isinstance(value, dict):
        return value
    new = {"axes", "coordinateTransformations", "rowIndex", "columnIndex"} - source.keys()
    return {name: item for name, item in value.items() if name not in new}


def hdmf(node: Node, result: ResultNode) -> Iterator[Finding]:
    """Check links, references and kinds of datasets.

    Source: hdmf-zarr 0.14.0 (`ZarrIO.__read_links`, `__read_dataset`, `__read_attrs`).
    """
    yield from _links(node.attributes.get("zarr_link"), result.attributes)
    for name, value in node.attributes.items():
        refers = isinstance(value, dict) and "zarr_dtype" in value and isinstance(value.get("value"), dict)
        if refers and value != result.attributes.get(name):
            yield from _reference(name, value, result.attributes.get(name))
    dtype = node.attributes.get("zarr_dtype")
    if isinstance(node, ArrayNode) and dtype is not None and "zarr_dtype" not in result.attributes:
        yield from _dataset(dtype, result)


def _links(links: JSON, attributes: dict[str, Any]) -> Iterator[Finding]:
    if not isinstance(links, list) or "zarr_link" in attributes:
        return  # migrated as plain data, which the attributes show
    if not all(isinstance(link, dict) and {"name", "path"} <= link.keys() for link in links):
        return
    wanted = sorted((link["name"], _path(link["path"])) for link in links)
    mine = sorted((link["name"], _path(link["path"])) for link in attributes.get("_LINKS", ()))
    if mine != wanted:
        yield "list of links", canonical(mine), canonical(wanted)


def _reference(name: str, value: dict[str, Any], mine: JSON) -> Iterator[Finding]:
    target = mine.get("_REFERENCE") if isinstance(mine, dict) else None
    path = target.get("path") if isinstance(target, dict) else None
    wanted = _path(value["value"].get("path"))
    if path is None or _path(path) != wanted:
        yield f"reference {name!r}", canonical(mine), wanted


def _dataset(dtype: JSON, result: ResultNode) -> Iterator[Finding]:
    assert result.metadata is not None
    values = native(result.metadata)
    stated = result.attributes.get("_DTYPE")
    if dtype == "scalar" and tuple(result.metadata.shape) == (1,) and chunk_shape(result.metadata) == (1,):
        yield "shape of a scalar", "(1,)", "()"
    if dtype == "object" and (stated != "object_reference" or values.kind not in "TO"):
        yield "kind of a dataset of references", f"{stated}, {values}", "object_reference, string"
    if isinstance(dtype, list):
        names = tuple(field["name"] for field in dtype)
        wanted = [field["name"] for field in dtype if field["dtype"] == "object"]
        if values.names != names:
            yield "list of fields", str(values.names), str(names)
        if list(result.attributes.get("_REFERENCE_FIELDS", ())) != wanted:
            yield "list of fields that are references", canonical(result.attributes), canonical(wanted)


def _path(path: Any) -> str:
    return "/" + "/".join(name for name in str(path or "").split("/") if name)


def lost_values(
    source: Mapping[str, JSON],
    result: JSONObject,
    labels: list[str | None] | None,
    replaced: Sequence[str],
) -> list[tuple[str, str]]:
    """(JSON pointer, value) of each value in the source's attributes that the result does not contain.

    Values are counted without their places. `labels` are the result's dimension names, which attributes may
    have become; None for a group. `replaced` are the places whose values a convention has replaced.
    """
    here = Counter(text for _, text in _leaves(result, ""))
    if labels is not None:
        here.update(text for _, text in _leaves(labels, ""))
    lost = []
    for place, text in _leaves(dict(source), "") if source else ():
        if any(place == other or place.startswith(f"{other}/") for other in replaced):
            continue
        if here[text]:
            here[text] -= 1
        else:
            lost.append((place, text))
    return lost


def _leaves(value: JSON, place: str) -> Iterator[tuple[str, str]]:
    """JSON pointer and text of every leaf value; empty lists and objects count as leaves."""
    if isinstance(value, dict) and value:
        for name, item in value.items():
            yield from _leaves(item, f"{place}/{name.replace('~', '~0').replace('/', '~1')}")
    elif isinstance(value, list | tuple) and value:
        for index, item in enumerate(value):
            yield from _leaves(item, f"{place}/{index}")
    else:
        yield place, canonical(value)


WITNESSES: Final[Mapping[str, Callable[[Node, ResultNode], Iterator[Finding]]]] = {
    "hdmf": hdmf,
    "xarray": xarray,
    "ome": ome,
}
"""Witnesses by name of the convention."""

"""Checks OME-Zarr metadata of a result against the source's metadata, and against the arrays of the result.

A witness of `conventions`, from the specifications alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from zarrstack.core.json_text import JSON, JSONObject, canonical
from zarrstack.core.paths import join

from ..archive.nodes import ArrayNode, Node
from ..recipe.parsing import AUTO
from ..recipe.recipe import Recipe
from .zarr_python_reader import ResultNode

Finding: TypeAlias = tuple[str, str, str]


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
        source = _of_05(_with_text_paths(name, _listed(name, value, node.attributes[name])))
        added = _added(name, value, source)
        if added is not None:
            yield f"attribute ome/{name}", canonical(added), canonical(source)
            continue
        if canonical(_of_05(_as_before(name, value, source))) != canonical(source):
            yield f"attribute ome/{name}", canonical(value), canonical(source)
        elif canonical(_of_05(value)) != canonical(value):
            yield f"attribute ome/{name}", canonical(value), canonical(_of_05(value))


def images(
    nodes: Mapping[str, Node], results: Mapping[str, ResultNode], recipe: Recipe
) -> Iterator[tuple[str, Finding]]:
    """Check that an image's levels exist, all that exist are listed, and axes are their dimension names.

    Sources: https://ngff.openmicroscopy.org/0.5/#multiscale-md, https://ngff.openmicroscopy.org/0.6/
    """
    needed = recipe.needed(nodes)
    for group, result in results.items():
        block, source = result.attributes.get("ome"), nodes.get(group)
        if source is None or not isinstance(block, dict):
            continue
        old = source.attributes.get("ome", source.attributes)
        try:
            images = [_level_axes(group, image) for image in block["multiscales"]]
            levels = [level for image in old.get("multiscales", ()) for level in image["datasets"]]
            before = {join(group, str(level["path"])) for level in levels}
        except (KeyError, TypeError, IndexError, AttributeError):
            continue  # not an image, or one that `ome` finds
        for path in sorted((before & results.keys()).difference(*images)):
            yield group, ("list of levels", "others", path)
        for axes in images:
            existing = results.keys() & axes.keys()
            for path in sorted((nodes.keys() & axes.keys()) - needed if existing else ()):
                yield group, ("list of levels", path, "levels that are migrated")
            for path in sorted(existing & nodes.keys()):
                if not {"ome", "n5", AUTO}.isdisjoint(recipe.for_array(path).conventions):
                    names = _other_names(nodes[path], results[path], axes[path], source)
                    if names is not None:
                        yield group, (f"list of dimension names of /{path}", names, canonical(axes[path]))


def _level_axes(group: str, image: JSONObject) -> dict[str, list[str]]:
    """The names of the axes of each level, by path."""
    systems = {system["name"]: system["axes"] for system in image.get("coordinateSystems", ())}
    axes = image.get("axes")
    return {
        join(group, level["path"]): [
            axis["name"] for axis in axes or systems[level["coordinateTransformations"][0]["output"]["name"]]
        ]
        for level in image["datasets"]
    }


def _other_names(node: Node, result: ResultNode, names: list[str], group: Node) -> str | None:
    """The dimension names of a level, unless they are those of the axes, or others that its source has."""
    metadata = result.metadata
    if metadata is None or not isinstance(node, ArrayNode) or node.layout is None:
        return None
    mine = list(metadata.dimension_names or [None] * len(metadata.shape))
    own = node.attributes.get("_ARRAY_DIMENSIONS") or node.layout.dimension_names
    if own is None and "ome" in group.attributes:
        return None  # its source has none either
    return None if mine in (names, list(own or ())) else canonical(mine)


def _listed(name: str, value: JSON, source: JSON) -> JSON:
    """An attribute of the source with those levels, images and wells that the result lists: see `images`."""
    if name == "multiscales" and isinstance(source, list) and isinstance(value, list):
        pairs = zip(value, source, strict=False)
        return [_with_listed("datasets", *pair) for pair in pairs] + source[len(value) :]
    if name in ("labels", "series") and isinstance(source, list):
        return [item for item in source if item in value]
    return _with_listed({"plate": "wells", "well": "images"}.get(name, ""), value, source)


def _with_listed(member: str, value: JSON, source: JSON) -> JSON:
    if not all(isinstance(each, dict) and isinstance(each.get(member), list) for each in (value, source)):
        return source
    paths = {str(entry.get("path")) for entry in value[member] if isinstance(entry, dict)}
    kept = [each for each in source[member] if not isinstance(each, dict) or str(each.get("path")) in paths]
    return {**source, member: kept}


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

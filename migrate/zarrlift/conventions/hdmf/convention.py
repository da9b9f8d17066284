"""hdmf-zarr and NWB: links, references, and the content of datasets.

The form that hdmf-zarr 0.11 to 0.13 wrote on Zarr v2 is converted to that of 0.14 on Zarr v3; nothing else
changes: numbers and text are copied unchanged. Sources: the storage page of hdmf-zarr 0.13
(https://hdmf-zarr.readthedocs.io/en/stable/storage.html) and `hdmf_zarr/backend.py` of 0.11.3, 0.12.0, 0.13.0
and 0.14.0; the result was compared with what 0.14.0 writes for the same content.

    old                                         new
    zarr_link of a group                        _LINKS
    an attribute {zarr_dtype: object, value}    {"_REFERENCE": {source, path}}
    zarr_dtype: object, a dataset of references _DTYPE: object_reference, and paths as text
    zarr_dtype: [fields], some of them objects  a struct, and _REFERENCE_FIELDS
    zarr_dtype: scalar, an array of one item    an array without dimensions
    zarr_dtype: a name                          _DTYPE

A file with broken links or references is refused as a whole, because hdmf-zarr cannot open such a file or an
incomplete one.

Cycles of links and references are detected: hdmf-zarr reads a group with everything below it before it
registers the group, and follows links and attribute references in the process (0.11 to 0.14,
`ZarrIO.__read_group`): a path back to a group that is still being read results in endless recursion.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar, Final

from zarrstack.core.errors import Problem
from zarrstack.core.json_text import JSON, excerpt
from zarrstack.core.paths import join

from ...archive.nodes import ArrayNode, GroupNode, Node
from .. import Change, Convention, Recognised, View, finding
from .references import ADVICE

if TYPE_CHECKING:
    from .arrays import Dataset, DatasetReader


def reference_cycles(
    view: View, ways: Mapping[str, Sequence[str]], without: str | None
) -> Iterator[tuple[str, str]]:
    """(node whose link or reference closes the cycle, the cycle as text) for each cycle found.

    `ways` are the links and references by node; `without` is a group that is not read.
    """
    done: set[str] = set()
    trail: list[str] = []
    on_trail: set[str] = set()
    waiting: list[tuple[str, Iterator[str]]] = []

    def enter(path: str) -> None:
        trail.append(path)
        on_trail.add(path)
        below = (join(path, name) for name in view.children(path))
        steps = [*ways.get(path, ()), *(child for child in below if child != without)]
        waiting.append((path, iter(steps)))

    for start in view.nodes:
        if start not in done:
            enter(start)
        while waiting:
            path, steps = waiting[-1]
            step = next(steps, None)
            if step is None:
                waiting.pop()
                trail.pop()
                on_trail.discard(path)
                done.add(path)
            elif step in on_trail:
                circle = [*trail[trail.index(step) :], step]
                yield _closer(circle, ways), " -> ".join(f"/{name}" for name in circle)[:300]
            elif step not in done:
                enter(step)


def _closer(circle: Sequence[str], ways: Mapping[str, Sequence[str]]) -> str:
    """The node of the last step that is a link or reference, since nesting alone closes no cycle."""
    pairs = list(pairwise(circle))
    return next(before for before, after in reversed(pairs) if after in ways.get(before, ()))


LINKS: Final = "zarr_link"
DTYPE: Final = "zarr_dtype"
SPECLOC: Final = ".specloc"
DIMENSIONS: Final = "_ARRAY_DIMENSIONS"


class Hdmf(Convention):
    """hdmf-zarr and NWB: links, object references, compound and scalar datasets."""

    name: ClassVar[str] = "hdmf"
    exclusive: ClassVar[bool] = True

    def recognise(self, view: View) -> Recognised | None:
        """Recognize a Zarr v2 archive in which a dataset or group has one of hdmf-zarr's attributes."""
        if view.archive.format != "zarr2" or not any(map(_speaks, view.archive.nodes)):
            return None
        return _File(view).account()


def _speaks(node: Node) -> bool:
    return (
        DTYPE in node.attributes or LINKS in node.attributes or (not node.path and SPECLOC in node.attributes)
    )


class _File:
    """The analysis of one file."""

    def __init__(self, view: View) -> None:
        from .references import FileNodes

        self.view = view
        self.places = FileNodes(view)
        self.problems: list[Problem] = []
        self.changes: dict[str, Change] = {}
        self.ways: dict[str, list[str]] = {}
        """Path -> paths of the targets of its links and attributes within the file."""
        self.links = self.references = self.datasets = 0
        self.specifications = self._specifications()

    def account(self) -> Recognised:
        """The changes and problems of all nodes."""
        from .arrays import DatasetReader

        reader = DatasetReader(self.view, self.places)
        for node in self.view.archive.nodes:
            if not self.view.wanted(node.path):
                continue
            if isinstance(node, GroupNode):
                self._group(node)
            else:
                self._array(node, reader)
        for at, way in reference_cycles(self.view, self.ways, self.specifications):
            self._refuse(at, "links form a cycle, which hdmf-zarr follows endlessly", found=way)
        self.problems.extend(self.places.problems())
        refused = [problem for problem in self.problems if problem.severity == "refusal"]
        if refused:
            first = refused[0]
            found = f"{len(refused)} problems, the first at /{first.node}: {first.message}"[:300]
            self._refuse("", "an hdmf-zarr file is migrated completely or not at all", found=found)
        kind = "NWB file" if self._is_nwb() else "hdmf-zarr file"
        counts = ((self.datasets, "dataset"), (self.links, "link"), (self.references, "reference"))
        summary = f"{kind}: " + ", ".join(f"{n} {what}{'' if n == 1 else 's'}" for n, what in counts)
        return Recognised(summary=summary, changes=self.changes, problems=tuple(self.problems))

    def _is_nwb(self) -> bool:
        root = self.view.nodes[""]
        return root.attributes.get("neurodata_type") == "NWBFile"

    def _refuse(self, node: str, message: str, *, found: str) -> None:
        self.problems.append(finding("refusal", node, message, found, advice=ADVICE))

    # ----- nodes

    def _specifications(self) -> str | None:
        """The path of the group with the cached specifications; None if there is none."""
        place = self.view.nodes[""].attributes.get(SPECLOC)
        if isinstance(place, dict):  # a reference, before 0.11
            place = place.get("path")
        if place is None:
            return None
        if not isinstance(place, str) or self.view.group(place.strip("/")) is None:
            self._refuse("", f"{SPECLOC} does not name a group", found=excerpt(place))
            return None
        if place.strip("/") not in self.view.migrated:
            self._refuse("", f"{SPECLOC} names an excluded group", found=excerpt(place))
        return place.strip("/")

    def _group(self, node: GroupNode) -> None:
        attributes, replaced = self._attributes(node)
        if not node.path and isinstance(attributes.get(SPECLOC), dict):
            attributes[SPECLOC] = self.specifications or ""
        if LINKS in attributes:
            attributes = {key: value for key, value in attributes.items() if key != LINKS}
            attributes["_LINKS"] = self._links(node, replaced)
        self.changes[node.path] = Change(attributes=attributes, replaced=tuple(replaced))

    def _array(self, node: ArrayNode, reader: DatasetReader) -> None:
        attributes, replaced = self._attributes(node)
        dtype = attributes.pop(DTYPE, None)
        if DTYPE in node.attributes:
            replaced.append(f"/{DTYPE}")
        dataset = reader.read(node, dtype)
        self.problems.extend(dataset.problems)
        self.datasets += 1
        self.references += dataset.references
        cached = self.specifications is not None and f"{node.path}/".startswith(f"{self.specifications}/")
        if not cached:
            attributes.update(_stated(dataset))
        self.changes[node.path] = Change(
            attributes=attributes,
            replaced=tuple(replaced),
            layout=dataset.layout,
            lifts=dataset.lifts,
            dimension_names=_names(attributes.get(DIMENSIONS), dataset, node),
        )

    def _attributes(self, node: Node) -> tuple[dict[str, JSON], list[str]]:
        """The attributes with references in the form of 0.14, and the locations whose values are absent."""
        result: dict[str, JSON] = {}
        replaced: list[str] = []
        for name, value in node.attributes.items():
            if name in (DTYPE, LINKS, SPECLOC) or not (isinstance(value, dict) and DTYPE in value):
                result[name] = value
                continue
            self.references += 1
            target = self.places.attribute(value)
            if target.problem is not None:
                self._refuse(node.path, f"attribute {name!r}: {target.problem}", found=excerpt(value))
                result[name] = value
                continue
            result[name] = {"_REFERENCE": {"source": ".", "path": f"/{target.path}"}}
            self.ways.setdefault(node.path, []).append(target.path)
            place = name.replace("~", "~0").replace("/", "~1")
            replaced += [
                f"/{place}/{DTYPE}",
                *(f"/{place}/value/{key}" for key in _lost_members(value, result[name])),
            ]
        return result, replaced

    def _links(self, node: GroupNode, replaced: list[str]) -> list[JSON]:
        """The checked links of a group."""
        links = node.attributes[LINKS]
        if not isinstance(links, list):
            self._refuse(node.path, f"{LINKS} is not a list of links", found=excerpt(links))
            return []
        result: list[JSON] = []
        names = set(self.view.children(node.path))
        for index, link in enumerate(links):
            self.links += 1
            target = self.places.link(node.path, link)
            if target.problem is not None:
                self._refuse(node.path, f"{LINKS}[{index}]: {target.problem}", found=excerpt(link))
                continue
            if link["name"] in names:
                self._refuse(node.path, f"{LINKS}[{index}]: its name is in use", found=repr(link["name"]))
            names.add(link["name"])
            if target.own:
                self.ways.setdefault(node.path, []).append(target.path)
            resolved = {"source": target.source, "path": f"/{target.path}", "name": link["name"]}
            result.append(resolved)
            replaced += [
                f"/{LINKS}/{index}/{key}" for key in link if key not in resolved or resolved[key] != link[key]
            ]
        return result


def _lost_members(value: Mapping[str, JSON], result: JSON) -> list[str]:
    """The members of an attribute's reference that are absent from the result."""
    reference = result["_REFERENCE"]
    return [key for key, item in value["value"].items() if key not in reference or reference[key] != item]


def _stated(dataset: Dataset) -> dict[str, JSON]:
    """The attributes that 0.14 adds to a dataset of this kind."""
    if dataset.reference_fields:
        return {"_REFERENCE_FIELDS": list(dataset.reference_fields)}
    return {} if dataset.dtype is None else {"_DTYPE": dataset.dtype}


def _names(labels: JSON, dataset: Dataset, node: ArrayNode) -> tuple[str | None, ...] | None:
    """Dimension names for other readers; hdmf-zarr 0.14 still reads the attribute, which is kept."""
    layout = dataset.layout or node.layout
    if layout is None or not isinstance(labels, list) or len(labels) != len(layout.shape) or not labels:
        return None
    return tuple(labels) if all(isinstance(label, str | None) for label in labels) else None

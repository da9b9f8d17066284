"""`--provenance` and `--ro-crate`: where a result comes from, in an attribute and a file of its root.

What they say is fixed when a job is created, so that a resumed job writes the same as one that was not
interrupted. The file is an RO-Crate 1.1 (https://www.researchobject.org/ro-crate/specification/1.1/), as the
2024 challenge of OME asked for (https://github.com/ome/ome2024-ngff-challenge).
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from typing import Any, Final, NamedTuple, Self
from urllib.parse import quote

from zarrstack.core.errors import Problem, UsageError
from zarrstack.core.json_text import JSON, JSONObject
from zarrstack.version import __version__

from ..planning.plans import Plan
from ..recipe.recipe import Recipe
from ..storage.base import Storage
from .units import FORMATS

ATTRIBUTE: Final = "zarrlift"
CRATE: Final = "ro-crate-metadata.json"
_PREVIOUS: Final = "previous"
_MEMBERS: Final = frozenset({"version", "time", "source", "options"})
_SPECIFICATION: Final = "https://w3id.org/ro/crate/1.1"


class Provenance(NamedTuple):
    """What a job writes of itself."""

    attribute: JSONObject
    """The value of the root's attribute."""
    in_attribute: bool
    """Whether the attribute is written."""
    in_crate: bool
    """Whether the file is written."""

    @classmethod
    def of_new_job(
        cls,
        source: Storage,
        destination: str,
        recipe: Recipe,
        in_place: bool,
        *,
        provenance: bool,
        ro_crate: bool,
    ) -> Self | None:
        """For a job that is created now; None if nothing is requested. UsageError if the file is taken."""
        if not provenance and not ro_crate:
            return None
        if ro_crate and in_place and source.get(CRATE) is not None:
            raise UsageError(
                f"the archive has a {CRATE} already", found=source.url, advice="Leave out --ro-crate."
            )
        options: JSONObject = {name: value for name, value in recipe.to_json().items() if value}
        if recipe.model is not None:
            options["model"] = recipe.model.name
        attribute = {
            "version": __version__,
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "source": {"url": source.url},
            "destination": destination,
            "options": {"in_place": in_place, **options},
        }
        return cls(attribute=attribute, in_attribute=provenance, in_crate=ro_crate)

    @classmethod
    def from_text(cls, text: str | None) -> Self | None:
        """Inverse of `to_text`."""
        return None if text is None else cls(**json.loads(text))

    def to_text(self) -> str:
        """JSON text for a job."""
        return json.dumps(self._asdict())

    def described(self, plan: Plan) -> Plan:
        """A plan whose root has the attribute; a warning among its problems if there is no root."""
        root = next((node for node in plan.published if not node.path), None)
        if root is None:
            problem = Problem(
                kind="provenance",
                severity="warning",
                message="the origin of the result is not recorded, because its root is not migrated",
            )
            return replace(plan, problems=(*plan.problems, problem))
        if not self.in_attribute:
            return plan
        attributes = dict(root.document["attributes"])
        attributes[ATTRIBUTE] = self.value(plan.format, attributes.get(ATTRIBUTE))
        document = {**root.document, "attributes": attributes}

        return replace(
            plan,
            arrays=tuple(replace(node, document=document) if node is root else node for node in plan.arrays),
            groups=tuple(replace(node, document=document) if node is root else node for node in plan.groups),
        )

    def value(self, format: str, previous: JSON = None) -> JSONObject:
        """The attribute; `previous` is that of the source, which was migrated before."""
        attribute = {name: value for name, value in self.attribute.items() if name != "destination"}
        attribute["source"] = {**attribute["source"], "format": format}
        return attribute if previous is None else {**attribute, _PREVIOUS: previous}

    def crate(self, format: str) -> bytes:
        """The content of the file."""
        attribute = self.attribute
        source = _identifier(attribute["source"]["url"])
        name = attribute["destination"].rstrip("/").rpartition("/")[2] or "archive"
        encoding = FORMATS.get(format, format)
        graph = [
            _entity(CRATE, "CreativeWork", conformsTo=_refer(_SPECIFICATION), about=_refer("./")),
            _entity(
                "./",
                "Dataset",
                name=name,
                description=f"A Zarr v3 hierarchy, converted from {encoding}.",
                datePublished=attribute["time"],
                license=_refer("#license"),
                isBasedOn=_refer(source),
                hasPart=[_refer("zarr.json")],
                mentions=[_refer("#conversion")],
            ),
            _entity(
                "zarr.json",
                "File",
                name="Zarr v3 metadata of the root",
                encodingFormat="application/json",
            ),
            _entity(
                "#license",
                "CreativeWork",
                name="Not stated",
                description="The licence of the data was not known to the program that wrote this file.",
            ),
            _entity(source, "CreativeWork", name=attribute["source"]["url"], encodingFormat=encoding),
            _entity(
                "#conversion",
                "CreateAction",
                name="Conversion to Zarr v3",
                startTime=attribute["time"],
                instrument=_refer("#zarrlift"),
                object=_refer(source),
                result=_refer("./"),
            ),
            _entity(
                "#zarrlift", "SoftwareApplication", name="zarrlift", softwareVersion=attribute["version"]
            ),
        ]
        document = {"@context": f"{_SPECIFICATION}/context", "@graph": graph}
        return json.dumps(document, indent=2).encode() + b"\n"


def as_expected(
    attributes: JSONObject,
    source: JSONObject,
    *,
    has_job: bool,
    provenance: Provenance | None,
    format: str,
) -> JSONObject:
    """The attributes of a result's root as they are without the provenance that zarrlift has added.

    If its job is known (`has_job`), the provenance must be that of the job; else it must have its form.
    """
    value, before = attributes.get(ATTRIBUTE), source.get(ATTRIBUTE)
    if not isinstance(value, dict) or value == before or not value.keys() >= _MEMBERS:
        return attributes
    if has_job:
        if provenance is None or not provenance.in_attribute:
            return attributes
        if value != provenance.value(format, before):
            return attributes
    elif value.get(_PREVIOUS) != before:
        return attributes
    rest = {name: item for name, item in attributes.items() if name != ATTRIBUTE}
    return rest if _PREVIOUS not in value else {**rest, ATTRIBUTE: value[_PREVIOUS]}


def _entity(identifier: str, kind: str, **members: Any) -> JSONObject:
    return {"@id": identifier, "@type": kind, **members}


def _refer(identifier: str) -> JSONObject:
    return {"@id": identifier}


def _identifier(place: str) -> str:
    """A URI for a place: a path as that of a file (RFC 8089)."""
    if "://" in place:
        return quote(place.encode("utf-8", "surrogateescape"), safe="/:?#[]@!$&'()*+,;=%~")
    path = quote(place.replace(os.sep, "/").encode("utf-8", "surrogateescape"))
    return "file://" + ("" if path.startswith("/") else "/") + path

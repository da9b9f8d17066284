"""Stores the nodes of a plan as rows with JSON text; content shared by many nodes is encoded once."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Literal, TypeAlias

from zarrstack.core.identity_cache import Remembered, RememberedMembers, Seen
from zarrstack.core.json_text import JSONObject

from ...archive.layout import layout_to_json
from ...planning.plans import ArrayPlan, GroupPlan, Planned, Refusal

Kind: TypeAlias = Literal["array", "group", "refusal"]
_KINDS: Final[Mapping[type[Planned], Kind]] = {ArrayPlan: "array", GroupPlan: "group", Refusal: "refusal"}
_ENCODE: Final = json.JSONEncoder().encode


def as_stored(text: str) -> str | bytes:
    """A text as SQLite stores it: names that are not valid UTF-8 (PEP 383) as bytes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
    return text


def as_text(stored: str | bytes) -> str:
    """Inverse of `as_stored`."""
    return stored if isinstance(stored, str) else stored.decode("utf-8", "surrogatepass")


def node_rows(nodes: Iterable[Planned]) -> Iterator[tuple[str | bytes, Kind, str, str]]:
    """Path, kind, plan and initial state of each node."""
    text = PlanTexts()
    for node in nodes:
        kind = _KINDS[type(node)]
        yield as_stored(node.path), kind, text(node), "refused" if kind == "refusal" else "pending"


class PlanTexts:
    """Encodes nodes; the nodes must not change meanwhile."""

    def __init__(self) -> None:
        self._seen = Seen()
        self._layout = Remembered(layout_to_json)
        self._text = Remembered(_ENCODE)
        self._head = RememberedMembers(_ENCODE)

    def __call__(self, node: Planned) -> str:
        """JSON for `from_json` of the node's class; the order of a document's members is kept."""
        if not isinstance(node, ArrayPlan) or not self._seen(node.destination):
            return _ENCODE(node.to_json())
        data = node.to_json(self._layout)
        layouts = [(name, self._text(data.pop(name))) for name in ("source", "destination")]
        layouts.append(("document", self._document(data.pop("document"))))
        shared = "".join([f', "{name}": {text}' for name, text in layouts])
        return f"{_ENCODE(data)[:-1]}{shared}}}"

    def _document(self, document: JSONObject) -> str:
        """JSON of a document; the part determined by the layout is one shared object, encoded once."""
        if len(document) < 2 or next(reversed(document)) != "attributes":
            return _ENCODE(document)
        head = dict(document)
        _, attributes = head.popitem()
        return f'{self._head(head)[:-1]}, "attributes": {self._text(attributes)}}}'

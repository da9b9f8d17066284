"""The rows of the ledger that hold the nodes of a plan, as JSON text.

What arrays of one layout have in common is a row of its own, under its digest: an archive of 100,000 arrays
has few layouts, and a plan without its layouts takes a quarter of the space.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from zarrstack.core.json_text import JSONObject

from ...archive.chunk_inventory import UNLISTED
from ...archive.nodes import layout_from_json, layout_to_json
from ...core.identity_cache import IdentityCache
from ...planning.plans import ArrayPlan, GroupPlan, Planned, Refusal
from .rows import Kind, PlannedWork, as_stored

_KINDS: Final[Mapping[type[Planned], Kind]] = {ArrayPlan: "array", GroupPlan: "group", Refusal: "refusal"}
_ENCODE: Final = json.JSONEncoder(check_circular=False).encode  # plans are trees
_COMMON: Final = frozenset(
    {
        *("source", "destination", "route", "casting", "objects", "allow_pickle", "drop_empty"),
        *("block_shape", "piece_shape", "run_shape", "between", "document", "fill_is_null"),
    }
)
"""Members of an array's plan that the arrays of a layout share; of its document, all but the attributes."""
_SHARED: Final = "shared"
"""Member of a row's plan: the digest under which the common part is stored."""

_NO_WORK: Final = PlannedWork(tasks=0, moves=False, bytes_in=0, bytes_known=True, reads=0, by_tasks=False)

Common: TypeAlias = tuple[bytes, str]
"""(digest, JSON text) of what arrays have in common."""

Values: TypeAlias = tuple[str | bytes | int | None, ...]
"""Of a new row of `node`: path, kind, plan, state, route, and those of `PlannedWork`."""


def node_rows(nodes: Iterable[Planned]) -> Iterator[tuple[Values, Common | None]]:
    """The row of each node, and what it shares with others if that has not been given before."""
    layout = IdentityCache(layout_to_json)
    written: set[bytes] = set()
    for node in nodes:
        path, kind = as_stored(node.path), _KINDS[type(node)]
        if not isinstance(node, ArrayPlan):
            state = "refused" if kind == "refusal" else "pending"
            yield (path, kind, _ENCODE(node.to_json()), state, None, *_NO_WORK), None
            continue
        digest, text, own = _split(node.to_json(layout))
        row = (path, kind, _ENCODE(own), "pending", node.route.name, *planned_work(node))
        yield row, None if digest in written else (digest, text)
        written.add(digest)


def planned_work(plan: ArrayPlan) -> PlannedWork:
    """What a plan says about the amount of its work."""
    first = 0 if plan.between is None else max(len(plan.between.bounds) - 1, 0)
    return PlannedWork(
        tasks=plan.tasks + first,
        moves=plan.tasks > 0,
        bytes_in=plan.bytes_read,
        bytes_known=plan.bytes_in_known,
        reads=plan.reads,
        by_tasks=plan.fingerprint == UNLISTED or plan.between is not None,
    )


class PlanReader:
    """Makes nodes from their rows; equal layouts are one object."""

    def __init__(self, common: Iterable[tuple[bytes, str]]) -> None:
        """`common`: the rows of what arrays share; ValueError if one is not JSON."""
        self._common: dict[str, JSONObject] = {digest.hex(): json.loads(text) for digest, text in common}
        self._layout = IdentityCache(layout_from_json)

    def node(self, kind: Kind, text: str) -> Planned:
        """The node of a row, which may hold its whole plan; ValueError, KeyError or TypeError if damaged."""
        data: JSONObject = json.loads(text)
        if kind == "group":
            return GroupPlan.from_json(data)
        if kind == "refusal":
            return Refusal.from_json(data)
        return ArrayPlan.from_json(self._whole(data) if _SHARED in data else data, self._layout)

    def _whole(self, own: JSONObject) -> JSONObject:
        """The plan of an array with what it shares."""
        common = self._common[own[_SHARED]]
        document = common["document"]
        if "attributes" in own:
            document = {**document, "attributes": own["attributes"]}  # at its place in the document
        return {**common, **own, "document": document}


def _split(plan: JSONObject) -> tuple[bytes, str, JSONObject]:
    """Digest and text of what an array's plan shares, and the rest of the plan."""
    own: dict[str, Any] = {name: value for name, value in plan.items() if name not in _COMMON}
    common = {name: value for name, value in plan.items() if name in _COMMON}
    document = common["document"]
    if "attributes" in document:
        own["attributes"] = document["attributes"]
        common["document"] = {**document, "attributes": None}
    text = _ENCODE(common)
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    own[_SHARED] = digest.hex()
    return digest, text, own

"""The rows of the ledger that hold the nodes of a plan, as JSON text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Literal, TypeAlias

from zarrstack.core.identity_cache import IdentityCache

from ...archive.layout import layout_to_json
from ...planning.plans import ArrayPlan, GroupPlan, Planned, Refusal

Kind: TypeAlias = Literal["array", "group", "refusal"]
_KINDS: Final[Mapping[type[Planned], Kind]] = {ArrayPlan: "array", GroupPlan: "group", Refusal: "refusal"}
_ENCODE: Final = json.JSONEncoder(check_circular=False).encode  # plans are trees


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
    layout = IdentityCache(layout_to_json)
    for node in nodes:
        kind = _KINDS[type(node)]
        data = node.to_json(layout) if isinstance(node, ArrayPlan) else node.to_json()
        yield as_stored(node.path), kind, _ENCODE(data), "refused" if kind == "refusal" else "pending"

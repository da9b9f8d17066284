"""JSON output of the commands; member names are stable.

Every command with `--json` prints exactly one document to standard output: `{"zarrlift": version, "command",
"exit_code", "result" | "error"}`. `result` is the object returned by the Python function of the same name;
`error` is one problem.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..archive.nodes import layout_to_json
from ..planning.estimates import plan_totals

if TYPE_CHECKING:
    from zarrstack.core.json_text import JSONObject

    from ..archive.nodes import Archive, Node
    from ..planning.plans import Plan
    from ..planning.result_readers import Reading


def archive_json(archive: Archive) -> JSONObject:
    """An archive: its nodes and their properties in v3 terms."""
    return {
        "url": archive.url,
        "format": archive.format,
        "consolidated": archive.consolidated,
        "conventions": [{"name": seen.name, "summary": seen.summary} for seen in archive.conventions],
        "nodes": [_node(node) for node in archive.nodes],
        "problems": [problem.to_json() for problem in archive.problems],
    }


def _node(node: Node) -> JSONObject:
    data: JSONObject = {
        "path": node.path,
        "kind": "array" if hasattr(node, "layout") else "group",
        "refused": node.refused,
        "attributes": dict(node.attributes),
        "documents": [document.key for document in node.documents],
        "problems": [problem.to_json() for problem in node.problems],
    }
    layout = getattr(node, "layout", None)
    if data["kind"] == "array":
        data["layout"] = None if layout is None else layout_to_json(layout)
        data["fill_is_null"] = node.fill_is_null  # type: ignore[union-attr]
        data["extra"] = node.extra  # type: ignore[union-attr]
    else:
        data["implicit"] = node.implicit  # type: ignore[union-attr]
    return data


def plan_json(plan: Plan) -> JSONObject:
    """A plan, complete, with totals, and who can read each array."""
    from ..planning.result_readers import readings

    data = plan.to_json()
    arrays = [
        {**array, "readers": _reading(reading)}
        for array, (_, reading) in zip(data["arrays"], readings(plan.arrays), strict=True)
    ]
    requests = None if plan.requests is None else plan.requests.to_json()
    return {**data, "arrays": arrays, "totals": plan_totals(plan), "requests": requests}


def _reading(reading: Reading) -> JSONObject:
    return {
        "yes": [str(reader) for reader in reading.able],
        "no": {str(reader): list(features) for reader, features in reading.unable.items()},
        "unknown": {str(reader): list(features) for reader, features in reading.unknown.items()},
    }

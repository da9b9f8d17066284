"""Settles the places of a batch whose file was moved or copied, as `settled_places` does for one job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from zarrstack.core.errors import JobError

from ...storage.redact import redact
from ..ledger.home import Home
from ..ledger.move import Move
from ..settled_places import Finding, finding, message_of, resolved
from .batch_file import BatchFile
from .rows import BatchRow


def settle(file: BatchFile) -> list[BatchRow]:
    """The archives where they are now, recorded if the file is open for writing.

    JobError if the file was moved or copied and their places cannot be known; nothing is changed then.
    """
    rows = file.rows()
    move = Move.of(file.path, file.fact("home"), file.fact("id") or "", batch=True)
    if move is not None:
        rows = _moved(file, move, rows)
    if file.writes and (move is not None or file.fact("home") is None):
        file.record(rows, home=Home.of(file.path).to_text())
    return rows


def _moved(file: BatchFile, move: Move, rows: Sequence[BatchRow]) -> list[BatchRow]:
    known = [_findings(move, row) for row in rows]
    moved = {role for findings, _ in known for role, found in findings.items() if found == "relative"}
    settled = [resolved(move, findings, changes, moved) for findings, changes in known]
    refused = [
        (row, role, found)
        for row, findings in zip(rows, settled, strict=True)
        for role, found in findings.items()
        if found not in ("relative", "recorded")
    ]
    if refused:
        raise _refusal(file, move, refused)
    return [_row(move, row, findings) for row, findings in zip(rows, settled, strict=True)]


def _findings(move: Move, row: BatchRow) -> tuple[dict[str, Finding], dict[str, bool]]:
    """What is known of the places of an archive, and which of them are changed."""
    changes = {"source": row.source == row.destination}
    if not changes["source"]:
        changes["destination"] = True
    return {role: finding(move, getattr(row, role), changes=changes[role]) for role in changes}, changes


def _row(move: Move, row: BatchRow, findings: dict[str, Finding]) -> BatchRow:
    """An archive with the places that were found."""
    places = {role: getattr(row, role) for role in findings}
    for role, found in findings.items():
        if found == "relative":
            places[role] = move.relative(places[role]) or places[role]
    return replace(row, source=places["source"], destination=places.get("destination", places["source"]))


def _refusal(file: BatchFile, move: Move, refused: Sequence[tuple[BatchRow, str, Finding]]) -> JobError:
    findings = [found for _, _, found in refused]
    row, role, found = next((each for each in refused if each[2] == "both"), refused[0])
    place = getattr(row, role)
    relative = move.relative(place) if found == "both" else None
    shown = redact(place) if relative is None else f"{redact(relative)} and {redact(place)}"
    more = f", and {len(refused) - 1} more" if len(refused) > 1 else ""
    return JobError(
        message_of(findings),
        key=str(file.path),
        found=f"{shown}{more}; the job file was recorded as {move.home.path}",
        advice="Use the job file there, or move away what is not meant. Nothing was changed.",
    )

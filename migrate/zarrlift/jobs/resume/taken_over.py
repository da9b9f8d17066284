"""Warnings for nodes that a resume plans again because their source changed."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Final

from zarrstack.core.errors import Problem

from ...archive.inventory_file import InventoryFile
from ...planning.inventories import Inventories
from ...planning.plans import ArrayPlan, Planned, Refusal
from ...planning.source_inventory import changed_keys
from ..ledger.ledger import Job
from ..source_check import source_changed
from ..units import count_text

_ADVICE: Final = (
    "The arrays of this result are of different times: what was copied before is older. To have all of one"
    " time, undo the job and migrate while nothing writes to the source."
)


@dataclass(slots=True)
class TakenOver:
    """Collects what changed in the source of nodes that are planned again."""

    job: Job
    inventories: Inventories
    """Those of the new plan, whose file may have the earlier ones too."""
    problems: list[Problem] = field(default_factory=list)
    """A warning for each node whose source changed."""
    _listing: Inventories | None = None

    def add(self, before: Planned, now: Planned) -> None:
        """Compare the plans of a node, before the earlier one is replaced."""
        if isinstance(before, Refusal) or isinstance(now, Refusal) or type(before) is not type(now):
            return  # the reason of a refusal was removed; the report has the refusal of the new plan
        old, new = dict(before.source_digests), dict(now.source_digests)
        documents = sorted(key for key in old.keys() | new.keys() if old.get(key) != new.get(key))
        changes = [f"documents ({', '.join(documents)})"] if documents else []
        found = expected = ""
        if isinstance(before, ArrayPlan) and isinstance(now, ArrayPlan):
            # Chunks that stay where they are belong to the result, whenever they were written.
            if before.fingerprint != now.fingerprint and now.route.name != "stay":
                changes.insert(0, self._keys(before, now))
            found, expected = count_text(now.chunks, "chunk"), count_text(before.chunks, "chunk")
        if changes:
            self.problems.append(
                source_changed(
                    now.path,
                    f"the source of {'an array' if expected else 'a group'} changed after it was planned, so"
                    " it was planned again",
                    severity="warning",
                    found=": ".join(filter(None, (found, "; ".join(filter(None, changes))))),
                    expected=expected or None,
                    advice=_ADVICE,
                )
            )

    def _keys(self, before: ArrayPlan, now: ArrayPlan) -> str:
        new = self.inventories.get(now.path)
        old = self.inventories.stored(before)
        if old is None:
            if self._listing is None:
                file = InventoryFile.temporary(self.job.id, self.job.listing.pieces())
                self._listing = Inventories(file)
            old = self._listing.stored(before)
        if old is None or new is None:
            return "the keys are not known, because the earlier listing is not stored"
        return changed_keys(now, old, new, before.source)

    def keep(self) -> None:
        """Add the warnings to those of the job. Durable at its next commit."""
        if self.problems:
            header = self.job.header
            header["problems"] += [problem.to_json() for problem in self.problems]
            self.job.note(plan=json.dumps(header))

    def close(self) -> None:
        """Close the earlier listing, if it was read."""
        if self._listing is not None:
            self._listing.close()

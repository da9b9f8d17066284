"""The status of a job in parts."""

from __future__ import annotations

from ..current_status import activity, current_status
from ..ledger.ledger import Job
from ..status import PartStatus, Status
from .ledgers import ledgers_of, merge, readers


def status_of_parts(job: Job) -> Status:
    """The status of an open job with what its parts have recorded; changes nothing."""
    count = int(job.fact("parts") or 0)
    parts = {index: PartStatus(part=index, activity=None) for index in range(count)}
    began: dict[int, float] = {}
    ledgers = ledgers_of(job.path)
    with readers(ledgers, job.id, None, []) as found:
        for reader in found:
            tasks = sum(total.tasks for total in reader.job.totals().values()) + parts[reader.index].tasks
            run = reader.run
            if run is None or run.began < began.get(reader.index, 0.0):
                continue
            began[reader.index] = run.began
            parts[reader.index] = PartStatus(
                part=reader.index, activity=activity(reader.job, run), tasks=tasks, host=run.owner.host
            )
    if not ledgers:
        return current_status(job, tuple(parts.values()))
    with job.copy() as copied:
        merge(copied, None, forget=False)
        return current_status(copied, tuple(parts.values()))

"""Goes on with a job that an earlier run left incomplete."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

from ...storage.writer_for import writer_for
from ..ledger.last_run import noted_run
from ..opened_job import OpenJob
from ..ours import require_visible
from ..outcome import Outcome
from ..outcome_of_job import nothing_to_do
from ..overwrite import remove_previous_tree, set_aside
from ..parts.merge import sweep_parts
from ..progress import listing_shown
from ..run_job import refuse_unmet, run_job
from ..stored_inventories import earlier_inventories, keep_inventory
from .replan import merge
from .unsynced_files import compare_unsynced


def resume_job(it: OpenJob) -> Outcome:
    """Check what an earlier run left, or parts of the job, and run the job to its end."""
    job, ends, options = it.job, it.ends, it.options
    if job.fact("update") is not None:
        from ..update.update_job import update_job

        return update_job(it)
    if job.state != "incomplete":
        require_visible(job, ends.destination)
        remove_previous_tree(job, ends.destination)
        writer_for(ends.destination, job.id, fsync=False).close()
        return nothing_to_do(job)
    old = job.plan()  # first, so that nothing is changed if the file cannot be read
    with noted_run(job):
        job.note(**ends.options)
        set_aside(job, ends.destination)
        with closing(earlier_inventories(job, old, ends.source)) as inventories:
            with listing_shown(it.progress, lambda: inventories.listed):
                fresh, _ = replace(ends, reading=old.reading).plan(
                    old.recipe, old.format, elsewhere=options.on_other_machines, inventories=inventories
                )
            refuse_unmet(fresh)
            merged = merge(job, old, fresh, inventories, ends.destination)
            keep_inventory(job, inventories)
            if it.crashed:
                compare_unsynced(job, merged, ends.source, ends.destination, inventories)
            outcome = run_job(job, merged, ends, options, it.checks, inventories, it.progress)
        if outcome.state == "done":
            sweep_parts(job, ends.place)
        return outcome

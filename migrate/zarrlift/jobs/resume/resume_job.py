"""Goes on with a job that an earlier run left incomplete."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

from ...storage.writer_for import writer_for
from ..ledger.last_run import noted_run
from ..opened_job import FoundJob, open_job
from ..outcome import Outcome
from ..overwrite import remove_previous_tree, set_aside
from ..progress import Progress, listing_shown
from ..run_job import nothing_to_do, refuse_unmet, require_visible, run_job
from ..stored_inventories import earlier_inventories, keep_inventory
from .replan import merge
from .unsynced_files import compare_unsynced


def resume_job(found: FoundJob, progress: Progress | None) -> Outcome:
    """Check what an earlier run left, or parts of the job, and run the job to its end."""
    with open_job(found, progress) as opened:
        job, ends, options = opened.job, opened.ends, opened.options
        if job.fact("update") is not None:
            from ..update.update_job import update_job

            return update_job(opened)
        if job.state != "incomplete":
            require_visible(job, ends)
            remove_previous_tree(job, ends.destination)
            writer_for(ends.destination, job.id, fsync=False).close()
            return nothing_to_do(job)
        old = job.plan()  # first, so that nothing is changed if the file cannot be read
        with noted_run(job):
            job.note(**ends.options)
            set_aside(job, ends.destination)
            with closing(earlier_inventories(job, old, ends.source)) as inventories:
                with listing_shown(progress, lambda: inventories.listed):
                    fresh, _ = replace(ends, reading=old.reading).plan(
                        old.recipe, old.format, elsewhere=options.on_other_machines, inventories=inventories
                    )
                refuse_unmet(fresh)
                merged = merge(job, old, fresh, inventories, ends.destination)
                keep_inventory(job, inventories)
                if opened.crashed:
                    compare_unsynced(job, merged, ends.source, ends.destination, inventories)
                outcome = run_job(job, merged, ends, options, opened.checks, inventories, progress)
            if outcome.state == "done":
                from ..parts.merge import sweep_parts

                sweep_parts(job, ends.place)
            return outcome

"""Goes on with a job that an earlier run left incomplete."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from ...recipe.format_names import require_installed
from ...storage.writer_for import writer_for
from ..checks.checks_for import checks_for
from ..endpoints import Endpoints
from ..ledger.find_job import refuse_undone
from ..ledger.last_run import noted_run
from ..ledger.ledger import Job
from ..outcome import Outcome
from ..overwrite import remove_previous_tree, set_aside
from ..processes.executors import RunOptions
from ..progress import Progress, listing_shown
from ..provenance import Provenance
from ..run_job import nothing_to_do, refuse_unmet, require_visible, run_job, still_there
from ..stored_inventories import earlier_inventories, keep_inventory
from .replan import merge

if TYPE_CHECKING:
    from ..ledger.stored_file import JobPath


def resume_job(
    path: JobPath,
    options: RunOptions,
    ends: Endpoints,
    progress: Progress | None,
) -> Outcome:
    """Check what an earlier run left, or parts of the job, and run the job to its end."""
    from ..parts.ledgers import merge_ended, sweep_parts
    from .relocate import follow
    from .unsynced_files import compare_unsynced, find_torn_documents, may_be_lost

    # Start the checks first: a forked process must not inherit the lock on the job.
    with (
        checks_for(ends.source, ends.destination, options.verify) as checks,
        Job.open(path, fsync=options.fsync) as job,
    ):
        if job.fact("update") is not None:
            from ..update.update_job import update_job

            return update_job(job, options, ends, checks, progress)
        refuse_undone(job)
        require_installed(job.header["format"], job.header.get("package"))
        ends.destination.attach(job.id)
        follow(job, ends)
        ends = replace(ends, provenance=Provenance.from_text(job.fact("provenance")))
        if job.fact("parts") is not None:
            merge_ended(job, ends.place, take_over=options.take_over)
        crashed = ends.local_destination is not None and may_be_lost(job)
        if crashed and job.state == "incomplete":
            find_torn_documents(job, ends.destination)
        still_there(job, ends)
        if job.state != "incomplete":
            require_visible(job, ends)
            remove_previous_tree(job, ends.destination)
            writer_for(ends.destination, job.id, fsync=False).close()
            return nothing_to_do(job)
        if options.digest:
            job.note(digest="yes")
        options = replace(options, digest=job.fact("digest") is not None)
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
                if crashed:
                    compare_unsynced(job, merged, ends.source, ends.destination, inventories)
                outcome = run_job(job, merged, ends, options, checks, inventories, progress)
            if outcome.state == "done":
                sweep_parts(job, ends.place)
            return outcome

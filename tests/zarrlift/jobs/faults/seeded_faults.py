"""Ordering faults, as patches: what each breaks, and what has to find it.

Jobs are safe because of the order of their steps. Each fault here swaps or leaves out one of them.
`seeded.py` applies one at a time, and `test_seeded.py` checks that each still applies.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_JOBS = "migrate/zarrlift/jobs"
_ORDER = "tests/zarrlift/jobs/test_order_of_steps.py"


@dataclass(frozen=True, slots=True)
class Edit:
    """A text that occurs once in a file, and another in its place."""

    file: str
    """Below the root of the repository."""
    old: str
    new: str

    def applied(self, root: Path, source: str | None = None) -> str:
        """The file, or `source`, with the other text; ValueError if the text does not occur once."""
        source = (root / self.file).read_text() if source is None else source
        if (count := source.count(self.old)) != 1:
            raise ValueError(f"{self.file}: the text to replace occurs {count} times, not once:\n{self.old}")
        return source.replace(self.old, self.new)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A wrong order."""

    name: str
    breaks: str
    """What goes wrong, and when."""
    edits: tuple[Edit, ...]
    tests: tuple[str, ...]
    """Files of tests, some of which fail."""


FAULTS = (
    Fault(
        name="publish before record",
        breaks="an array is visible while one of its tasks is neither done nor recorded",
        edits=(
            Edit(
                f"{_JOBS}/array_states.py",
                "ended = array.all_submitted and array.open_tasks == 0",
                "ended = array.all_submitted and array.open_tasks == min(1, array.plan.tasks - 1)",
            ),
            Edit(
                f"{_JOBS}/run.py",
                "                self._check_and_publish(copied)\n",
                "                self._check_and_publish(copied)\n"
                "                self._take_check_results()\n",
            ),
        ),
        tests=(_ORDER,),
    ),
    Fault(
        name="record before write",
        breaks="a task is recorded when it is submitted; killed, an update keeps objects of before",
        edits=(
            Edit(
                f"{_JOBS}/run.py",
                "                        running.submit((array, task), *executor.call(task))\n",
                "                        moved = MoveResult(chunks=len(task.indexes))\n"
                "                        self.job.record_task(array.row.id, task.number, moved)\n"
                "                        self.job.commit()\n"
                "                        running.submit((array, task), *executor.call(task))\n",
            ),
        ),
        tests=(_ORDER,),
    ),
    Fault(
        name="record before publish",
        breaks="a node is recorded as published, and its document is written later; killed, it never is",
        edits=(
            Edit(
                f"{_JOBS}/run.py",
                "            written = self._publisher.publish_array(",
                "            self.job.record_published([(array.row.id, None)])\n"
                "            self.job.commit()\n"
                "            written = self._publisher.publish_array(",
            ),
        ),
        tests=(_ORDER,),
    ),
    Fault(
        name="lost sync",
        breaks="with --fsync, a file is renamed before its content is on disk",
        edits=(
            Edit(
                "migrate/zarrlift/storage/local/writer.py",
                "                if self.fsync:\n                    os.fsync(descriptor)\n",
                "",
            ),
        ),
        tests=("tests/zarrlift/storage/test_local_writer.py",),
    ),
    Fault(
        name="undo deletes before it hides",
        breaks="undo deletes chunks of arrays that are visible, and their documents last",
        edits=(
            Edit(
                f"{_JOBS}/undo.py",
                "    for path in documents.removable:  # the root's first,"
                " so no reader sees an incomplete v3 tree\n"
                '        storage.delete(join(path, "zarr.json"))\n'
                "    removed = len(documents.removable)\n"
                "    if plan.in_place:\n"
                "        return removed\n",
                "    def hide() -> int:\n"
                "        for path in documents.removable:\n"
                '            storage.delete(join(path, "zarr.json"))\n'
                "        return len(documents.removable)\n\n"
                "    removed = 0\n"
                "    if plan.in_place:\n"
                "        return hide()\n",
            ),
            Edit(
                f"{_JOBS}/undo.py",
                "            sweep(node, storage)\n    return removed\n",
                "            sweep(node, storage)\n    return removed + hide()\n",
            ),
        ),
        tests=(_ORDER,),
    ),
    Fault(
        name="claim after write",
        breaks="a destination is claimed after the job has written to it",
        edits=(
            Edit(
                f"{_JOBS}/claim.py",
                "        with _claiming:\n"
                "            _held.add(holder.token)\n"
                "            _claim(claim, _places(destination), take_over=take_over)\n"
                "        if isinstance(destination, LocalStorage):\n"
                "            destination.hold()\n"
                "        yield claim\n",
                "        yield claim\n"
                "        with _claiming:\n"
                "            _held.add(holder.token)\n"
                "            _claim(claim, _places(destination), take_over=take_over)\n",
            ),
        ),
        tests=(_ORDER, "tests/zarrlift/jobs/test_claim.py"),
    ),
    Fault(
        name="claim released before publish",
        breaks="a job gives its claim back before it publishes, and another may write there",
        edits=(
            Edit(
                f"{_JOBS}/archive_run.py",
                "            return open_job.end(open_job.run_to_end(plan,",
                "            claim.release()\n            return open_job.end(open_job.run_to_end(plan,",
            ),
        ),
        tests=(_ORDER, "tests/zarrlift/jobs/test_claim.py"),
    ),
    Fault(
        name="group before its arrays",
        breaks="in place, a v3 group hides arrays that are still v2",
        edits=(
            Edit(
                f"{_JOBS}/run.py",
                "            self._run_arrays()\n",
                "            self._publisher.groups()\n            self._run_arrays()\n",
            ),
            Edit(
                f"{_JOBS}/publisher.py",
                "        if self.plan.in_place and (\n",
                "        if False and (\n",
            ),
        ),
        tests=(_ORDER,),
    ),
    Fault(
        name="consolidated before arrays",
        breaks="consolidated metadata describes arrays that are not there",
        edits=(
            Edit(
                f"{_JOBS}/run.py",
                "            self._run_arrays()\n",
                "            self._publisher.groups()\n            self._run_arrays()\n",
            ),
            Edit(
                f"{_JOBS}/publisher.py",
                'self.plan.document("", done)',
                'self.plan.document("")',
            ),
        ),
        tests=(_ORDER,),
    ),
    Fault(
        name="update's document before its chunks",
        breaks="an array that grows has its new shape before the chunks of it",
        edits=(
            Edit(
                f"{_JOBS}/update/update.py",
                '    smaller = [min(pair) for pair in zip(earlier["shape"], shape, strict=True)]\n',
                "    smaller = list(shape)\n",
            ),
        ),
        tests=(_ORDER,),
    ),
    Fault(
        name="resume trusts a record",
        breaks="a recorded task whose objects are gone is not repeated",
        edits=(
            Edit(
                f"{_JOBS}/array_states.py",
                "        lost = lost_tasks(plan, inventory, self._destination, done)\n",
                "        lost: set[int] = set()\n",
            ),
        ),
        tests=(_ORDER, "tests/zarrlift/jobs/test_stopped.py"),
    ),
    Fault(
        name="finish deletes before it keeps",
        breaks="legacy documents are deleted before the job has their content; killed, undo restores nothing",
        edits=(
            Edit(
                f"{_JOBS}/finish.py",
                "    job.legacy.keep(legacy)\n"
                "    job.commit()\n"
                "    for key, _ in legacy:\n"
                "        place.delete(key)\n",
                "    for key, _ in legacy:\n"
                "        place.delete(key)\n"
                "    job.legacy.keep(legacy)\n"
                "    job.commit()\n",
            ),
        ),
        tests=(_ORDER,),
    ),
    Fault(
        name="update changes before its intent is recorded",
        breaks="an update hides and deletes what the job still counts as done",
        edits=(
            Edit(
                f"{_JOBS}/update/update.py",
                "            _intend(job, plan, steps, updating, continued=bool(earlier))\n"
                "            _keep_base(before, now, plan)\n"
                "            replace_inventory(job, now)\n"
                "            removed = _prepare(job, plan, steps, ends, fsync=options.fsync)\n",
                "            _keep_base(before, now, plan)\n"
                "            replace_inventory(job, now)\n"
                "            removed = _prepare(job, plan, steps, ends, fsync=options.fsync)\n"
                "            _intend(job, plan, steps, updating, continued=bool(earlier))\n",
            ),
        ),
        tests=(_ORDER,),
    ),
)

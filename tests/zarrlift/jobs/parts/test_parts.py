"""Parts of a job, run in any order, killed, repeated and gathered, make what one process makes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.bucket import serving
from tests.support.job_archives import tree
from tests.support.job_processes import stopping
from tests.support.processes import running
from tests.support.store_servers import server
from tests.zarrlift.jobs.faults.test_kills import run_and_kill
from tests.zarrlift.jobs.parts.conftest import RECIPE

import zarrlift
from zarrlift.errors import JobError
from zarrlift.jobs.job_array import VARIABLES
from zarrlift.jobs.ledger.ledger import Job
from zarrlift.jobs.parts import run_file
from zarrlift.jobs.parts.division import Division
from zarrlift.jobs.parts.migrate_part import PartShare
from zarrlift.jobs.run import Run
from zarrlift.planning.plans import ArrayPlan, Plan
from zarrlift.planning.regrid.intermediate import IntermediateArray
from zarrlift.storage.local import byte_locks, owner_process
from zarrlift.transfer.events import Event, Planned
from zarrlift.transfer.tasks import pass_numbers
from zarrstack.core.errors import UsageError

MakesJob = Callable[..., Path]

AT_ONCE = """
import os, sys
from zarrlift.cli import main
children = []
for part in range(int(sys.argv[2])):
    child = os.fork()
    if child == 0:
        os._exit(main(["migrate", "--job", sys.argv[1], "--part", str(part), "--quiet"]))
    children.append(child)
print(*(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children))
"""


def at_once(job: Path, parts: int, meanwhile: Callable[[], object] = lambda: None) -> set[str]:
    """Run all parts in processes of their own, at the same time; gives their exit codes."""
    with running([sys.executable, "-c", AT_ONCE, str(job), str(parts)]) as process:
        while process.poll() is None:
            meanwhile()
        return set(process.communicate()[0].split())


def ended(job: Path, *parts: int) -> bool:
    """Whether a job is done after parts have run, at most twice."""
    for _ in range(2):
        for part in parts:
            assert zarrlift.migrate_part(job, part).ok
        if zarrlift.gather(job).state == "done":
            return True
    return False


def left(folder: Path) -> set[str]:
    """What is in the folder of a job that is done, besides the places and the job."""
    return {path.name for path in folder.iterdir()} - {
        "source.zarr", "out.zarr", "calm.zarr", "calm.zarr.zarrlift.db", "job.db",
        "job.db.inventory",
    }  # fmt: skip


@pytest.mark.slow
def test_parts_at_once_make_what_one_process_makes(
    planned: MakesJob, calm: dict[str, bytes], tmp_path: Path
) -> None:
    job = planned(8)
    assert at_once(job, 8, meanwhile=lambda: zarrlift.gather(job)) == {"0"}
    first = zarrlift.gather(job)
    assert (first.state, first.second_pass) == ("incomplete", True)
    assert first.arrays_done == first.arrays_total - 1, "all but that in two passes"
    assert "rows/zarr.json" not in tree(tmp_path / "out.zarr")
    assert at_once(job, 8, meanwhile=lambda: zarrlift.gather(job)) == {"0"}
    assert zarrlift.gather(job).ok
    assert tree(tmp_path / "out.zarr") == calm
    assert not left(tmp_path)
    assert zarrlift.verify(job, full=True).ok
    assert zarrlift.gather(job).state == "nothing to do"
    assert zarrlift.migrate_part(job, 3).state == "nothing to do"
    assert not left(tmp_path)


def test_gathered_at_any_time(planned: MakesJob, calm: dict[str, bytes], tmp_path: Path) -> None:
    job = planned(3)
    seen = set()
    for _ in range(2):
        for part in (1, 0, 2):
            assert zarrlift.migrate_part(job, part).ok
            assert zarrlift.migrate_part(job, part).chunks == 0
            before = job.read_bytes()
            status = zarrlift.status(job)
            assert job.read_bytes() == before, "status only reads"
            outcome = zarrlift.gather(job)
            again = zarrlift.gather(job)
            assert again.parts_left == outcome.parts_left
            seen |= {index for index, _ in outcome.parts_left}
            if outcome.state == "done":
                break
            for path, content in tree(tmp_path / "out.zarr").items():
                if path.endswith("zarr.json"):
                    assert calm[path] == content
        assert [part.part for part in status.parts] == [0, 1, 2]
    assert outcome.state == "done"
    assert seen == {0, 1, 2}
    assert tree(tmp_path / "out.zarr") == calm


def test_the_progress_of_a_part_is_of_its_share(planned: MakesJob, source: Path) -> None:
    shutil.rmtree(source / "rows")  # whose two passes read more than all others together
    job = planned(3)
    events: list[Event] = []
    for part in (0, 1, 2):
        zarrlift.migrate_part(job, part, progress=events.append)
    arrays = zarrlift.plan(source, recipe=RECIPE).arrays
    shares = sum(event.bytes or 0 for event in events if isinstance(event, Planned))
    assert shares == pytest.approx(sum(array.bytes_read for array in arrays), rel=0.05)


@pytest.mark.slow
def test_digests_of_parts_reach_the_job(planned: MakesJob, source: Path, tmp_path: Path) -> None:
    job = planned(2, digest=True)
    assert ended(job, 0, 1)
    stored = job.rename(tmp_path / "job.zarrlift.db")
    assert zarrlift.verify(source, digests=stored).ok


@pytest.mark.parametrize("after", ["resume", "undo"])
def test_one_process_ends_what_parts_began(
    after: str, planned: MakesJob, calm: dict[str, bytes], tmp_path: Path
) -> None:
    job = planned(3)
    zarrlift.migrate_part(job, 1)
    with Job.open(job, write=False) as opened:
        (tmp_path / "out.zarr" / f".zarrlift-{opened.id}-002-1a2b3c4d").mkdir()
    if after == "resume":
        outcome = zarrlift.resume(job)
        assert outcome.state == "done"
        assert outcome.chunks < sum(array.reads for array in outcome.plan.arrays)  # type: ignore[union-attr]
        assert tree(tmp_path / "out.zarr") == calm
    else:
        assert zarrlift.undo(job).ok
        assert not (tmp_path / "out.zarr").exists()
        with pytest.raises(JobError, match="undone"):
            zarrlift.migrate_part(job, 1)
    assert not left(tmp_path)


@pytest.mark.slow(one_in=4)
@pytest.mark.parametrize("moment", [2, 60])
def test_a_killed_part_is_run_again(
    moment: int, planned: MakesJob, calm: dict[str, bytes], tmp_path: Path
) -> None:
    job = planned(2)
    words = ("migrate", "--job", str(job), "--part", "1", "--workers", "2")
    assert run_and_kill(moment, tmp_path / "out.zarr", *words).returncode == -signal.SIGKILL
    (killed,) = (part for part in zarrlift.status(job).parts if part.part == 1)
    assert killed.activity == "stale"
    own = [path.name for path in (tmp_path / "out.zarr").glob(".zarrlift-*-001-*")]
    assert zarrlift.migrate_part(job, 0).state == "done"
    assert [path.name for path in (tmp_path / "out.zarr").glob(".zarrlift-*-001-*")] == own, "not of part 0"
    assert zarrlift.gather(job).state == "incomplete"
    assert ended(job, 1, 0)
    assert tree(tmp_path / "out.zarr") == calm


def test_a_changed_source_is_named(planned: MakesJob, source: Path, tmp_path: Path) -> None:
    job = planned(2)
    (source / "regrid" / "0.0").write_bytes(bytes(256))
    outcomes = [zarrlift.migrate_part(job, part) for part in (0, 1)]
    assert "incomplete" in {outcome.state for outcome in outcomes}
    named = {problem.node for outcome in outcomes for problem in outcome.problems}
    assert named == {"regrid"}
    (row,) = (node for node in zarrlift.status(job).nodes if node.state == "failed")
    assert row.path == "regrid"
    gathered = zarrlift.gather(job)
    assert ("source-changed", "regrid") in {(p.kind, p.node) for p in gathered.problems}
    assert not (tmp_path / "out.zarr/regrid/zarr.json").exists()


def test_a_source_that_changes_after_its_parts_is_not_published(
    planned: MakesJob, source: Path, tmp_path: Path
) -> None:
    job = planned(1)
    zarrlift.migrate_part(job, 0)
    (source / "regrid" / ".zattrs").write_text('{"new": 1}')
    (source / "sharded" / "0.0").write_bytes(bytes(64))
    gathered = zarrlift.gather(job)
    assert {p.node for p in gathered.problems if p.kind == "source-changed"} == {"regrid", "sharded"}
    assert not (tmp_path / "out.zarr/sharded/zarr.json").exists()


def test_a_wrong_result_is_done_again(planned: MakesJob, calm: dict[str, bytes], tmp_path: Path) -> None:
    job = planned(1)
    zarrlift.migrate_part(job, 0)
    wrong = tmp_path / "out.zarr/g/relink/c/0/0"
    wrong.write_bytes((tmp_path / "out.zarr/g/relink/c/0/1").read_bytes())
    gone = tmp_path / "out.zarr/g/recode/c/3"
    gone.unlink()
    gathered = zarrlift.gather(job, verify="full")
    assert {problem.node for problem in gathered.problems} == {"g/relink"}
    assert gathered.parts_left == ((0, 3),), "the task of the lost chunk, and those of the wrong array"
    assert ended(job, 0)
    assert tree(tmp_path / "out.zarr") == calm


def on_another_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    own = owner_process._own(os.getpid())
    monkeypatch.setattr(owner_process, "_own", lambda pid: {**own, "host": "other", "pid": pid})


def test_a_run_on_another_machine_has_a_file_of_its_own(
    planned: MakesJob, calm: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = planned(1)
    with stopping(Run, "_copied"), pytest.raises(KeyboardInterrupt):
        zarrlift.migrate_part(job, 0, workers=1)
    (first,) = tmp_path.glob("job.db.part-000-*")
    recorded = first.read_bytes()
    on_another_machine(monkeypatch)
    done = zarrlift.migrate_part(job, 0)
    assert done.state == "done"
    assert first.read_bytes() == recorded
    (second,) = set(tmp_path.glob("job.db.part-000-*")) - {first}
    tasks = [
        {(*line["task"][:2],) for line in recorded_in(path) if "task" in line} for path in (first, second)
    ]
    assert tasks[0]
    assert not tasks[0] & tasks[1], "nothing is done twice"
    assert zarrlift.gather(job).state == "done"
    assert tree(tmp_path / "out.zarr") == calm
    assert not left(tmp_path)


@pytest.mark.slow(one_in=2)
@pytest.mark.parametrize("flushed", [True, False])
def test_of_another_machine_only_what_reached_the_disk_counts(
    flushed: bool, planned: MakesJob, calm: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = planned(1)
    assert not zarrlift.gather(job).ok  # from here on the job is one of this boot, of which all counts
    with monkeypatch.context() as patch:
        on_another_machine(patch)
        if not flushed:
            patch.setattr(run_file, "sync", lambda _: False)
        assert zarrlift.migrate_part(job, 0).state == "done"
    if not flushed:
        torn = tmp_path / "out.zarr/h/rewrite/c/0/0"
        torn.write_bytes(bytes(torn.stat().st_size))
    told = zarrlift.gather(job, verify="none")
    assert told.ok is flushed
    assert (tmp_path / "out.zarr/h/rewrite/zarr.json").exists() is flushed
    assert flushed or ended(job, 0)
    assert tree(tmp_path / "out.zarr") == calm


AT_ONCE_ELSEWHERE = """
import os, sys
from zarrlift.cli import main
from zarrlift.storage.local import owner_process
children = []
for host in ("a", "b", "c"):
    child = os.fork()
    if child == 0:
        own = owner_process._own(os.getpid())
        owner_process._own = lambda pid: {**own, "host": host, "pid": pid}
        os._exit(main(["migrate", "--job", sys.argv[1], "--part", "0", "--quiet"]))
    children.append(child)
print(*(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children))
"""


@pytest.mark.slow
def test_runs_of_a_part_at_the_same_time_on_several_machines_are_harmless(
    planned: MakesJob, calm: dict[str, bytes], tmp_path: Path
) -> None:
    job = planned(2)
    zarrlift.migrate_part(job, 1)
    for _ in range(2):
        with running([sys.executable, "-c", AT_ONCE_ELSEWHERE, str(job)]) as process:
            assert process.communicate()[0].split() == ["0", "0", "0"]
    assert len([*tmp_path.glob("job.db.part-000-*")]) == 6
    assert ended(job, 0, 1)
    assert tree(tmp_path / "out.zarr") == calm
    assert not left(tmp_path)


def recorded_in(file: Path) -> list[dict[str, Any]]:
    """The lines of the file of a run."""
    return [json.loads(line) for line in file.read_text().splitlines()]


def rewrite(file: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change lines of the file of a run."""
    lines = recorded_in(file)
    for line in lines:
        change(line)
    file.write_text("".join(json.dumps(line) + "\n" for line in lines if line))


def still_running(line: dict[str, Any]) -> None:
    """Leave out the end."""
    if "ended" in line:
        line.clear()


@pytest.mark.parametrize("wrong", ["first", "last"])
def test_of_runs_that_disagree_the_one_counts_that_fits_what_is_stored(
    wrong: str, planned: MakesJob, calm: dict[str, bytes], tmp_path: Path
) -> None:
    job = planned(1)
    zarrlift.migrate_part(job, 0)
    (file,) = tmp_path.glob("job.db.part-000-*")
    other = Path(shutil.copy(file, file.with_name(file.name[:-8] + "00000000")))
    with Job.open(job, write=False) as opened:
        (node,) = (row.id for row in opened.nodes("array") if row.path == "g/relink")

    def one_more_chunk(line: dict[str, Any]) -> None:
        if line.get("task", ())[:2] == [node, 0]:
            line["task"][2] += 1
        if "began" in line:
            line["began"] += 999 if wrong == "last" else -999  # the clock of another machine

    rewrite(other, one_more_chunk)
    told = zarrlift.gather(job)
    assert not told.problems
    assert told.parts_left == (((0, 1),) if wrong == "last" else ()), "the task is done again"
    assert (tmp_path / "out.zarr/g/relink/zarr.json").exists() is (wrong == "first")
    if wrong == "last":
        assert zarrlift.gather(job).parts_left == ((0, 1),)
        assert ended(job, 0)
    assert tree(tmp_path / "out.zarr") == calm


def test_runs_whose_codecs_give_other_values_have_the_digest_of_what_is_stored(
    planned: MakesJob, source: Path, tmp_path: Path
) -> None:
    """No run is wrong, so that nothing is done again, however often it is gathered."""
    job = planned(1, digest=True)
    zarrlift.migrate_part(job, 0)
    (file,) = tmp_path.glob("job.db.part-000-*")
    other = Path(shutil.copy(file, file.with_name(file.name[:-8] + "00000000")))

    def other_values(line: dict[str, Any]) -> None:
        if "task" in line and line["task"][6]:
            line["task"][6] = line["task"][6][::-1]

    rewrite(other, other_values)
    gathered = zarrlift.gather(job)
    assert (gathered.state, gathered.problems) == ("done", ())
    stored = job.rename(tmp_path / "job.zarrlift.db")
    assert zarrlift.verify(source, digests=stored).ok


def test_a_record_counts_when_a_line_says_that_it_reached_the_disk(
    planned: MakesJob, calm: dict[str, bytes], tmp_path: Path
) -> None:
    job = planned(1)
    zarrlift.migrate_part(job, 0)
    (file,) = tmp_path.glob("job.db.part-000-*")
    head, *tasks = [line for line in file.read_text().splitlines() if '"task"' in line or '"began"' in line]
    for synced in (0, 2):
        lines = [head, *tasks[:synced], '{"synced": 2}', *tasks[synced:]]
        file.write_text("".join(line + "\n" for line in lines))
        assert sum(node.tasks_done for node in zarrlift.status(job).nodes) == synced
    assert [part for part, _ in zarrlift.gather(job).parts_left] == [0]
    assert ended(job, 0)
    assert tree(tmp_path / "out.zarr") == calm


@pytest.mark.parametrize("fsync", [False, True])
def test_records_reach_the_file_while_a_part_runs(
    fsync: bool, planned: MakesJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a kill at any later moment they count."""
    monkeypatch.setattr(run_file, "_SECONDS", 0.0)
    job, counts = planned(1), []
    each_turn = PartShare.each_turn

    def counted(share: PartShare) -> None:
        each_turn(share)
        counts.append(sum(node.tasks_done for node in zarrlift.status(job).nodes))

    monkeypatch.setattr(PartShare, "each_turn", counted)
    zarrlift.migrate_part(job, 0, workers=1, fsync=fsync)
    assert counts[-1] > counts[0] > 0


@pytest.mark.slow(one_in=5)
@pytest.mark.parametrize("size", [0, 20, 400, -5])
def test_a_line_that_a_killed_run_did_not_complete_is_ignored(
    size: int, planned: MakesJob, calm: dict[str, bytes], tmp_path: Path
) -> None:
    job = planned(2)
    zarrlift.migrate_part(job, 0)
    (file,) = tmp_path.glob("job.db.part-000-*")
    whole = file.read_bytes()
    tasks = sum(node.tasks_done for node in zarrlift.status(job).nodes)
    file.write_bytes(whole[:size])
    torn = file.read_bytes()
    assert sum(node.tasks_done for node in zarrlift.status(job).nodes) == (tasks if size < 0 else 0)
    assert {part for part, _ in zarrlift.gather(job).parts_left} == ({1} if size < 0 else {0, 1})
    assert file.read_bytes() == torn, "only read"
    assert ended(job, 0, 1)
    assert tree(tmp_path / "out.zarr") == calm


def test_a_damaged_file_of_a_run_is_named_and_its_part_repeated(
    planned: MakesJob, calm: dict[str, bytes], tmp_path: Path
) -> None:
    job = planned(2)
    zarrlift.migrate_part(job, 0)
    (file,) = tmp_path.glob("job.db.part-000-*")
    whole = file.read_bytes()
    file.write_bytes(whole[:400] + b"x" * 20 + whole[420:])
    (told,) = zarrlift.gather(job).problems
    assert told.key == str(file)
    assert "Delete it" in (told.advice or "")
    with pytest.raises(JobError, match="Delete it"):
        zarrlift.migrate_part(job, 0)
    file.unlink()
    assert ended(job, 0, 1)
    assert tree(tmp_path / "out.zarr") == calm


def test_what_is_refused(planned: MakesJob, source: Path, tmp_path: Path) -> None:
    job = planned(2)
    for index in (-1, 2):
        with pytest.raises(UsageError, match="no such part"):
            zarrlift.migrate_part(job, index)
    with pytest.raises(JobError, match="a job in parts writes to this destination"):
        zarrlift.migrate(source, tmp_path / "out.zarr")
    with pytest.raises(JobError, match="already exists"):
        zarrlift.plan_parts(source, tmp_path / "out.zarr", job=job, parts=2)
    zarrlift.migrate(source, tmp_path / "single.zarr")
    single = tmp_path / "single.zarr.zarrlift.db"
    with pytest.raises(UsageError, match="no parts"):
        zarrlift.migrate_part(single, 0)
    with pytest.raises(UsageError, match="no parts"):
        zarrlift.gather(single)
    zarrlift.migrate_part(job, 1)
    (file,) = tmp_path.glob("job.db.part-001-*")
    with file.open("r+b") as of_another:
        byte_locks.lock_byte(of_another.fileno())
        with pytest.raises(JobError, match="another process is running"):
            zarrlift.migrate_part(job, 1)
    with pytest.raises(JobError, match="ledger of a part"):
        zarrlift.status(file)
    with Job.open(job) as opened:
        opened._db.execute("UPDATE meta SET value = '99' WHERE name = 'version'")
    for call in (lambda: zarrlift.migrate_part(job, 1), lambda: zarrlift.gather(job)):
        with pytest.raises(JobError, match="another version"):
            call()


def test_undo_refuses_while_a_part_is_running(planned: MakesJob, tmp_path: Path) -> None:
    job = planned(1)
    zarrlift.migrate_part(job, 0)
    (file,) = tmp_path.glob("job.db.part-000-*")
    rewrite(file, still_running)
    for call in (zarrlift.undo, zarrlift.resume):
        with pytest.raises(JobError, match="part 0 of this job is running"):
            call(job)


def test_auto_takes_the_index_of_a_job_array(
    planned: MakesJob, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    job = planned(2)
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SLURM_ARRAY_TASK_COUNT", "1")
    monkeypatch.setenv("LSB_JOBINDEX", "0")
    with pytest.raises(UsageError, match="not known"):
        zarrlift.migrate_part(job, "auto")
    for name in VARIABLES:
        with monkeypatch.context() as patch:
            patch.setenv(name, "1")
            # Indexes of LSF begin with 1.
            assert zarrlift.migrate_part(job, "auto").part == (0 if name == "LSB_JOBINDEX" else 1)
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "1")
    monkeypatch.setenv("JOB_COMPLETION_INDEX", "1")
    with pytest.raises(UsageError, match="more than one"):
        zarrlift.migrate_part(job, "auto")


def test_in_place_gather_publishes(source: Path, tmp_path: Path) -> None:
    job = tmp_path / "job.db"
    zarrlift.plan_parts(source, job=job, parts=2, in_place=True)
    assert [zarrlift.migrate_part(job, part).state for part in (0, 1)] == ["nothing to do"] * 2
    assert zarrlift.gather(job).state == "done"
    assert zarrlift.verify(job, full=True).ok
    assert zarrlift.undo(job).ok


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ours", pytest.param("moto", marks=pytest.mark.needs_reader("moto"))])
def test_from_and_to_a_store(name: str, source: Path, tmp_path: Path) -> None:
    with ExitStack() as stack:
        bucket = stack.enter_context(serving(None if name == "ours" else stack.enter_context(server(name))))
        bucket.put("source.zarr", tree(source))
        job = tmp_path / "job.db"
        options = {"storage_options": bucket.options, "dest_storage_options": bucket.options}
        zarrlift.plan_parts("s3://bucket/source.zarr", "s3://bucket/out.zarr", job=job, parts=2, **options)
        for part in (0, 1):
            assert zarrlift.migrate_part(job, part, **options).state == "done"
        secret = bucket.options["secret"].encode()
        assert not [path for path in tmp_path.glob("job.db*") if secret in path.read_bytes()]
        assert zarrlift.gather(job, **options).state == "done"
        assert not left(tmp_path)
        stored = bucket.stored("out.zarr")
        assert zarrlift.migrate(source, tmp_path / "calm.zarr").ok
        assert stored == tree(tmp_path / "calm.zarr")


# Every task is in exactly one part, and parts have equal shares.


@pytest.fixture(scope="module")
def model(all_routes: Path) -> ArrayPlan:
    (array,) = (plan for plan in zarrlift.plan(all_routes).arrays if plan.path == "regrid")
    return array


ARRAYS = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 20), st.integers(0, 10**15)), min_size=1, max_size=12
)
"""(tasks, tasks of a first pass, bytes)"""


def arrays_of(model: ArrayPlan, sizes: list[tuple[int, int, int]]) -> list[ArrayPlan]:
    made = []
    for number, (tasks, first, nbytes) in enumerate(sizes):
        between = None
        if first:
            between = IntermediateArray(
                layout=model.source, block_shape=None, buffer_shape=None, sweep_shape=None,
                bounds=tuple(range(first + 1)),
            )  # fmt: skip
        bounds = tuple(range(tasks + 1)) if tasks else ()
        move = replace(model.move, path=f"{number:02}")
        made.append(
            replace(model, move=move, bounds=bounds, between=between, bytes_in=nbytes, bytes_out=nbytes)
        )
    return made


@given(ARRAYS, st.integers(1, 70))
def test_every_task_is_in_one_part_of_an_equal_share(
    model: ArrayPlan, sizes: list[tuple[int, int, int]], parts: int
) -> None:
    arrays = arrays_of(model, sizes)
    division = Division(arrays, parts)
    again = Division(arrays, parts)
    for second in (False, True):
        shares, longest = [0.0] * parts, 0.0
        for plan in arrays:
            first_pass = plan.between is not None and not second
            if second and plan.between is None:
                continue
            numbers = pass_numbers(plan, first_pass=first_pass)
            found: list[int] = []
            for part in range(parts):
                own = division.numbers(plan, part, first_pass=first_pass)
                assert own == again.numbers(plan, part, first_pass=first_pass)
                found += own
                assert {division.part_of(plan, number) for number in own} <= {part}
                nbytes = plan.bytes_in if first_pass else plan.bytes_read
                task = max(nbytes, plan.bytes_out, len(numbers)) / max(len(numbers), 1)
                shares[part] += task * len(own)
                longest = max(longest, task)
            assert found == list(numbers)
        fair = sum(shares) / parts
        assert all(abs(share - fair) <= longest * (1 + 1e-9) for share in shares)


def test_the_division_is_that_of_the_stored_plan(all_routes: Path) -> None:
    plan = zarrlift.plan(all_routes)
    stored = Plan.from_json(json.loads(json.dumps(plan.to_json())))
    for part in range(5):
        one, other = (
            [Division(each.arrays, 5).numbers(array, part, first_pass=False) for array in each.arrays]
            for each in (plan, stored)
        )
        assert one == other

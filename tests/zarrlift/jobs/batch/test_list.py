"""What a list of archives may be, and that every mistake in it is named before anything is changed."""

from __future__ import annotations

import itertools
import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

import zarrlift
from zarrlift.cli import main
from zarrlift.errors import UsageError
from zarrlift.jobs.batch import each
from zarrlift.jobs.batch.list_file import list_text, read_list, write_list
from zarrlift.jobs.batch.rows import RowRequest, new_row
from zarrlift.jobs.claim import ClaimHolder
from zarrlift.jobs.ledger.job_places import job_beside
from zarrlift.jobs.ledger.ledger import Job
from zarrlift.recipe.recipe import RequiredModel
from zarrlift.storage.local.owner_process import OwnerProcess

ROWS = [
    {"source": "old/a/v2.zarr", "destination": "new/one.zarr", "codecs": "zstd:3", "chunks": "3,4"},
    {"source": "old/b/n5.n5", "destination": "new/n5.zarr", "axes": "kept", "verify": "full"},
    {"source": "old/zip.zarr.zip", "destination": "new/zip.zarr", "recipe": "recipe.toml", "overwrite": True},
]
CSV = """source,destination,codecs,chunks,axes,verify,recipe,overwrite
old/a/v2.zarr,new/one.zarr,zstd:3,"3,4",,,,
old/b/n5.n5,new/n5.zarr,,,kept,full,,
old/zip.zarr.zip,new/zip.zarr,,,,,recipe.toml,true
"""
LISTS = {"list.csv": CSV, "list.jsonl": "\n".join(map(json.dumps, ROWS))}
ENCODINGS = {
    "UTF-8": "utf-8",
    "UTF-8 with a mark": "utf-8-sig",
    "UTF-16 of PowerShell": "utf-16",
    "UTF-16, little end first": "utf-16-le",
    "UTF-16, big end first": "utf-16-be",
}


@pytest.mark.parametrize(("name", "ending"), [("list.csv", "\n"), ("list.jsonl", "\r\n")])
@pytest.mark.parametrize("encoding", ENCODINGS.values(), ids=ENCODINGS)
def test_a_list_is_read_in_every_encoding(name: str, encoding: str, ending: str, old: Path) -> None:
    Path("recipe.toml").write_text('codecs = "gzip:6"\n')
    text = LISTS[name].replace("new/one.zarr", "new/größe 一.zarr")
    Path(name).write_bytes(text.replace("\n", ending).encode(encoding))
    rows = zarrlift.Batch(name).rows
    assert [row.name for row in rows] == [each["source"] for each in ROWS]
    assert rows[0].destination == str(old.parent / "new/größe 一.zarr")
    assert rows[0].request.recipe.base == zarrlift.ArrayRecipe(codecs="zstd:3", chunks="3,4")
    assert (rows[1].request.axes, rows[1].request.verify) == ("kept", "full")
    assert rows[2].request.recipe.base == zarrlift.ArrayRecipe(codecs="gzip:6")
    assert rows[2].request.overwrite


@pytest.mark.parametrize("name", LISTS)
def test_each_archive_has_the_options_of_its_row(name: str, old: Path) -> None:
    Path("recipe.toml").write_text('codecs = "gzip:6"\n')
    Path(name).write_text(LISTS[name])
    made = zarrlift.batch(name)
    assert made.outcome.state == "done"
    with Job.open(Path(made.rows[0].job), write=False) as job:
        recipe = job.plan().recipe
    assert recipe.base == zarrlift.ArrayRecipe(codecs="zstd:3", chunks="3,4")
    assert sorted(path.name for path in Path().iterdir()) == sorted([name, "new", "old", "recipe.toml"])


def test_lists_that_were_joined_are_one(old: Path) -> None:
    with open("all.jsonl", "wb") as file:
        file.writelines((json.dumps(row) + "\r\n\r\n").encode("utf-8-sig") for row in ROWS[:2])
    assert [row.number for row in zarrlift.Batch("all.jsonl").rows] == [1, 3]


REQUESTS = {
    "nothing": RowRequest(),
    "how it is read": RowRequest(follow_links=True, axes="kept", allow_fallback=True, format="n5"),
    "in place": RowRequest(in_place=True, verify="none"),
    "where": RowRequest(link="hard", overwrite=True, source_through="retry", dest_through="retry"),
    "a limit that only Python sets": RowRequest(max_document_size=1 << 20),
    "a recipe": RowRequest(
        recipe=zarrlift.Recipe(
            base=zarrlift.ArrayRecipe(
                codecs=[{"name": "zstd", "configuration": {"level": 3, "checksum": False}}],
                dtype={"name": "numpy.datetime64", "configuration": {"unit": "s", "scale_factor": 1}},
                shards="2x",
                drop_empty=True,
                conventions="none",
            ),
            sections=(("a/**", (("chunks", "3,4"),)), ("b", (("dtype", "uint16"), ("casting", "clamp")))),
            include=("a/**", "b"),
            exclude=("c",),
            memory=1 << 30,
            consolidate=False,
            model=RequiredModel(name="m.json", content="{}"),
        )
    ),
}


@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS)
def test_a_list_that_was_written_has_all_that_was_asked(request_: RowRequest, tmp_path: Path) -> None:
    source, goal = str(tmp_path / "old/\udcff ä.zarr"), str(tmp_path / "new/ä.zarr")
    goal = source if request_.in_place else goal
    row = new_row(1, "old/\udcff ä.zarr", source, goal, request_, tmp_path)
    write_list(tmp_path / "l.jsonl", [row])
    (read,) = read_list(tmp_path / "l.jsonl")
    assert read == row
    assert read.request.recipe_json == row.request.recipe_json


def test_a_list_shows_names_as_they_are(tmp_path: Path) -> None:
    row = new_row(1, "größe.zarr", str(tmp_path / "größe.zarr"), "s3://b/größe", RowRequest(), tmp_path)
    write_list(tmp_path / "l.jsonl", [row])
    written = (tmp_path / "l.jsonl").read_text("utf-8")
    assert written == '{"source": "größe.zarr", "destination": "s3://b/größe"}\n'
    assert list_text([row], str(tmp_path)).isascii()
    assert read_list(tmp_path / "l.jsonl") == [row]


@dataclass(frozen=True)
class Bad:
    """A list with mistakes, and what is said of each."""

    csv: str
    said: tuple[str, ...]

    def __str__(self) -> str:
        return self.said[0]


HEAD = "source,destination"
ONE = f"{HEAD}\nold/a/v2.zarr,n.zarr"
BAD = [
    Bad(f"{HEAD},colour\nold/a/v2.zarr,n,red", ("line 2: key 'colour': unknown option",)),
    Bad(f"{HEAD},codec\nold/a/v2.zarr,n.zarr,zstd", ("line 2: key 'codec': unknown option", "mean 'codecs'")),
    Bad(
        f"{HEAD},storage_options\nold/a/v2.zarr,n,hunter2",
        ("line 2: key 'storage_options': a batch does not",),
    ),
    Bad(f"{ONE},more", ("line 2: more values than columns",)),
    Bad(f"{HEAD}\n,n.zarr", ("line 2: key 'source': a source is needed",)),
    Bad("source\nold/a/v2.zarr", ("line 2: key 'destination': a destination is needed",)),
    Bad(
        f"{HEAD},verify\nold/a/v2.zarr,n.zarr,much",
        ("line 2: key 'verify': unknown value; found 'much'; expected none, sample, full",),
    ),
    Bad(
        f"{HEAD},overwrite\nold/a/v2.zarr,n.zarr,perhaps",
        ("line 2: key 'overwrite': unknown value; found 'perhaps'; expected true",),
    ),
    Bad(f"{HEAD},from\nold/a/v2.zarr,n.zarr,n6", ("line 2: ", "n6")),
    Bad(f"{HEAD},chunks\nold/a/v2.zarr,n.zarr,many", ("line 2: the recipe has a problem: chunks:",)),
    Bad(f"{HEAD},recipe\nold/a/v2.zarr,n.zarr,none.toml", ("line 2: cannot read the recipe",)),
    Bad(f"{HEAD},in_place\nold/a/v2.zarr,n.zarr,true", ("line 2: key 'destination': a migration in place",)),
    Bad("source,in_place,overwrite\nold/a/v2.zarr,1,1", ("line 2: key 'overwrite': a migration in place",)),
    Bad(f"{ONE}\nold/a/v1.zarr,n.zarr", ("line 3: key 'destination'", "in the destination of line 2")),
    Bad(f"{ONE}\nold/a/v1.zarr,./x/../n.zarr/", ("in the destination of line 2",)),
    Bad(f"{HEAD}\nold/a/v2.zarr,old/a/v1.zarr/x\nold/a/v1.zarr,n", ("line 2: ", "in the source of line 3")),
    Bad(f"{HEAD}\nold/a/v2.zarr,old/a/v1.zarr\nold/a/v1.zarr,n", ("in the source of line 3",)),
    Bad(f"{HEAD}\nold/a/v2.zarr,n\nold/a/v1.zarr,n/m", ("line 3: ", "in the destination of line 2")),
    Bad(f"{HEAD}\nold/a/v2.zarr,old", ("line 2: key 'source'", "in the destination of line 2")),
    Bad(f"{HEAD}\nold/a/v2.zarr,n/{{name}}.zarr", ("line 2: key 'destination': a row has no template",)),
    Bad(f"{HEAD}\ns3://u:hunter2@b/x.zarr,n.zarr", ("line 2: key 'source': a batch does not store users",)),
    Bad(
        f"{HEAD},colour\nold/a/v2.zarr,n,red\n,m,",
        ("the list has 2 problems", "line 2: key 'colour'", "line 3: key 'source'"),
    ),
    Bad(f"{HEAD}\n", ("it has no rows",)),
    Bad(f'{HEAD}\nold/a/v2.zarr,"n.zarr\n', ("not a row; found unexpected end of data; expected CSV",)),
]


@pytest.mark.parametrize("bad", BAD, ids=str)
def test_mistakes_are_named_together_and_nothing_is_changed(old: Path, bad: Bad) -> None:
    Path("list.csv").write_text(bad.csv)
    before = sorted(path for path in Path().rglob("*"))
    with pytest.raises(UsageError) as raised:
        zarrlift.batch("list.csv")
    assert all(text in str(raised.value) for text in bad.said), raised.value
    assert "hunter2" not in str(raised.value)
    assert sorted(path for path in Path().rglob("*")) == before


LINES = [
    ('{"source": "a.zarr", "destination": "n"', "line 2: not a row; found Expecting"),
    ("[1]", "line 2: not a row; found [1]; expected a JSON object"),
    ('{"source": 1, "destination": "n"}', "line 2: key 'source': a source is needed; found 1"),
    (
        '{"source": "a.zarr", "destination": ["n"]}',
        "line 2: key 'destination': a destination is needed; found",
    ),
    ('{"source": "a.zarr", "destination": "n", "from": 2}', "line 2: key 'format': wrong type; found 2"),
    ('{"source": "a.zarr", "destination": "n", "link": []}', "line 2: key 'link': unknown value; found []"),
    ('{"source": "a.zarr", "destination": "n", "recipe": {}}', "line 2: key 'recipe': not a recipe"),
    (
        '{"source": "a.zarr", "destination": "n", "model": {"a": 1}}',
        "line 2: the recipe has a problem: model: the name of a file",
    ),
    ('{"source": "a.zarr", "destination": "n", "arrays": 3}', "line 2: the recipe has a problem: arrays"),
    ('{"source": "s3:/b/a.zarr", "destination": "n"}', "line 2: not a path of this system"),
    ("[" * 100_000, "line 2: not a row"),
]


@pytest.mark.parametrize(("line", "said"), LINES, ids=[said for _, said in LINES])
def test_mistakes_in_a_line_of_json(line: str, said: str, old: Path) -> None:
    Path("list.jsonl").write_text(f"\n{line}\n" + '{"source": "old/a/v1.zarr", "sauce": 1}\n')
    with pytest.raises(UsageError) as raised:
        zarrlift.Batch("list.jsonl")
    assert said in str(raised.value)
    assert "line 3: key 'sauce': unknown option" in str(raised.value)


@pytest.mark.parametrize("data", [b'\xff\xfe{\0"', b'{"source": "\xe4"}', bytes(range(200, 256))])
def test_a_list_that_is_no_text_is_refused(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "list.jsonl").write_bytes(data)
    with pytest.raises(
        UsageError, match=r"the list is not a text; found .* at byte .*; expected UTF-8 or UTF-16"
    ):
        zarrlift.Batch(tmp_path / "list.jsonl")


def test_paths_are_relative_to_the_folder_of_the_list(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("list.csv").write_text("source,destination\nold/a/v1.zarr,new.zarr\n")
    monkeypatch.chdir(old / "b")
    made = zarrlift.batch(old.parent / "list.csv")
    assert made.outcome.state == "done"
    assert (old.parent / "new.zarr/zarr.json").exists()


def test_a_list_has_its_own_options(old: Path) -> None:
    Path("list.csv").write_text("source,destination\nold/a/v1.zarr,new.zarr\n")
    for more in ({"to": "x/{name}"}, {"overwrite": True}, {"list_file": "other.jsonl"}):
        with pytest.raises(UsageError, match="a list has the places and the changes"):
            zarrlift.batch("list.csv", **more)
    with pytest.raises(UsageError, match="one list alone"):
        zarrlift.batch("list.csv", "old/b", to="x/{name}")


def test_names_that_are_equal_without_their_suffix_are_named(old: Path) -> None:
    os.rename(old / "a/v1.zarr", old / "a/v2.n5")
    with pytest.raises(UsageError, match=r"old/a/v2[.]n5, old/a/v2[.]zarr"):
        zarrlift.batch("old/a", to="v3/{relative}.zarr")


def test_an_archive_in_two_places_is_one_row(old: Path) -> None:
    made = zarrlift.batch("old/a", "old", to="v3/{name}.zarr", run=False)
    names = [row.name for row in made.rows]
    assert len(names) == len(set(names)) == 7


def test_a_place_without_archives_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there are no archives"):
        zarrlift.batch(str(tmp_path), to="v3/{relative}.zarr")


@pytest.mark.parametrize(
    ("to", "path"),
    [
        ("v3/{relative}.zarr", "v3"),
        ("batch/{relative}.zarr", "batch"),
        ("{relative}-v3.zarr", "batch"),
        ("new/v3-{name}.zarr", "new"),
    ],
)
def test_the_list_is_next_to_the_results(to: str, path: str, old: Path) -> None:
    made = zarrlift.batch("old/a", to=to, run=False)
    assert made.path == Path(f"{path}.zarrlift.jsonl").absolute()


@pytest.mark.parametrize(("folder", "later"), [("f", "moved"), ("elsewhere", "elsewhere")])
@pytest.mark.parametrize(
    "place", ["{}", "{url}", "zip::{}.zip", "zip::{url}.zip", "icechunk://{}", "s3://bucket/f/a.zarr"]
)
def test_places_in_the_folder_of_a_list_are_relative_to_it(
    place: str, folder: str, later: str, tmp_path: Path
) -> None:
    paths = (tmp_path / name / "a b.zarr" for name in (folder, later))
    here, there = (place.format(path, url=path.as_uri()) for path in paths)
    row = new_row(1, "x", str(tmp_path / "x.zarr"), here, RowRequest(), tmp_path / "f")
    write_list(tmp_path / "f/l.jsonl", [row])
    assert read_list(tmp_path / "f/l.jsonl")[0].destination == here
    (tmp_path / "f").rename(tmp_path / "moved")
    assert read_list(tmp_path / "moved/l.jsonl")[0].destination == there


# Processes that run one list take archives that no other one has claimed, and leave the others to them.


TO = "v3/{relative}.zarr"
HERE = OwnerProcess.of_this_process()
ELSEWHERE = replace(HERE, host="node7", machine="another", pid=4711)


def hold(destination: str, owner: OwnerProcess) -> None:
    """Claim a destination for another process."""
    path = Path(destination)
    path.parent.mkdir(parents=True, exist_ok=True)
    holder = ClaimHolder(token="1", job="0" * 8, file=f"{path}.zarrlift.db", owner=owner, since=0.0)
    path.with_name(f"{path.name}.zarrlift.claim").write_bytes(holder.to_bytes())


@pytest.fixture
def planned(old: Path) -> zarrlift.Batch:
    """Two archives."""
    return zarrlift.batch("old/a", to=TO, run=False)


def test_an_archive_that_another_process_has_claimed_is_left_to_it(
    planned: zarrlift.Batch, another_process: OwnerProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    hold(planned.rows[0].destination, another_process)
    outcome = planned.run()
    assert outcome.counts == {"done": 1, "pending": 1}
    assert [row.running for row in outcome.rows] == [True, False]
    assert (outcome.ran, outcome.left, outcome.state, outcome.ok) == (1, 1, "incomplete", True)
    assert not planned.status().ok
    assert main(["batch", "run", str(planned.path)]) == 0
    assert "left to other processes, which have claimed them: 1 archive" in capsys.readouterr().out
    assert main(["status", str(planned.path), "--check"]) == 1


def test_a_claim_of_another_machine_is_a_failure_unless_a_scheduler_reports_the_dead(
    planned: zarrlift.Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold(planned.rows[0].destination, ELSEWHERE)
    outcome = planned.run()
    assert outcome.counts == {"done": 1, "failed": 1}
    assert "--take-over" in str(outcome.rows[0].problems[0])
    monkeypatch.setenv("LSB_JOBID", "17")
    outcome = planned.run()
    assert outcome.ok
    assert (outcome.ran, outcome.rows[0].running) == (0, True)
    assert planned.run(take_over=True).state == "done"


def test_an_archive_that_another_process_has_done_meanwhile_is_not_done_again(
    planned: zarrlift.Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    once = each.BatchRun._archive

    def late(self: each.BatchRun, row: zarrlift.BatchRow, *more: Any):
        if row.number == 1:
            assert zarrlift.migrate(row.source, row.destination).state == "done"
        return once(self, row, *more)

    monkeypatch.setattr(each.BatchRun, "_archive", late)
    outcome = planned.run(workers=1)
    assert (outcome.ran, outcome.state) == (1, "done")


def test_an_archive_whose_job_another_process_has_open_is_left_to_it(
    planned: zarrlift.Batch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A process gives its claim back first, and closes the job next."""
    row = planned.rows[0]
    zarrlift.migrate(row.source, row.destination)
    with Job.open(Path(row.job)) as job:
        job.note(state="incomplete")
    with Job.open(Path(row.job)):
        assert main(["batch", "run", str(planned.path)]) == 0
    told = capsys.readouterr()
    assert "left to other processes, which have claimed them: 1 archive" in told.out
    assert "another process" not in told.out + told.err
    assert planned.run().state == "done"


@pytest.mark.parametrize("look", range(3))  # then it has the claim
def test_a_job_that_another_process_removes_to_begin_again_is_no_failure(
    planned: zarrlift.Batch, monkeypatch: pytest.MonkeyPatch, look: int
) -> None:
    planned.run()
    planned.undo()
    path = Path(planned.rows[0].job)
    open_job, looks = Job.open, itertools.count()

    def removed(asked: Path, **how: bool) -> Job:
        if asked == path and next(looks) == look:
            path.unlink()
        return open_job(asked, **how)

    monkeypatch.setattr(Job, "open", removed)
    outcome = planned.run()
    assert not [problem for row in outcome.rows for problem in row.problems]
    assert planned.run().counts == {"done": 2}
    assert next(looks) > look


@pytest.mark.parametrize("name", ["a.zarr", "d" * 255, "ä b\udcff", "s3:", "a::b"])
def test_the_job_of_a_row_is_where_migrate_puts_it(name: str, tmp_path: Path) -> None:
    row = new_row(1, name, name, str(tmp_path / "x" / name), RowRequest(), tmp_path)
    assert row.job == str(job_beside(row.destination, tmp_path))

"""docs/reference/job-file.md describes the notes that job files have, and the files of batches."""

from __future__ import annotations

import json
import re
import sqlite3
import uuid
from contextlib import closing
from pathlib import Path

import pytest
from tests.support.job_archives import write_archive

import zarrlift
from zarrlift.jobs.ledger.database import VERSION

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "reference" / "job-file.md").read_text()
OF_ONE, _, OF_BATCH = TEXT.partition("## Batches\n")
SECRET = "a-very-secret-word"
RECIPE = zarrlift.Recipe(base=zarrlift.ArrayRecipe(codecs="zstd:3"))


def notes(file: Path) -> set[str]:
    with closing(sqlite3.connect(file)) as db:
        return {name for (name,) in db.execute("SELECT name FROM meta")}


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a new job."""
    folder = tmp_path_factory.mktemp("job")
    write_archive(folder / "old.zarr")
    outcome = zarrlift.migrate(
        folder / "old.zarr",
        f"memory://{uuid.uuid4()}/new.zarr",
        job=folder / "new.zarrlift.db",
        digest=True,
        dest_storage_options={"token": SECRET},
    )
    return Path(outcome.job)


def test_the_page_has_the_version(job: Path) -> None:
    assert f"`version` in the table [`meta`](#meta) is {VERSION}." in OF_ONE


def test_the_page_has_every_note_of_a_job(job: Path) -> None:
    page = {*re.findall(r"^- `(\w+)`: ", OF_ONE.partition("## Notes\n")[2], re.MULTILINE)}
    source = "".join(path.read_text() for path in (ROOT / "migrate" / "zarrlift" / "jobs").rglob("*.py"))
    read = {*re.findall(r'\bfact\("(\w+)"\)', source)}
    assert notes(job) | read <= page
    assert {name for name in page if not re.search(rf'"{name}"|\b{name}=', source)} == set()


def test_a_job_holds_no_credentials(job: Path) -> None:
    assert "destination_options" in notes(job)
    assert SECRET.encode() not in job.read_bytes()


def test_the_page_has_every_member_of_the_list_of_a_batch_and_of_its_events(job: Path) -> None:
    old = str(job.parent / "old.zarr")
    made = zarrlift.batch(old, to=str(job.parent / "{name}-3.zarr"), recipe=RECIPE)
    head, row = map(json.loads, made.path.read_text().splitlines())
    events = made.path.with_name(made.path.name.replace(".jsonl", ".events.jsonl"))
    found = [json.loads(line) for line in events.read_text().splitlines()]
    tables = {"list": {*head, *row}, "events": {name for event in found for name in event}}
    for name, members in tables.items():
        body = re.search(rf"^### {name}\n(.*?)(?=^##|\Z)", OF_BATCH, re.MULTILINE | re.DOTALL)[1]
        lines = re.findall(r"^- ((?:`\w+`(?:, )?)+): ", body, re.MULTILINE)
        assert {*re.findall(r"`(\w+)`", " ".join(lines))} == members

"""docs/reference/job-file.md describes the tables and notes that job files have."""

from __future__ import annotations

import re
import sqlite3
import uuid
from contextlib import closing
from pathlib import Path

import pytest
from tests.support.job_archives import write_archive

import zarrlift
from zarrlift.jobs.batch import batch_file
from zarrlift.jobs.ledger.database import VERSION

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "reference" / "job-file.md").read_text()
OF_ONE, _, OF_BATCH = TEXT.partition("## Batches\n")
SECRET = "a-very-secret-word"


def documented(text: str) -> dict[str, list[tuple[str, str]]]:
    """(column, type) of each table of the page."""
    tables = re.findall(r"^### (\w+)\n(.*?)(?=^##|\Z)", text, re.MULTILINE | re.DOTALL)
    return {name: re.findall(r"^`(\w+)` ([A-Z]+)\n:   ", body, re.MULTILINE) for name, body in tables}


def notes(file: Path) -> set[str]:
    with closing(sqlite3.connect(file)) as db:
        return {name for (name,) in db.execute("SELECT name FROM meta")}


def tables(file: Path) -> dict[str, list[tuple[str, str]]]:
    with closing(sqlite3.connect(file)) as db:
        names = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {
            table: [(name, kind) for _, name, kind, *_ in db.execute(f"PRAGMA table_info({table})")]
            for table in names
        }


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


def test_the_page_has_every_table_and_column_of_a_job(job: Path) -> None:
    assert documented(OF_ONE) == tables(job)
    assert f"`version` in the table [`meta`](#meta) is {VERSION}." in OF_ONE


def test_the_page_has_every_note_of_a_job(job: Path) -> None:
    page = {*re.findall(r"^`(\w+)`\n:   ", OF_ONE.partition("## Notes\n")[2], re.MULTILINE)}
    source = "".join(path.read_text() for path in (ROOT / "migrate" / "zarrlift" / "jobs").rglob("*.py"))
    read = {*re.findall(r'\bfact\("(\w+)"\)', source)} - {"began"}  # of a batch
    assert notes(job) | read <= page
    assert {name for name in page if not re.search(rf'"{name}"|\b{name}=', source)} == set()


def test_a_job_holds_no_credentials(job: Path) -> None:
    assert "destination_options" in notes(job)
    assert SECRET.encode() not in job.read_bytes()


def test_the_page_has_every_table_column_and_note_of_a_batch(job: Path) -> None:
    file = job.parent / "batch.db"
    zarrlift.batch(
        str(job.parent / "old.zarr"), to=str(job.parent / "{name}-3.zarr"), job=file, parts=2, run=False
    )
    zarrlift.Batch(file).run_part(0)
    found = tables(file)
    assert documented(OF_BATCH) == {name: columns for name, columns in found.items() if name != "meta"}
    assert found["meta"] == tables(job)["meta"]
    named = {*re.findall(r"`(\w+)`", OF_BATCH.partition("###")[0])} - {"meta"}
    assert named - {f"0x{batch_file.APPLICATION:X}"} == notes(file) | {"began"}
    assert f"`0x{batch_file.APPLICATION:X}`" in OF_BATCH

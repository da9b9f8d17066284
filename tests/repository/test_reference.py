"""The reference is that of the code: written pages, JSON that commands print, job files, stored formats."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from tests.support.fixtures_index import archive
from tests.support.job_archives import write_archive
from tests.zarrlift.transfer.test_regrid import leave

import zarrlift
import zarrstack
from zarrlift.cli import main
from zarrlift.cli.commands import COMMANDS
from zarrlift.cli.parser import parsed
from zarrlift.jobs.ledger.database import VERSION
from zarrlift.planning import planner
from zarrlift.planning.blocks import BASE, available_cores
from zarrlift.recipe.changes import ARRAY_OPTIONS
from zarrlift.recipe.recipe import Recipe
from zarrlift.recipe.toml_file import _TOP, parse_recipe
from zarrlift.storage.remote import aws_profile, buckets
from zarrstack.base import registry

# docs/reference/json.md as a schema: which members a JSON document may have, and of which types.


PAGE = Path(__file__).parents[2] / "docs" / "reference" / "json.md"
PRIMITIVES = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}


class Documented:
    """The page: the members of each section, and the sections of the result of each command."""

    def __init__(self) -> None:
        self.members: dict[str, dict[str, str]] = {}
        self.results: dict[str, list[str]] = {}
        self.used: set[tuple[str, str]] = set()
        """(section, member) that a document had."""
        section = ""
        inherited: dict[str, str] = {}
        for line in PAGE.read_text().splitlines():
            if heading := re.fullmatch(r"##+ (.+)", line):
                section = heading[1].lower().replace(" ", "-")
            elif other := re.match(r"An? [\w ]+ has all members of an? \[[\w ]+\]\(#([\w-]+)\)", line):
                inherited[section] = other[1]
            elif named := re.match(r"- (`[\w`, ]+) \*(.+?)\*(?::|$)", line):
                names = re.findall(r"`(\w+)`", named[1])
                self.members.setdefault(section, {}).update(dict.fromkeys(names, named[2]))
            elif line.startswith("| `"):
                commands, results = line.split("|")[1:3]
                for command in re.findall(r"`([\w ]+)`", commands):
                    self.results[command] = re.findall(r"\(#([\w-]+)\)", results)
        for section, other in inherited.items():
            self.members[section] |= self.members[other]

    def problems(self, value: Any, form: str, place: str) -> Iterator[str]:
        """Where a value differs from its documented type."""
        if form.endswith(" or null"):
            if value is not None:
                yield from self.problems(value, form.removesuffix(" or null"), place)
        elif form.startswith("list of "):
            if not isinstance(value, list):
                yield f"{place} is {value!r}, not a {form}"
                return
            for item in value:
                yield from self.problems(item, form.removeprefix("list of "), f"{place}[]")
        elif form.startswith("map of "):
            if not isinstance(value, dict):
                yield f"{place} is {value!r}, not a {form}"
                return
            for item in value.values():
                yield from self.problems(item, form.removeprefix("map of "), f"{place}.*")
        elif (link := re.fullmatch(r"\[[\w ]+\]\(#([\w-]+)\)", form)) is not None:
            yield from self.object_problems(value, link[1], place)
        elif form in PRIMITIVES:
            if not isinstance(value, PRIMITIVES[form]) or (isinstance(value, bool) and form != "boolean"):
                yield f"{place} is {value!r}, not a {form}"
        elif form != "any":
            raise AssertionError(f"{PAGE.name}: {form!r} is not a type")

    def object_problems(self, value: Any, section: str, place: str) -> Iterator[str]:
        """Where an object differs from a section."""
        known = self.members[section]
        if not isinstance(value, dict):
            yield f"{place} is {value!r}, not an object"
            return
        for name, item in value.items():
            if name not in known:
                yield f"{place}.{name} is not documented"
                continue
            self.used.add((section, name))
            yield from self.problems(item, known[name].removesuffix(", optional"), f"{place}.{name}")
        for name, form in known.items():
            if name not in value and not form.endswith(", optional"):
                yield f"{place}.{name} is missing"

    def best(self, value: Any, sections: list[str], place: str) -> list[str]:
        """Where an object differs from that of the sections to which it is most similar."""
        before, tried = frozenset(self.used), []
        for section in sections:
            self.used = {*before}
            tried.append(([*self.object_problems(value, section, place)], self.used))
        found, self.used = min(tried, key=lambda one: len(one[0]))
        return found

    def unused(self) -> list[str]:
        """Documented members that no document had."""
        every = {(section, name) for section, members in self.members.items() for name in members}
        return sorted(f"{section}: {name}" for section, name in every - self.used)


# The reference is that of the code: pages that a script writes, JSON that commands print, job files.


# The generated parts of the reference are those of the code.


ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "reference"
INTERNAL = {"_ZARRLIFT_COMPLETE", "COMPUTERNAME", "OPENBLAS_NUM_THREADS"}
"""Set by shells' completion and by Windows; set for workers rather than read."""

OF_PYTHON = {"TMPDIR"}
"""Read by the standard library."""


@pytest.mark.golden
@pytest.mark.parametrize("page", ["command-line", "json", "recipe", "job-file", "readers"])
def test_a_page_is_the_one_that_the_script_writes(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(FOLDER)
    import generate

    path = FOLDER / f"{page}.md"
    text = path.read_text()
    assert path.name in generate.PAGES
    assert generate.PART.search(text)
    if os.environ.get("UPDATE"):
        path.write_text(generate.written(text))
    else:
        assert text == generate.written(text), "run: UPDATE=1 python3 go.py test"


def test_no_registered_extension_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(FOLDER)
    import extensions

    assert {outcome for _, _, outcome in extensions.outcomes()} == {"described", "passed through"}


def test_the_page_has_every_key_of_a_recipe() -> None:
    keys = re.findall(r"^- `(\w+)` \(", (FOLDER / "recipe.md").read_text(), re.MULTILINE)
    assert keys == [*_TOP, *ARRAY_OPTIONS]


def test_the_defaults_of_a_recipe_are_those_of_an_empty_file() -> None:
    assert parse_recipe({}) == Recipe()


def test_sections_have_priority_over_options_and_these_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "file.toml"
    file.write_text('order = "C"\nendian = "big"\n[arrays.a]\norder = "F"\n')
    recipe = parsed("migrate", ["a", "--recipe", str(file), "--set", "order=keep"]).recipe()
    assert [recipe.for_array(path).order for path in ("a", "b")] == ["F", "keep"]
    assert recipe.for_array("b").endian == "big"


def test_the_page_has_every_environment_variable_that_the_source_reads() -> None:
    read = {"AWS_PROFILE", *aws_profile._FILES, *buckets.UNSUPPORTED_VARIABLES}
    for cloud in buckets.CLOUDS.values():
        read |= {name for names in (*cloud.place.values(), *cloud.who.values()) for name in names}
    constants: dict[str, str] = {}
    for folder in ("migrate", "transformers"):
        for path in (ROOT / folder).rglob("*.py"):
            text = path.read_text()
            constants |= re.findall(r'^(\w+): Final = "(\w+)"$', text, re.MULTILINE)
            read |= {
                constants.get(found, found)
                for quote, found in re.findall(r'os\.environ(?:\.get\(|\[)("?)(\w+)\1', text)
                if quote or found in constants
            }
    page = (FOLDER / "command-line.md").read_text()
    section = page.partition("## Environment variables")[2].partition("\n<!--")[0]
    assert {*re.findall(r"`([A-Z][A-Z_0-9]+)`", section)} == read - INTERNAL | OF_PYTHON


# Every JSON document that a command prints is the one that docs/reference/json.md describes.


OCEAN, CELLS = "zarrlift-demo/ocean.zarr", "zarrlift-demo/cells.n5"
EXTENSIONS = str(ROOT / "fixtures" / "zarr_v3" / "extensions" / "by_hand.zarr.zip")
PLACES = {"OCEAN": OCEAN, "CELLS": CELLS, "EXTENSIONS": EXTENSIONS}
RUNS = """
demo
model show OCEAN --as v3
inspect OCEAN
inspect CELLS
inspect broken.zarr
inspect draft.zarr
inspect nothing.zarr
inspect --nothing
migrate OCEAN new.zarr --recipe recipe.toml --dry-run
migrate CELLS new.zarr --chunks 1,192,256 --dry-run
migrate rows.zarr new.zarr --chunks -1,2 --dry-run
migrate OCEAN --in-place --dry-run
migrate EXTENSIONS new.zarr --dry-run
migrate broken.zarr new.zarr --dry-run
migrate CELLS cells.zarr --job cells.zarrlift.db
status cells.zarrlift.db
migrate mixed.zarr mixed3.zarr --codecs zstd:3 --shards auto --log log.jsonl
resume mixed3.zarr
status mixed3.zarr
migrate broken.zarr broken3.zarr --log log.jsonl
status broken3.zarr
CHANGE
verify mixed.zarr mixed3.zarr --full
update mixed3.zarr --dry-run
update mixed3.zarr
migrate OCEAN --in-place
verify OCEAN
finish OCEAN --yes
undo OCEAN --yes
batch run zarrlift-demo broken.zarr --to batch/{name}.zarr --dry-run
batch list zarrlift-demo broken.zarr --to batch/{name}.zarr
batch list zarrlift-demo broken.zarr --to batch/{name}.zarr -o batch.jsonl
batch run batch.jsonl --only *cells*
resume batch.jsonl
status batch.jsonl
status batch.jsonl --verbose
verify batch.jsonl
update batch.jsonl
undo batch.jsonl --yes
batch list zarrlift-demo --in-place --output in-place.jsonl
batch run in-place.jsonl --log log.jsonl
verify in-place.jsonl
finish in-place.jsonl --yes
model validate mixed3.zarr model.json
model diff mixed.zarr CELLS
model create model.json created.zarr
"""


@contextlib.contextmanager
def little_memory() -> Iterator[None]:
    """So little that rows become columns in two passes; `--memory` takes no such value."""
    room = 20_000
    with pytest.MonkeyPatch.context() as patch:
        leave(room, patch)
        patch.setattr(planner, "memory_budget", lambda _: BASE + 8 * available_cores() * room)
        yield


def runs(folder: Path) -> list[tuple[str, Any]]:
    """(command line, document) of each command, run in a folder with small archives, and the log's lines."""
    found: list[tuple[str, Any]] = []
    write_archive(folder / "mixed.zarr")
    write_archive(folder / "broken.zarr")
    (folder / "broken.zarr" / "g" / "recode" / "0").write_bytes(b"garbage")
    (folder / "broken.zarr" / "empty" / ".zarray").write_text("{")
    shutil.copytree(archive("zarr_v3_draft/may-2022/tree").path, folder / "draft.zarr")
    rows = zarr.create_array(
        folder / "rows.zarr", shape=(600, 400), chunks=(1, 400), dtype="<i4", zarr_format=2
    )
    rows[:] = 1
    (folder / "recipe.toml").write_text('model = "model.json"\n[arrays."s*"]\nshards = "2x"\n')
    with contextlib.chdir(folder):
        for line in RUNS.strip().splitlines():
            if line == "CHANGE":
                zarr.open_group("mixed.zarr", mode="r+", zarr_format=2)["g/recode"][:7] = 7
                continue
            words = [PLACES.get(word, word) for word in line.split()]
            printed = io.StringIO()
            with (
                contextlib.redirect_stdout(printed),
                contextlib.redirect_stderr(io.StringIO()),
                little_memory() if "rows.zarr" in line else contextlib.nullcontext(),
            ):
                code = main([*words, "--json"])
            document = json.loads(printed.getvalue())
            assert document["exit_code"] == code
            found.append((line, document))
            if line.startswith("model show"):
                Path("model.json").write_text(json.dumps(document["result"]["model"]))
        found.append(("log.jsonl", [json.loads(line) for line in Path("log.jsonl").read_text().splitlines()]))
    return found


@pytest.mark.slow
@pytest.mark.needs_reader("once")
def test_every_member_printed_is_documented_and_every_documented_one_is_printed(tmp_path: Path) -> None:
    page, wrong, ran = Documented(), [], set()
    for line, document in runs(tmp_path):
        if line == "log.jsonl":
            wrong += [text for event in document for text in page.object_problems(event, "log-lines", line)]
            continue
        wrong += page.object_problems(document, "the-document", line)
        ran.add(document["command"])
        if "result" in document:
            sections = page.results[document["command"]]
            wrong += page.best(document["result"], sections, line)
    assert wrong == []
    assert page.unused() == []
    assert ran == {None, *page.results}


def test_every_command_with_json_is_on_the_page() -> None:
    printing = {name for name, command in COMMANDS.items() if "as_json" in command.options}
    assert {*Documented().results} == printing


# docs/reference/job-file.md describes the notes that job files have, and the files of batches.


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
        dest_storage_options={"token": SECRET},
    )
    return Path(outcome.job)


def test_the_page_has_the_version(job: Path) -> None:
    assert f"`version` in the table [`meta`](#meta) is {VERSION}." in OF_ONE


def test_the_page_has_every_note_of_a_job(job: Path) -> None:
    names = re.findall(r"^- ((?:`\w+`(?:, )?)+): ", OF_ONE.partition("## Notes\n")[2], re.MULTILINE)
    page = {*re.findall(r"`(\w+)`", " ".join(names))}
    source = "".join(path.read_text() for path in (ROOT / "migrate" / "zarrlift" / "jobs").rglob("*.py"))
    read = {*re.findall(r'\bfact\("(\w+)"\)', source)}
    assert notes(job) | read <= page
    assert {name for name in page if not re.search(rf'"{name}"|\b{name}=', source)} == set()


def test_a_job_holds_no_credentials(job: Path) -> None:
    assert "destination_options" in notes(job)
    assert SECRET.encode() not in job.read_bytes()


def test_the_page_has_every_member_of_the_reason_of_a_refused_archive(job: Path) -> None:
    (job.parent / "broken.zarr").mkdir()
    made = zarrlift.batch(str(job.parent / "broken.zarr"), to=str(job.parent / "{name}-3.zarr"))
    reason = json.loads((job.parent / "broken-3.zarr.zarrlift.refused").read_text())
    assert made.outcome.counts == {"refused": 1}
    assert {*re.findall(r"^- `(\w+)`: ", OF_BATCH, re.MULTILINE)} == reason.keys()


# docs/transformers/write-back.md: the bytes that it shows are those that the layers store.

STORED_FORMAT = (Path(__file__).parents[2] / "docs/transformers/write-back.md").read_text(encoding="utf-8")
SHOWN = re.findall(r"```text\n((?:[0-9a-f]{8}  .+\n)+)```", STORED_FORMAT)
DOCUMENT = json.loads(STORED_FORMAT.partition("```json\n")[2].partition("```")[0])


def test_every_layer_that_metadata_may_name_is_on_the_page_and_no_other() -> None:
    layers = {name for name in registry.names() if registry.find(name).in_metadata}
    assert set(re.findall(r"^### zarrstack\.(\w+)$", STORED_FORMAT, re.MULTILINE)) == layers


def test_the_page_shows_the_bytes_of_a_shard_and_the_document_of_its_array(tmp_path: Path) -> None:
    layers = DOCUMENT["storage_transformers"]
    array = zarrstack.create_array(
        tmp_path, shape=(4, 4), chunks=(2, 2), dtype="u1", fill_value=255, compressors=None,
        storage_transformers=layers,
    )  # fmt: skip
    array[...] = np.arange(1, 17).reshape(4, 4)
    array[:2, 2:] = 255
    stored = json.loads((tmp_path / "zarr.json").read_text())
    assert {name: stored[name] for name in DOCUMENT if name != "codecs"} == {
        name: value for name, value in DOCUMENT.items() if name != "codecs"
    }
    assert (tmp_path / "c/0/0").read_bytes() == _bytes(SHOWN[0])


def test_the_page_shows_the_bytes_of_a_shard_whose_index_has_options(tmp_path: Path) -> None:
    codecs = [{"name": "bytes", "configuration": {"endian": "big"}}, {"name": "crc32c"}]
    layer = zarrstack.Sharding(chunks_per_shard=[2], index_codecs=codecs, index_location="start")
    array = zarrstack.create_array(
        tmp_path, shape=(4,), chunks=(2,), dtype="u1", compressors=None, storage_transformers=[layer]
    )
    array[:2] = [1, 2]
    assert (tmp_path / "c/0").read_bytes() == _bytes(SHOWN[1])


def _bytes(shown: str) -> bytes:
    """The bytes of a dump: an offset, digits and a remark in each line."""
    found = b""
    for line in shown.splitlines():
        offset, digits = re.match(r"([0-9a-f]{8})  ((?:[0-9a-f]{2}(?: |$))+)", line).groups()
        assert int(offset, 16) == len(found)
        found += bytes.fromhex(digits)
    return found

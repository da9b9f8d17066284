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

import jsonschema_rs
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
from zarrlift.planning import planner
from zarrlift.planning.blocks import BASE, available_cores
from zarrlift.recipe.changes import ARRAY_OPTIONS
from zarrlift.recipe.recipe import Recipe
from zarrlift.recipe.toml_file import _TOP, parse_recipe
from zarrlift.storage.remote import aws_profile, buckets
from zarrstack.base import registry

# docs/reference/json-output.schema.json describes every member of JSON, and no other.


SCHEMA = Path(__file__).parents[2] / "docs" / "reference" / "json-output.schema.json"


class Documented:
    """The schema, which here allows no members but its own, and the members that documents have had."""

    def __init__(self) -> None:
        self.schema = json.loads(SCHEMA.read_text())
        self.objects = {"": self.schema, **self.schema["$defs"]}
        for each in self.objects.values():
            each["additionalProperties"] = False
        self.results = {
            rule["if"]["properties"]["command"]["const"]: rule["then"]["properties"]["result"]
            for rule in self.schema["allOf"]
        }
        self.left = {(name, member) for name, each in self.objects.items() for member in each["properties"]}
        """(object, member) that no document has had so far."""

    def problems(self, value: Any, name: str = "") -> list[str]:
        """Where a document, or an object of the schema, differs from what is documented."""
        schema = self._part({"$ref": f"#/$defs/{name}"}) if name else self.schema
        found = [
            f"{error.instance_path}: {error.message}" for error in self._validator(schema).iter_errors(value)
        ]
        self._visit(value, self.objects[name], name)
        if not name and "result" in value:
            self._follow(value["result"], self.results[value["command"]])
        return found

    def _part(self, schema: dict[str, Any]) -> dict[str, Any]:
        return {"$schema": self.schema["$schema"], "$defs": self.schema["$defs"], **schema}

    def _validator(self, schema: dict[str, Any]) -> jsonschema_rs.Draft202012Validator:
        return jsonschema_rs.Draft202012Validator(schema)

    def _visit(self, value: Any, schema: dict[str, Any], name: str) -> None:
        """Note the members of an object, and those of what it contains."""
        for member, item in value.items():
            if member in schema["properties"]:
                self.left.discard((name, member))
                self._follow(item, schema["properties"][member])

    def _follow(self, value: Any, schema: dict[str, Any]) -> None:
        """Note the members of the objects in a value."""
        for each in schema.get("anyOf", ()):
            if self._validator(self._part(each)).is_valid(value):
                self._follow(value, each)
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            self._visit(value, self.objects[name], name)
        elif isinstance(value, list):
            for item in value:
                self._follow(item, schema.get("items", {}))
        elif isinstance(value, dict) and isinstance(inner := schema.get("additionalProperties"), dict):
            for item in value.values():
                self._follow(item, inner)


# The reference is that of the code: pages that a script writes, JSON that commands print, job files.


# The generated parts of the reference are those of the code.


ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "reference"
INTERNAL = {"_ZARRLIFT_COMPLETE", "COMPUTERNAME", "OPENBLAS_NUM_THREADS"}
"""Set by shells' completion and by Windows; set for workers rather than read."""

OF_PYTHON = {"TMPDIR"}
"""Read by the standard library."""


@pytest.mark.golden
@pytest.mark.parametrize("page", ["command-line", "recipe", "readers"])
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


@pytest.mark.golden
def test_the_schema_of_json_is_the_one_that_the_script_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(FOLDER)
    import generate

    if os.environ.get("UPDATE"):
        SCHEMA.write_text(generate.schema())
    assert SCHEMA.read_text() == generate.schema(), "run: UPDATE=1 python3 go.py test"
    jsonschema_rs.meta.validate(json.loads(SCHEMA.read_text()))


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


# Every JSON document that a command prints is the one that the schema describes.


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
    schema, wrong, ran = Documented(), [], set()
    for line, document in runs(tmp_path):
        if line == "log.jsonl":
            wrong += [(line, text) for event in document for text in schema.problems(event, "log-line")]
            continue
        wrong += [(line, text) for text in schema.problems(document)]
        ran.add(document["command"])
    assert wrong == []
    assert sorted(schema.left) == []
    assert ran == {None, *schema.results}


def test_every_command_with_json_is_in_the_schema() -> None:
    printing = {name for name, command in COMMANDS.items() if "as_json" in command.options}
    assert {*Documented().results} == printing


# The comments of the tables describe the notes that job files have.


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


def test_every_note_of_a_job_is_described_and_no_other(job: Path) -> None:
    folder = ROOT / "migrate" / "zarrlift" / "jobs"
    described = re.findall(r"^# - ([\w, ]+): ", (folder / "ledger" / "schema.py").read_text(), re.MULTILINE)
    names = {*", ".join(described).split(", ")}
    source = "".join(path.read_text() for path in folder.rglob("*.py"))
    read = {*re.findall(r'\bfact\("(\w+)"\)', source)}
    assert notes(job) | read <= names
    assert {name for name in names if not re.search(rf'"{name}"|\b{name}=', source)} == set()


def test_a_job_holds_no_credentials(job: Path) -> None:
    assert "destination_options" in notes(job)
    assert SECRET.encode() not in job.read_bytes()


# docs/design/stored-form.md: the bytes that it shows are those that the layers store.

STORED_FORMAT = (Path(__file__).parents[2] / "docs/design/stored-form.md").read_text(encoding="utf-8")
SHOWN = re.findall(r"```text\n((?:[0-9a-f]{8}  .+\n)+)```", STORED_FORMAT)
DOCUMENT = json.loads(STORED_FORMAT.partition("```json\n")[2].partition("```")[0])


def test_every_layer_that_metadata_may_name_is_on_the_page_and_no_other() -> None:
    layers = {name for name in registry.names() if registry.find(name).in_metadata}
    assert set(re.findall(r"^## zarrstack\.(\w+)$", STORED_FORMAT, re.MULTILINE)) == layers


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

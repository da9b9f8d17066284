"""Every JSON document that a command prints is the one that docs/reference/json.md describes."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import zarr
from tests.support.documented_json import Documented
from tests.support.fixtures_index import archive
from tests.support.job_archives import write_archive
from tests.zarrlift.transfer.test_regrid import leave

from zarrlift.cli import main
from zarrlift.cli import parser as command_line
from zarrlift.planning import planner
from zarrlift.planning.regrid.blocks import BASE, available_cores

OCEAN, CELLS = "zarrlift-demo/ocean.zarr", "zarrlift-demo/cells.n5"
RUNS = """
demo
model show OCEAN --as v3
inspect OCEAN
inspect CELLS
inspect broken.zarr
inspect draft.zarr
inspect . --rate 100MB/s
inspect nothing.zarr
inspect --nothing
migrate OCEAN new.zarr --recipe recipe.toml --dry-run
migrate CELLS new.zarr --chunks 1,192,256 --dry-run
migrate OCEAN memory://forecast/new.zarr --dry-run
migrate rows.zarr new.zarr --chunks -1,2 --dry-run
migrate OCEAN --in-place --dry-run
migrate OCEAN new.zarr --dry-run --provenance --show /
migrate OCEAN new.json --virtual --dry-run
migrate broken.zarr new.zarr --dry-run
migrate CELLS cells.zarr --job cells.zarrlift.db --parts 2
migrate --job cells.zarrlift.db --part 0
status cells.zarrlift.db
gather cells.zarrlift.db
migrate --job cells.zarrlift.db --part 1
gather cells.zarrlift.db
migrate OCEAN ocean.json --virtual
migrate mixed.zarr mixed3.zarr --codecs zstd:3 --digest --shards auto --log log.jsonl --metrics run.prom
resume mixed3.zarr
status mixed3.zarr
migrate broken.zarr broken3.zarr --log log.jsonl
status broken3.zarr
digest mixed.zarr --output mixed.digest
digest broken.zarr
verify mixed3.zarr --digest mixed.digest
CHANGE
verify mixed.zarr mixed3.zarr --full
diff mixed.zarr mixed3.zarr --full
diff broken.zarr broken.zarr
update mixed3.zarr --dry-run
update mixed3.zarr
migrate OCEAN --in-place
verify OCEAN
finish OCEAN --yes
undo OCEAN --yes
list readers
list layers
list formats
list executors
batch run zarrlift-demo broken.zarr --to batch/{name}.zarr --dry-run
batch run batch.zarrlift.jsonl --only cells*
resume batch
status batch
status batch --verbose
verify batch
update batch
undo batch --yes
batch run zarrlift-demo --in-place --list in-place.zarrlift.jsonl --dry-run
batch run in-place.zarrlift.jsonl --log log.jsonl
verify in-place.zarrlift.jsonl
finish in-place.zarrlift.jsonl --yes
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
            words = [{"OCEAN": OCEAN, "CELLS": CELLS}.get(word, word) for word in line.split()]
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
    root: Any = typer.main.get_command(command_line.app(*command_line.COMMANDS, nested=True))
    commands = dict(root.commands)
    for name in ("batch", "model"):
        commands |= {f"{name} {inner}": command for inner, command in commands.pop(name).commands.items()}
    printing = {
        name for name, command in commands.items() if any("--json" in item.opts for item in command.params)
    }
    assert {*Documented().results} == printing

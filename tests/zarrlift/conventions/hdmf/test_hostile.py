"""Pickles that ask for more than data, in every place of a file that can name a codec: nothing runs.

Each file is planned, migrated, inspected and verified in a process apart, in which an audit
hook writes down every name that a pickle looks up and every program that is started (Python's
`pickle.find_class`, `os.system`, ...; https://docs.python.org/3/library/audit_events.html). The tripwire is
a file or folder that the pickles would make.
"""

from __future__ import annotations

import base64
import json
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.zarrlift.conventions.hdmf.files import documents, edit, fixture, small, write_pickled

HOOK = """
import json, os, sys
seen = []
def hook(event, arguments):
    if event in ("pickle.find_class", "os.system", "os.exec", "os.posix_spawn", "subprocess.Popen"):
        seen.append([event, *map(str, arguments[:2])])
sys.addaudithook(hook)
"""
WATCHED = (
    HOOK
    + """
import zarrlift
from zarrlift.recipe.recipe import ArrayRecipe, Recipe
for source, result, log in json.load(sys.stdin):
    words, archive = [], zarrlift.inspect(source)
    for conventions in ("auto", "none"):
        recipe = Recipe(base=ArrayRecipe(conventions=conventions, objects="json"))
        outcome = zarrlift.migrate(source, f"{result}-{conventions}", recipe=recipe)
        words.append([str(problem) for problem in (*archive.all_problems(), *outcome.problems)])
        if os.path.isdir(f"{result}-{conventions}"):
            zarrlift.verify(source, f"{result}-{conventions}", recipe=recipe, full=True)
    json.dump({"seen": seen, "words": words}, open(log, "w"))
    seen = []
"""
)


class Trip:
    """Pickles to a call that makes the tripwire."""

    def __init__(self, tripwire: Path, how: str = "system") -> None:
        self.tripwire = tripwire
        self.how = how

    def __reduce__(self) -> Any:
        if self.how == "open":
            return open, (str(self.tripwire), "w")
        if self.how == "eval":
            return eval, (f"open({str(self.tripwire)!r}, 'w')",)
        return os.system, (f"mkdir {self.tripwire}",)  # which all shells have


def one(item: Any) -> bytes:
    array = np.empty(1, dtype=object)
    array[0] = item
    return pickle.dumps(array)


def struct(item: Any) -> bytes:
    return pickle.dumps(np.array([(1, item)], dtype=[("n", "<i4"), ("to", "O")]))


class Late:
    """A call in the state of an object, not in its making."""

    def __init__(self, trip: Trip) -> None:
        self.trip = trip

    def __reduce__(self) -> Any:
        return dict, (), None, None, iter([("path", self.trip)])


def in_a_reference(root: Path, trip: Trip) -> None:
    write_pickled(root, "pointers", one(trip))


def in_a_pickle_that_is_no_array(root: Path, trip: Trip) -> None:
    write_pickled(root, "pointers", pickle.dumps(trip))


def nested_in_a_path(root: Path, trip: Trip) -> None:
    write_pickled(root, "pointers", one({"source": ".", "path": trip}))


def nested_in_lists(root: Path, trip: Trip) -> None:
    write_pickled(root, "pointers", one([[(1, [trip])]]))


def in_items_of_a_dictionary(root: Path, trip: Trip) -> None:
    write_pickled(root, "pointers", one(Late(trip)))


def in_compound_data(root: Path, trip: Trip) -> None:
    write_pickled(root, "table", struct(trip), dtype=[["n", "<i4"], ["to", "|O"]], fill_value="gAVLAC4=")
    fields = [{"name": "n", "dtype": "int32"}, {"name": "to", "dtype": "object"}]
    (root / "table" / ".zattrs").write_text(json.dumps({"zarr_dtype": fields}))


def in_the_fill_value(root: Path, trip: Trip) -> None:
    fill = base64.b64encode(pickle.dumps(trip)).decode()
    write_pickled(root, "table", struct(None), dtype=[["n", "<i4"], ["to", "|O"]], fill_value=fill)
    fields = [{"name": "n", "dtype": "int32"}, {"name": "to", "dtype": "object"}]
    (root / "table" / ".zattrs").write_text(json.dumps({"zarr_dtype": fields}))


def in_text(root: Path, trip: Trip) -> None:
    write_pickled(root, "words", one(trip))
    (root / "words" / ".zattrs").write_text('{"zarr_dtype": "str"}')


def as_a_second_filter(root: Path, trip: Trip) -> None:
    filters = [{"id": "vlen-utf8"}, {"id": "pickle", "protocol": 5}]
    write_pickled(root, "words", one(trip), filters=filters)
    (root / "words" / ".zattrs").write_text('{"zarr_dtype": "str"}')


def as_the_compressor(root: Path, trip: Trip) -> None:
    write_pickled(
        root, "words", one(trip), filters=[{"id": "vlen-utf8"}], compressor={"id": "pickle", "protocol": 5}
    )
    (root / "words" / ".zattrs").write_text('{"zarr_dtype": "str"}')


def over_numbers(root: Path, trip: Trip) -> None:
    write_pickled(root, "numbers", one(trip), dtype="<i8")
    (root / "numbers" / ".zattrs").write_text('{"zarr_dtype": "int64"}')


def in_the_specifications(root: Path, trip: Trip) -> None:
    write_pickled(root, "specifications/core/1.0/namespace", one(trip))
    (root / "specifications/core/1.0/namespace/.zattrs").write_text('{"zarr_dtype": "scalar"}')
    for group in ("specifications", "specifications/core", "specifications/core/1.0"):
        (root / group / ".zgroup").write_text('{"zarr_format": 2}')
    edit(root / ".zattrs", lambda found: found.update({".specloc": "specifications"}))


def consolidate(root: Path) -> dict[str, Any]:
    """`.zmetadata` of a file."""
    metadata = {
        f"{path}/{name}" if path else name: document
        for name in (".zarray", ".zgroup", ".zattrs")
        for path, document in documents(root, name).items()
    }
    found = {"zarr_consolidated_format": 1, "metadata": metadata}
    (root / ".zmetadata").write_text(json.dumps(found))
    return found


def only_in_consolidated_metadata(root: Path, trip: Trip) -> None:
    """The array's own document names vlen-utf8: only who believes `.zmetadata` unpickles the chunk."""
    write_pickled(root, "words", one(trip))
    (root / "words" / ".zattrs").write_text('{"zarr_dtype": "str"}')
    consolidate(root)
    edit(root / "words" / ".zarray", lambda found: found.update(filters=[{"id": "vlen-utf8"}]))


def only_in_the_arrays_own_document(root: Path, trip: Trip) -> None:
    """The other way round."""
    write_pickled(root, "words", one(trip))
    (root / "words" / ".zattrs").write_text('{"zarr_dtype": "str"}')
    consolidate(root)
    edit(
        root / ".zmetadata",
        lambda found: found["metadata"]["words/.zarray"].update(filters=[{"id": "vlen-utf8"}]),
    )


PLACES: tuple[Callable[[Path, Trip], None], ...] = (
    in_a_reference, in_a_pickle_that_is_no_array, nested_in_a_path, nested_in_lists, in_items_of_a_dictionary,
    in_compound_data, in_text, as_a_second_filter, as_the_compressor, over_numbers,
    in_the_specifications, only_in_consolidated_metadata, only_in_the_arrays_own_document, in_the_fill_value,
)  # fmt: skip


def watch(*folders: Path, source: str = "a.zarr") -> None:
    """In one process, do with the file in each folder what zarrlift can, and note there what was seen."""
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "NUMCODECS_ALLOW_UNSAFE_PICKLE_DECODE": "1"}
    work = [[str(folder / name) for name in (source, "result", "log.json")] for folder in folders]
    done = subprocess.run(
        [sys.executable, "-c", WATCHED], input=json.dumps(work),
        capture_output=True, text=True, check=False, timeout=300, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]


def noted(folder: Path) -> dict[str, Any]:
    """What zarrlift said of a file, and what an audit hook saw."""
    found: dict[str, Any] = json.loads((folder / "log.json").read_bytes())
    return found


HOWS = {"open": "io.open", "eval": "builtins.eval"}


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for each hostile file, with what was seen when it was worked on."""
    root = tmp_path_factory.mktemp("hostile")
    for place in PLACES:
        place(small(root / place.__name__ / "a.zarr"), Trip(root / place.__name__ / "tripwire"))
    for how in HOWS:
        in_a_reference(small(root / how / "a.zarr"), Trip(root / how / "tripwire", how))
    watch(*root.iterdir())
    return root


@pytest.mark.slow(one_in=13)
@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
def test_nothing_that_a_pickle_names_is_looked_up_or_run(
    place: Callable[[Path, Trip], None], hostile: Path
) -> None:
    folder = hostile / place.__name__
    found = noted(folder)
    assert found["seen"] == []
    assert not (folder / "tripwire").exists()
    if place is not in_the_fill_value:  # which nobody reads, as nobody needs it
        assert any("pickle" in word or "does not decode" in word for word in found["words"][0]), found[
            "words"
        ]


@pytest.mark.parametrize("how", HOWS)
def test_whatever_it_names(how: str, hostile: Path) -> None:
    found = noted(hostile / how)
    assert found["seen"] == []
    assert not (hostile / how / "tripwire").exists()
    assert any(HOWS[how] in word for word in found["words"][0]), found["words"][0]


@pytest.mark.slow
def test_a_sound_file_is_migrated_without_unpickling_anything(tmp_path: Path) -> None:
    folder = shutil.copytree(fixture("0.13", "builders"), tmp_path / "old")
    watch(folder, source="builders.zarr")
    assert noted(folder)["seen"] == []
    assert documents(folder / "result-auto")["references/pointers"]["attributes"] == {
        "_DTYPE": "object_reference"
    }


def test_the_tripwire_works(tmp_path: Path) -> None:
    """The same pickle, given to pickle itself."""
    code = HOOK + (
        "import pickle\npickle.loads(open(sys.argv[1], 'rb').read())\n"
        "json.dump({'seen': seen, 'words': []}, open(sys.argv[2], 'w'))\n"
    )
    (tmp_path / "payload").write_bytes(one(Trip(tmp_path / "tripwire")))
    log = tmp_path / "log.json"
    subprocess.run([sys.executable, "-c", code, tmp_path / "payload", log], check=True, timeout=60)
    assert (tmp_path / "tripwire").exists()
    assert ["os.system"] in [event[:1] for event in json.loads(log.read_bytes())["seen"]]

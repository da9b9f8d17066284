"""Pickles that ask for more than data, in every place of a file that can name a codec: nothing runs.

Each file is planned, migrated, inspected, verified and viewed in a process of its own, in which an audit
hook writes down every name that a pickle looks up and every program that is started (Python's
`pickle.find_class`, `os.system`, ...; https://docs.python.org/3/library/audit_events.html). The tripwire is
a file that the pickles would make.
"""

from __future__ import annotations

import base64
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hdmf_files import documents, edit, small, unpack, write_pickled

WATCHED = """
import json, os, sys
source, result, tripwire, log = sys.argv[1:5]
seen = []
def hook(event, arguments):
    if event in ("pickle.find_class", "os.system", "os.exec", "os.posix_spawn", "subprocess.Popen"):
        seen.append([event, *map(str, arguments[:2])])
sys.addaudithook(hook)
import zarrlift
from zarrlift.recipe import ArrayRecipe, Recipe
words = []
for conventions in ("auto", "none"):
    recipe = Recipe(base=ArrayRecipe(conventions=conventions, objects="json"))
    archive = zarrlift.inspect(source)
    outcome = zarrlift.migrate(source, f"{result}-{conventions}", recipe=recipe)
    words.append([str(problem) for problem in (*archive.all_problems(), *outcome.problems)])
    if os.path.isdir(f"{result}-{conventions}"):
        zarrlift.verify(source, f"{result}-{conventions}", recipe=recipe, full=True)
json.dump({"seen": seen, "words": words}, open(log, "w"))
"""


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
        return os.system, (f"touch {self.tripwire}",)


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


def watched(source: Path, tmp_path: Path) -> dict[str, Any]:
    """What zarrlift said of a file, and what an audit hook saw."""
    log = tmp_path / "log.json"
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "NUMCODECS_ALLOW_UNSAFE_PICKLE_DECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, source, tmp_path / "result", tmp_path / "tripwire", log],
        capture_output=True, text=True, check=False, timeout=300, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(log.read_bytes())
    return found


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
def test_nothing_that_a_pickle_names_is_looked_up_or_run(
    place: Callable[[Path, Trip], None], tmp_path: Path
) -> None:
    source = small(tmp_path / "a.zarr")
    place(source, Trip(tmp_path / "tripwire"))
    found = watched(source, tmp_path)
    assert found["seen"] == []
    assert not (tmp_path / "tripwire").exists()
    if place is not in_the_fill_value:  # which nobody reads, as nobody needs it
        assert any("pickle" in word or "does not decode" in word for word in found["words"][0]), found[
            "words"
        ]


@pytest.mark.parametrize("how", ["open", "eval"])
def test_whatever_it_names(how: str, tmp_path: Path) -> None:
    source = small(tmp_path / "a.zarr")
    in_a_reference(source, Trip(tmp_path / "tripwire", how))
    found = watched(source, tmp_path)
    assert found["seen"] == []
    assert not (tmp_path / "tripwire").exists()
    name = {"open": "io.open", "eval": "builtins.eval"}[how]
    assert any(name in word for word in found["words"][0]), found["words"][0]


def test_a_sound_file_is_migrated_without_unpickling_anything(tmp_path: Path) -> None:
    found = watched(unpack("0.13", "builders", tmp_path) / "builders.zarr", tmp_path)
    assert found["seen"] == []
    assert documents(tmp_path / "result-auto")["references/pointers"]["attributes"] == {
        "_DTYPE": "object_reference"
    }


def test_the_tripwire_works(tmp_path: Path) -> None:
    """The same pickle, given to pickle itself."""
    code = WATCHED.split("import zarrlift", maxsplit=1)[0] + (
        "import pickle\npickle.loads(open(source, 'rb').read())\n"
        "json.dump({'seen': seen, 'words': []}, open(log, 'w'))\n"
    )
    (tmp_path / "payload").write_bytes(one(Trip(tmp_path / "tripwire")))
    log = tmp_path / "log.json"
    subprocess.run([sys.executable, "-c", code, tmp_path / "payload", "", "", log], check=True, timeout=60)
    assert (tmp_path / "tripwire").exists()
    assert ["os.system"] in [event[:1] for event in json.loads(log.read_bytes())["seen"]]

"""hdmf-zarr files: the form that hdmf-zarr 0.14 writes, and what keeps a file back."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from tests.support.readers import ENVIRONMENTS
from tests.zarrlift.conventions.hdmf.files import (
    CASES,
    documents,
    edit,
    expected,
    files,
    fixture,
    small,
    write_pickled,
)

import zarrlift
from zarrlift.core.chain.chain import Chain
from zarrlift.core.codecs.pipeline import Pipeline
from zarrlift.core.data_types.v3 import DataType
from zarrlift.recipe.recipe import ArrayRecipe, Recipe
from zarrlift.storage.local.storage import LocalStorage
from zarrlift.verification.conventions import hdmf
from zarrlift.verification.zarr_python_reader import read_node

COMPARED = {file: name for name in ("builders", "session", "linked") for file in files("0.13", name)}
"""What hdmf-zarr 0.13 and 0.14 wrote of the same content: the fixture of each file."""
Pair = Callable[[str], tuple[Path, Path]]


def recipe(**options: Any) -> Recipe:
    return Recipe(base=ArrayRecipe(**options))


def planned(source: Path, **options: Any) -> zarrlift.Plan:
    return zarrlift.plan(source, source.parent / "result.zarr", recipe=recipe(**options))


def said(source: Path, **options: Any) -> dict[str, str]:
    """The refusals of a file by node, but for those of nodes that are the convention of a group above it."""
    plan = planned(source, **options)
    found: dict[str, str] = {}
    for refusal in plan.refusals:
        for problem in refusal.problems:
            if problem.severity == "refusal" and "the convention of a group above" not in problem.message:
                found[refusal.path] = f"{found.get(refusal.path, '')}{problem}\n"
    return found


# ----- the form of the result


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """A file of 0.13, migrated when it is first asked for, and the same content by 0.14."""
    place = tmp_path_factory.mktemp("hdmf")

    @cache
    def made(file: str) -> tuple[Path, Path]:
        assert zarrlift.migrate(fixture("0.13", COMPARED[file]) / file, place / file).ok
        return place / file, fixture("0.14", COMPARED[file]) / file

    return made


@pytest.mark.slow(one_in=5)
@pytest.mark.parametrize("file", COMPARED)
def test_every_node_has_the_attributes_that_0_14_gives_it(file: str, pair: Pair) -> None:
    ours, theirs = map(documents, pair(file))
    assert ours.keys() == theirs.keys()
    for path, document in ours.items():
        mine, wanted = document["attributes"], dict(theirs[path].get("attributes", {}))
        if wanted.get("_DTYPE") == "float":  # Python's name for float64, of scalars made in Python
            wanted["_DTYPE"] = mine["_DTYPE"]
        assert mine == wanted, path


@pytest.mark.slow(one_in=2)
@pytest.mark.parametrize("file", COMPARED)
def test_every_array_has_the_shape_and_type_that_0_14_gives_it(file: str, pair: Pair) -> None:
    ours, theirs = pair(file)
    for path, document in documents(theirs).items():
        if document["node_type"] == "array":
            found, wanted = values(ours / path), values(theirs / path)
            assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype), path
            if found.dtype.hasobject or found.dtype.kind == "T":
                assert found.tolist() == wanted.tolist(), path
            else:
                assert found.tobytes() == wanted.tobytes(), path


def values(place: Path) -> np.ndarray:
    """All values of an array. zarr 3.1.6 does not know the name `struct`, which 3.4.2 writes."""
    document = json.loads((place / "zarr.json").read_bytes())
    data_type = DataType.from_json(document["data_type"])
    if data_type.name != "struct":
        array = zarr.open_array(place, mode="r")
        return np.asarray(array[...], dtype=array.dtype)
    shape = tuple(document["shape"])
    assert document["chunk_grid"]["configuration"]["chunk_shape"] == list(shape)
    return Pipeline(Chain.from_json(document["codecs"]), shape, data_type).decode(
        (place / "c/0").read_bytes()
    )


SESSION = "session.nwb.zarr"


def test_dimension_names_are_there_for_other_readers_too(pair: Pair) -> None:
    found = json.loads((pair(SESSION)[0] / "acquisition/raw/data/zarr.json").read_bytes())
    names = ["num_times", "num_channels"]
    assert found["dimension_names"] == found["attributes"]["_ARRAY_DIMENSIONS"] == names


def test_the_result_is_consolidated_as_the_source_is(pair: Pair) -> None:
    assert (fixture("0.13", "session") / SESSION / ".zmetadata").exists()
    document = json.loads((pair(SESSION)[0] / "zarr.json").read_bytes())
    entries = document["consolidated_metadata"]["metadata"]
    assert entries["acquisition/second"]["attributes"]["_LINKS"][0]["path"] == "/acquisition/first/data"


def test_numbers_and_text_move_as_they_lie_and_the_plan_says_what_was_seen() -> None:
    source = fixture("0.13", "session") / SESSION
    plan = planned(source)
    (seen,) = plan.conventions
    assert (seen.name, seen.summary) == ("hdmf", "NWB file: 122 datasets, 11 links, 32 references")
    assert zarrlift.inspect(source).conventions[0].name == "hdmf"
    routes = {array.path: array.route.name for array in plan.arrays}
    rewritten = {path for path, route in routes.items() if route != "relink"}
    assert routes["acquisition/raw/data"] == "relink"
    assert routes["session_description"] == "relink"
    assert {path for path in rewritten if not path.startswith("specifications/")} == {
        *("file_create_date", "session_start_time", "timestamps_reference_time"),
        "general/subject/date_of_birth",
        "general/extracellular_ephys/electrodes/group",
        *(f"general/intracellular_ephys/intracellular_recordings/{name}" for name in (
            "electrodes/electrode", "responses/response", "stimuli/stimulus")),
        "intervals/trials/timeseries",
    }  # fmt: skip


def test_an_archive_without_a_word_of_hdmf_zarr_is_left_alone(tmp_path: Path) -> None:
    source = small(tmp_path / "a.zarr")
    (source / "deep" / "target" / ".zattrs").unlink()
    assert planned(source, conventions="hdmf").conventions == ()


TAMPERED: dict[str, tuple[str, Any, str]] = {
    # name: (node, what is done to its attributes, what is said)
    "a link to another place": ("holder", lambda a: a["_LINKS"][0].update(path="/deep"), "list of links"),
    "a link too few": ("holder", lambda a: a["_LINKS"].pop(), "list of links"),
    "another reference": ("holder", lambda a: a["to_group"]["_REFERENCE"].update(path="/"), "'to_group'"),
    "no reference": ("holder", lambda a: a.pop("to_dataset"), "reference 'to_dataset'"),
    "references as text": ("references/pointers", lambda a: a.update(_DTYPE="str"), "dataset of references"),
    "fields unnamed": ("compound/pointing", lambda a: a.pop("_REFERENCE_FIELDS"), "that are references"),
}  # fmt: skip


@pytest.fixture
def migrated(pair: Pair) -> tuple[Path, Path]:
    """A file with everything, and its result."""
    return fixture("0.13", "builders") / "builders.zarr", pair("builders.zarr")[0]


def witnessed(source: Path, result: Path, path: str) -> list[str]:
    (node,) = (one for one in zarrlift.inspect(source).nodes if one.path == path)
    found = read_node(LocalStorage(result), path, strict_json=True)
    assert found is not None
    return [what for what, _, _ in hdmf(node, found)]


@pytest.mark.slow
def test_the_witness_that_looks_at_the_result_alone_is_content(migrated: tuple[Path, Path]) -> None:
    for path in documents(migrated[1]):
        assert witnessed(*migrated, path) == []


@pytest.mark.parametrize("name", TAMPERED)
def test_the_witness_that_looks_at_the_result_alone_sees(
    name: str, migrated: tuple[Path, Path], tmp_path: Path
) -> None:
    path, change, words = TAMPERED[name]
    source, result = migrated
    shutil.copytree(result, tmp_path / "result.zarr")
    edit(tmp_path / "result.zarr" / path / "zarr.json", lambda found: change(found["attributes"]) and None)
    (said,) = witnessed(source, tmp_path / "result.zarr", path)
    assert words in said


# ----- by other ways


def test_a_view_shows_what_a_migration_would_write(tmp_path: Path) -> None:
    group = zarrlift.open(fixture("0.13", "session") / "session.nwb.zarr")
    assert group["intervals/trials/timeseries"][0]["timeseries"] == "/acquisition/first"
    assert group["session_description"][()] == "Rötliche Maus läuft"
    assert group["acquisition/second"].attrs["_LINKS"][0]["name"] == "data"


# ----- as plain data


def test_without_conventions_attributes_stay_and_pickles_are_refused(tmp_path: Path) -> None:
    source = fixture("0.13", "builders") / "builders.zarr"
    plan = planned(source, conventions="none")
    holder = next(group for group in plan.groups if group.path == "holder")
    assert (
        holder.document["attributes"]["zarr_link"]
        == json.loads((source / "holder" / ".zattrs").read_bytes())["zarr_link"]
    )
    refused = said(source, conventions="none")
    assert refused.keys() == {"compound/mixed", "compound/pointing", "references/pointers"}
    assert "--allow-pickle" in refused["references/pointers"]


def test_in_place_and_with_kept_codecs_a_file_with_objects_is_kept_back_whole(tmp_path: Path) -> None:
    source = fixture("0.13", "builders") / "builders.zarr"
    for plan in (zarrlift.plan(source, in_place=True), planned(source, codecs="keep")):
        assert plan.published == ()
        told = [problem for refusal in plan.refusals for problem in refusal.problems]
        assert any("must be re-encoded" in problem.message for problem in told)


def test_in_place_a_file_of_numbers_and_text_becomes_what_0_14_reads(tmp_path: Path) -> None:
    source = small(tmp_path / "a.zarr")
    edit(source / ".zattrs", lambda found: found.update(zarr_link=[link("/deep/target")]))
    assert zarrlift.migrate(source, in_place=True).ok
    found = documents(source)
    assert found[""]["attributes"]["_LINKS"] == [{"source": ".", "path": "/deep/target", "name": "x"}]
    assert found["deep/target"]["attributes"] == {"_DTYPE": "int64"}


# ----- links and references that lead nowhere


def link(path: str, source: str = ".", name: str = "x") -> dict[str, str]:
    return {"source": source, "path": path, "name": name}


def reference(path: str, source: str = ".", kind: str = "object") -> dict[str, Any]:
    return {"zarr_dtype": kind, "value": {"source": source, "path": path, "object_id": "abc"}}


BROKEN: dict[str, tuple[str, dict[str, Any], str]] = {
    # name: (node, its attributes, what is said of it)
    "a link to nothing": ("deep", {"zarr_link": [link("/nowhere")]}, "target does not exist in this file"),
    "a link to a file that is not there": (
        "deep",
        {"zarr_link": [link("/x", "../other.zarr")]},
        "the other file does not exist",
    ),
    "a link without a name": ("deep", {"zarr_link": [{"path": "/deep"}]}, "not a link"),
    "links that are no list": ("deep", {"zarr_link": "x"}, "not a list of links"),
    "a link whose name is taken": ("deep", {"zarr_link": [link("/other", name="target")]}, "name is in use"),
    "two links of one name": ("deep", {"zarr_link": [link("/other"), link("/other")]}, "name is in use"),
    "a link to the group above": ("deep", {"zarr_link": [link("/")]}, "form a cycle"),
    "a reference to nothing": ("deep/target", {"table": reference("/nowhere")}, "target does not exist"),
    "a reference out of the file": (
        "deep/target",
        {"table": reference("/x", "../other.zarr")},
        "reference to another file",
    ),
    "a reference to the table it is in": ("deep/target", {"table": reference("/deep")}, "form a cycle"),
    "a reference to a region": ("deep/target", {"table": reference("/other", kind="region")}, "region"),
    "references where numbers are": (
        "deep/target",
        {"zarr_dtype": "object"},
        "does not match the content of the array",
    ),
    "regions where numbers are": ("deep/target", {"zarr_dtype": "region"}, "references to regions"),
    "specifications that are not there": (
        "",
        {".specloc": "specifications"},
        ".specloc does not name a group",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_keeps_the_file_back_but_as_plain_data(name: str, tmp_path: Path) -> None:
    node, attributes, words = BROKEN[name]
    source = small(tmp_path / "a.zarr")
    (source / "other").mkdir()
    (source / "other" / ".zgroup").write_text('{"zarr_format": 2}')
    place = source / node / ".zattrs"
    attributes = {**(json.loads(place.read_bytes()) if place.exists() else {}), **attributes}
    place.write_text(json.dumps(attributes))
    found = said(source)
    assert words in found[node]
    assert "completely or not at all" in found[""]
    assert "--conventions none" in found[""]
    assert planned(source).published == ()
    assert zarrlift.migrate(source, tmp_path / "result.zarr", recipe=recipe(conventions="none")).ok
    assert documents(tmp_path / "result.zarr")[node]["attributes"] == attributes


def test_circles_of_several_links_are_found(tmp_path: Path) -> None:
    source = small(tmp_path / "a.zarr")
    for here, there in ("ab", "bc", "ca"):
        (source / here).mkdir()
        (source / here / ".zgroup").write_text('{"zarr_format": 2}')
        (source / here / ".zattrs").write_text(json.dumps({"zarr_link": [link(f"/{there}")]}))
    assert "/a -> /b -> /c -> /a" in said(source)["c"]


def test_many_links_to_one_place_are_no_circle(tmp_path: Path) -> None:
    source = small(tmp_path / "a.zarr")
    for here in "abc":
        (source / here).mkdir()
        (source / here / ".zgroup").write_text('{"zarr_format": 2}')
        (source / here / ".zattrs").write_text(
            json.dumps(
                {"zarr_link": [link("/deep"), link("/deep/target", name="y")], "to": reference("/deep")}
            )
        )
    assert said(source) == {}


@pytest.mark.parametrize(
    ("attributes", "left_out", "words"),
    [
        ({"zarr_link": [link("/deep/target")]}, "deep/target", "excluded node"),
        ({".specloc": "deep"}, "deep", "names an excluded group"),
    ],
    ids=["the target of a link", "cached specifications"],
)
def test_what_others_name_may_not_be_left_out(
    attributes: dict[str, Any], left_out: str, words: str, tmp_path: Path
) -> None:
    source = small(tmp_path / "a.zarr")
    edit(source / ".zattrs", lambda found: found.update(attributes))
    plan = zarrlift.plan(source, tmp_path / "b.zarr", recipe=Recipe(exclude=(left_out,)))
    assert any(words in str(p) for refusal in plan.refusals for p in refusal.problems)


def test_links_into_another_file_keep_their_source_and_are_told(tmp_path: Path) -> None:
    place = shutil.copytree(fixture("0.13", "linked"), tmp_path / "old")
    plan = planned(place / "links.nwb.zarr")
    (told,) = (p for p in plan.all_problems() if "another file" in p.message)
    assert (told.severity, told.found) == ("warning", "../data.nwb.zarr")
    edit(
        place / "links.nwb.zarr" / "acquisition" / ".zattrs",
        lambda found: found["zarr_link"][0].update(path="/acquisition/nowhere"),
    )
    assert "not exist in the other file" in said(place / "links.nwb.zarr")["acquisition"]
    shutil.rmtree(place / "data.nwb.zarr")
    assert "the other file does not exist" in said(place / "links.nwb.zarr")["acquisition"]


def test_a_source_that_names_the_file_itself_is_the_file(tmp_path: Path) -> None:
    """As hdmf-zarr wrote it before 0.11: relative to the folder that the file is in."""
    source = small(tmp_path / "a.zarr")
    edit(source / ".zattrs", lambda found: found.update(zarr_link=[link("/deep/target", "a.zarr")]))
    assert zarrlift.migrate(source, tmp_path / "result.zarr").ok
    found = documents(tmp_path / "result.zarr")[""]["attributes"]
    assert found["_LINKS"] == [{"source": ".", "path": "/deep/target", "name": "x"}]


# ----- datasets of references


def pickled(*items: Any, dtype: Any = object) -> bytes:
    array = np.empty(len(items), dtype=dtype)
    for index, item in enumerate(items):
        array[index] = item
    return pickle.dumps(array)


REFERENCES: dict[str, tuple[Any, str]] = {
    "to nothing": ({"source": ".", "path": "/nowhere"}, "target does not exist in this file, at (0,)"),
    "out of the file": ({"source": "../b.zarr", "path": "/deep"}, "reference to another file"),
    "to a region": ({"source": ".", "path": "/deep", "region": 3}, "a reference to a region"),
    "that is a text": ("/deep", "not a reference"),
}


@pytest.mark.parametrize("name", REFERENCES)
def test_references_in_datasets_are_looked_at_one_by_one(name: str, tmp_path: Path) -> None:
    item, words = REFERENCES[name]
    source = small(tmp_path / "a.zarr")
    write_pickled(source, "pointers", pickled(item))
    found = said(source)["pointers"]
    assert words in found
    assert "pointers/0" in found


def test_a_chunk_that_does_not_decode_keeps_the_file_back(tmp_path: Path) -> None:
    source = small(tmp_path / "a.zarr")
    write_pickled(source, "pointers", b"\x80\x05garbage")
    assert "pointers/0" in said(source)["pointers"]


def test_items_that_were_never_written_are_empty_as_0_14_has_them(tmp_path: Path) -> None:
    """A chunk that is not stored, and the part of a chunk beyond the array."""
    source = small(tmp_path / "a.zarr")
    to = {"source": ".", "path": "/deep/target"}
    write_pickled(source, "pointers", pickled(to, to, 0), shape=[5], chunks=[3])
    write_pickled(source, "partly", pickled(to, to, 0), shape=[2], chunks=[3])
    assert zarrlift.migrate(source, tmp_path / "result.zarr").ok
    group = zarr.open_group(tmp_path / "result.zarr")
    assert group["pointers"][...].tolist() == ["/deep/target", "/deep/target", "", "", ""]
    assert group["partly"][...].tolist() == ["/deep/target", "/deep/target"]


def compound(source: Path, rows: list[Any], fields: list[dict[str, str]]) -> None:
    write_pickled(source, "table", pickled(*rows), shape=[len(rows)], chunks=[len(rows)])
    (source / "table" / ".zattrs").write_text(json.dumps({"zarr_dtype": fields}))


def test_long_paths_and_texts_in_rows_are_not_cut(tmp_path: Path) -> None:
    source = small(tmp_path / "a.zarr")
    long = "n" * 200 + "/" + "m" * 200 + "/" + "k" * 200
    for path in ("n" * 200, "n" * 200 + "/" + "m" * 200, long):
        (source / path).mkdir()
        (source / path / ".zgroup").write_text('{"zarr_format": 2}')
    rows = [(1, {"source": ".", "path": f"/{long}"}, "t" * 700), (2, {"source": ".", "path": "/deep"}, "")]
    fields = [("id", "int32"), ("to", "object"), ("text", "str_")]
    compound(source, rows, [{"name": name, "dtype": dtype} for name, dtype in fields])
    assert zarrlift.migrate(source, tmp_path / "result.zarr").ok
    table = zarr.open_array(tmp_path / "result.zarr" / "table")
    assert table.attrs.asdict() == {"_REFERENCE_FIELDS": ["to"]}
    assert table[...].tolist() == [(1, f"/{long}", "t" * 700), (2, "/deep", "")]


def test_numbers_in_rows_that_do_not_fit_their_word_get_a_wider_type(tmp_path: Path) -> None:
    source = small(tmp_path / "a.zarr")
    fields = [
        {"name": "n", "dtype": "int8"},
        {"name": "x", "dtype": "float32"},
        {"name": "t", "dtype": "str"},
    ]
    compound(source, [(1, 0.1, "a"), (1000, 2.5, "b")], fields)
    assert zarrlift.migrate(source, tmp_path / "result.zarr").ok
    table = zarr.open_array(tmp_path / "result.zarr" / "table")
    assert table[...].tolist() == [(1, 0.1, "a"), (1000, 2.5, "b")]


def said_fields(**kinds: str) -> list[dict[str, str]]:
    return [{"name": name, "dtype": kind} for name, kind in kinds.items()]


ROWS: dict[str, tuple[list[Any], list[dict[str, str]], str]] = {
    "too few fields": ([(1,)], said_fields(n="int32", t="str"), "different number"),
    "a text for a number": ([("x", "y")], said_fields(n="int32", t="str"), "not a number"),
    "a number for a text": ([(1, 2)], said_fields(n="int32", t="str"), "not text"),
    "no row": (["x"], said_fields(n="int32"), "not a row"),
    "a field of regions": ([(1, 2)], said_fields(n="int32", t="region"), "regions"),
    "a field of an unknown type": ([(1,)], said_fields(n="void"), "does not write in compound"),
    "two fields of one name": ([(1, 2)], said_fields(n="int32") * 2, "do not match those of the array"),
}


@pytest.mark.parametrize("name", ROWS)
def test_rows_that_are_not_what_zarr_dtype_says_are_told(name: str, tmp_path: Path) -> None:
    rows, fields, words = ROWS[name]
    source = small(tmp_path / "a.zarr")
    compound(source, rows, fields)
    assert words in said(source)["table"]


def test_bytes_that_are_no_text_are_told(tmp_path: Path) -> None:
    source = shutil.copytree(fixture("0.13", "builders") / "builders.zarr", tmp_path / "a.zarr")
    edit(source / "texts" / "ascii" / ".zarray", lambda found: found.update(compressor=None))
    (source / "texts" / "ascii" / "0").write_bytes(b"\3\0\0\0" + b"\1\0\0\0\xff" + b"\0\0\0\0" + b"\0\0\0\0")
    assert "not UTF-8 text" in said(source)["texts/ascii"]


# What hdmf-zarr 0.14 reads of a migrated file is what the hdmf-zarr that wrote it reads of the source.


SCRIPT = ENVIRONMENTS / "hdmf-zarr" / "read.py"


def ask(*arguments: object) -> Any:
    """The answer of hdmf-zarr 0.14."""
    python = Path(os.environ["ZARRLIFT_HDMF_ZARR"]) / "bin" / "python"
    environment = {**os.environ, "NUMCODECS_ALLOW_UNSAFE_PICKLE_DECODE": "1"}
    if sys.pycache_prefix is None:  # then nothing is to appear beside the fixtures' own modules
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
    done = subprocess.run(
        [python, SCRIPT, *map(str, arguments)],
        capture_output=True, text=True, check=False, timeout=600, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str, str], Any]:
    """What 0.14 reads of every fixture, migrated; hdmf-zarr is loaded once for all."""
    place = tmp_path_factory.mktemp("hdmf")
    results = {}
    for version, name in CASES:
        source = fixture(version, name)
        for file in files(version, name):
            result = place / "new" / version / name / file
            outcome = zarrlift.migrate(source / file, result)
            assert outcome.ok, outcome.problems
            results[version, name, file] = str(result)
    read = ask(*results.values())
    return {key: read[path] for key, path in results.items()}


EVERY = [
    pytest.param(version, name, file, id=f"{version}-{file}")
    for version, name in CASES
    for file in files(version, name)
]


@pytest.mark.needs_reader("hdmf-zarr")
@pytest.mark.parametrize(("version", "name", "file"), EVERY)
def test_every_group_dataset_attribute_link_and_reference_is_equal(
    version: str, name: str, file: str, answers: dict[tuple[str, str, str], Any]
) -> None:
    assert answers[version, name, file]["builders"] == expected(version, name)[file]["builders"]


@pytest.mark.needs_reader("hdmf-zarr")
@pytest.mark.parametrize(
    ("version", "name", "file"), [one for one in EVERY if str(one.id).endswith(".nwb.zarr")]
)
def test_every_object_field_and_table_row_is_equal(
    version: str, name: str, file: str, answers: dict[tuple[str, str, str], Any]
) -> None:
    objects = answers[version, name, file]["objects"]
    assert len(objects) > 1
    assert objects == expected(version, name)[file]["objects"]


@pytest.mark.needs_reader("hdmf-zarr")
def test_hdmf_zarrs_own_conversion_says_the_same_where_it_succeeds(tmp_path: Path) -> None:
    """It fails on files with references to time series, and reads and writes every chunk."""
    source = fixture("0.13", "json") / "json.nwb.zarr"
    assert ask("--convert", source, tmp_path / "theirs.nwb.zarr") is None
    assert zarrlift.migrate(source, tmp_path / "ours.nwb.zarr").ok
    read = ask(tmp_path / "theirs.nwb.zarr", tmp_path / "ours.nwb.zarr")
    theirs, ours = (read[str(tmp_path / name)] for name in ("theirs.nwb.zarr", "ours.nwb.zarr"))
    assert ours["objects"] == theirs["objects"]
    assert ours["builders"].keys() == theirs["builders"].keys()


@pytest.mark.needs_reader("hdmf-zarr")
def test_hdmf_zarrs_own_conversion_fails_on_a_whole_session(tmp_path: Path) -> None:
    """Why there is another one: should this ever succeed, compare with it above."""
    source = fixture("0.13", "session") / "session.nwb.zarr"
    assert "Found bad link" in ask("--convert", source, tmp_path / "theirs.nwb.zarr")


@pytest.mark.slow
def test_verify_looks_at_every_value_of_both(tmp_path: Path) -> None:
    source = fixture("0.13", "session") / "session.nwb.zarr"
    assert zarrlift.migrate(source, tmp_path / "result.zarr").ok
    assert zarrlift.verify(source, tmp_path / "result.zarr", full=True).ok
    edit(
        tmp_path / "result.zarr" / "acquisition/second/zarr.json",
        lambda found: found["attributes"]["_LINKS"][0].update(path="/acquisition/first/timestamps"),
    )
    report = zarrlift.verify(source, tmp_path / "result.zarr", full=True)
    assert [node for node, _ in report.differences if node] == ["acquisition/second"]

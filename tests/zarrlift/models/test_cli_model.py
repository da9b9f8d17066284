"""`zarrlift model`, command by command; a hierarchy appears whole or not at all, and never over another."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys

import pytest
import zarr
from tests.support.documents import v3_array
from tests.support.fixtures_index import archive
from zarr.storage import MemoryStore

from zarrlift import models
from zarrlift.cli import main
from zarrlift.errors import JobError
from zarrlift.storage.local.storage import LocalStorage
from zarrlift.storage.local.writer import LocalWriter
from zarrstack.core.errors import MetadataError, UsageError

OCEAN = str(archive("zarr-2.18/people/ocean").path)
CELLS = str(archive("zarr-2.18/people/cells").path)


@pytest.fixture
def run(capsys):
    def call(*words, code=0):
        found = main(["model", *map(str, words)])
        out, err = capsys.readouterr()
        assert found == code, out + err
        return out, err

    return call


def test_show_prints_the_model(run):
    out, err = run("show", OCEAN)
    assert json.loads(out) == models.show(OCEAN).model
    assert err == ""


def test_a_model_may_come_from_standard_input(run, tmp_path, monkeypatch):
    text = run("show", OCEAN)[0]

    def piped(*words):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        return run(*words)[0]

    assert piped("show", "-") == text
    assert piped("diff", "-", OCEAN) == "The structures are equal.\n"
    assert "conforms" in piped("validate", OCEAN, "-")
    piped("create", "-", tmp_path / "made")
    assert models.diff(OCEAN, tmp_path / "made") == ()


@pytest.mark.parametrize("name", ["", "sst"])
def test_what_zarr_has_open_is_shown(name):
    group = zarr.open_group(OCEAN, mode="r")
    shown = models.show(group[name] if name else group).model
    assert shown == (models.flatten(models.show(OCEAN).model)[name] if name else models.show(OCEAN).model)


def test_show_as_v3_prints_what_migration_makes(run):
    out, err = run("show", OCEAN, "--as", "v3")
    assert json.loads(out) == models.show(OCEAN, migrated=True).model
    assert "note:" in err, "what the plan says goes to standard error"


def test_show_takes_a_recipe_for_what_migration_makes(run, tmp_path):
    (tmp_path / "recipe.toml").write_text('codecs = "zstd:3"\n')
    out, _ = run("show", OCEAN, "--as", "v3", "--recipe", tmp_path / "recipe.toml")
    assert json.loads(out)["members"]["sst"]["codecs"][-1]["name"] == "zstd"
    run("show", OCEAN, "--recipe", tmp_path / "recipe.toml", code=2)


def test_show_flat_and_consolidated(run):
    model = models.show(OCEAN).model
    assert json.loads(run("show", OCEAN, "--flat")[0]) == models.flatten(model)
    assert json.loads(run("show", OCEAN, "--consolidated")[0]) == models.consolidated(model)
    run("show", OCEAN, "--flat", "--consolidated", code=2)


def test_show_json_is_one_document(run):
    out, _ = run("show", OCEAN, "--json")
    document = json.loads(out)
    assert document["command"] == "model show"
    assert document["result"].keys() == {"format", "model", "problems"}
    assert document["result"]["model"] == models.show(OCEAN).model


def test_a_hierarchy_too_deep_for_one_document_is_shown_as_text(run, tmp_path):
    group = {"zarr_format": 3, "node_type": "group", "attributes": {}}
    model = models.unflatten({"/".join("a" * 250): group})
    (tmp_path / "deep.json").write_text(json.dumps(model))
    assert json.loads(run("show", tmp_path / "deep.json")[0]) == model
    assert "too deep" in run("show", tmp_path / "deep.json", "--json", code=2)[0]


def test_a_url_is_shown_without_its_secrets(run, tmp_path):
    (tmp_path / "schema.json").write_text('{"type": "object"}')
    urls = ("memory://user:secret@no/such.zarr?signature=hidden", "memory://other")
    out, err = run("validate", *urls, tmp_path / "schema.json", code=1)
    assert "memory://no/such.zarr" in out
    assert not any(word in out + err for word in ("secret", "signature=hidden"))


def test_show_says_what_is_missing_and_exits_1(run, tmp_path):
    shutil.copytree(OCEAN, tmp_path / "a")
    (tmp_path / "a" / "sst" / ".zarray").write_text("{")
    out, err = run("show", tmp_path / "a", code=1)
    assert "sst" not in json.loads(out)["members"]
    assert "refused: /sst" in err


def test_documents_are_read_up_to_a_limit(tmp_path):
    place = tmp_path / "a"
    shutil.copytree(OCEAN, place)
    (place / "sst" / ".zattrs").write_text(json.dumps({"text": "a" * 5000}))
    shown = models.show(place, max_document_size=4000)
    assert "sst" not in shown.model["members"]
    assert "/sst, key 'sst/.zattrs': the document is too large" in "".join(map(str, shown.problems))
    whole = models.show(place, max_document_size=6000).model
    assert "sst" in whole["members"]
    assert models.diff(OCEAN, place, max_document_size=4000)
    assert "sst" not in json.dumps(models.schema(place, max_document_size=4000))
    assert "too large" in str(models.validate(place, whole, max_document_size=4000))
    assert not models.validate(place, whole)
    with pytest.raises(MetadataError, match="too large"):
        models.show(place / "sst", max_document_size=10)


def test_a_model_file_without_end_is_not_read(run):
    _, err = run("validate", OCEAN, "/dev/zero", code=2)
    assert "the file is too large for a model" in err


def test_schema_of_a_format_and_of_a_hierarchy(run):
    assert json.loads(run("schema")[0]) == models.schema()
    assert json.loads(run("schema", "--as", "v2")[0]) == models.schema(zarr_format=2)
    opened = json.loads(run("schema", OCEAN, "--open", "shape,attributes", "--open", "members")[0])
    assert opened == models.schema(OCEAN, leave_open=("shape", "attributes", "members"))
    run("schema", OCEAN, "--open", "colour", code=2)
    run("schema", "--open", "shape", code=2)
    run("schema", OCEAN, "--as", "v2", code=2)


def test_validate_lists_every_violation(run, tmp_path):
    file = tmp_path / "model.json"
    file.write_text(run("show", OCEAN)[0])
    assert run("validate", OCEAN, file)[0].endswith("conforms\n")
    changed = json.loads(file.read_text())
    changed["members"]["sst"]["shape"] = [1, 2, 3]
    changed["members"]["lat"]["chunks"] = [7]
    file.write_text(json.dumps(changed))
    out, _ = run("validate", OCEAN, file, code=1)
    assert "2 violations" in out
    assert "/lat: chunks" in out
    assert "/sst: shape" in out
    assert run("validate", OCEAN, file, "--open", "shape", "--open", "chunks")[0]


def test_validate_takes_many_archives_and_one_model(run, tmp_path):
    file = tmp_path / "schema.json"
    file.write_text(json.dumps({"properties": {"attributes": {"required": ["title"]}}}))
    out, _ = run("validate", OCEAN, CELLS, tmp_path / "nowhere", file, code=1)
    assert "1 of 3 archives conform to" in out
    document = json.loads(run("validate", OCEAN, CELLS, tmp_path / "nowhere", file, "--json", code=1)[0])
    rows = document["result"]["archives"]
    assert [(row["url"], len(row["violations"])) for row in rows] == [
        (OCEAN, 0), (CELLS, 1), (str(tmp_path / "nowhere"), 1),
    ]  # fmt: skip
    assert rows[2]["violations"][0]["message"].startswith("no such file or directory")


def test_diff_exits_1_where_there_is_a_difference(run, tmp_path):
    assert "equal" in run("diff", OCEAN, OCEAN)[0]
    out, _ = run("diff", OCEAN, CELLS, code=1)
    assert "- /sst: missing, array" in out
    assert "+ /labels: added, group" in out
    document = json.loads(run("diff", OCEAN, CELLS, "--json", code=1)[0])
    assert {row["what"] for row in document["result"]["differences"]} == {"added", "missing"}
    changed = models.show(OCEAN).model
    changed["members"]["sst"]["compressor"] = None
    (tmp_path / "other.json").write_text(json.dumps(changed))
    assert "~ /sst compressor: " in run("diff", OCEAN, tmp_path / "other.json", code=1)[0]
    run("diff", OCEAN, tmp_path / "other.json", "--ignore", "compressor")


def test_create_makes_a_hierarchy(run, tmp_path):
    out, _ = run("create", OCEAN, tmp_path / "made", "--as", "v3", "--consolidate")
    assert "1 group and 12 arrays, no chunks" in " ".join(out.split())
    assert models.diff(models.show(OCEAN, migrated=True), tmp_path / "made") == ()
    assert (tmp_path / "made" / "zarr.json").read_text().count("consolidated_metadata")
    _, err = run("create", OCEAN, tmp_path / "made", code=1)
    assert "the destination is not empty" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["show"], "needs SRC"),
        (["bogus"], "is not a command of model"),
        (["show", "/no/such/place"], "no such file or directory"),
        (["validate", OCEAN], "an archive and a model are needed"),
        (["validate", OCEAN, "/no/such/model"], "cannot be read"),
        (["show", OCEAN, "--bogus"], "is not an option of model show"),
    ],
)
@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
def test_a_request_that_makes_no_sense_exits_2(words, message, as_json, run):
    out, err = run(*words, *(["--json"] if as_json else []), code=2)
    if as_json:
        error = json.loads(out)["error"]
        assert error["kind"] == "usage"
        assert err.startswith(f"zarrlift: {error['message']}")
        assert message in error["message"] + error.get("found", "")
    else:
        assert message in err


def test_show_needs_none_of_the_extra_packages():
    code = (
        "import sys;"
        "sys.modules.update(dict.fromkeys(('jsonschema_rs', 'pydantic', 'pydantic_zarr', 'zarr_metadata')));"
        "from zarrlift import models;"
        f"m = models.show({OCEAN!r}); models.show(m, migrated=True); models.schema(m); models.diff(m, m);"
        f"assert models.validate(m, m.model) == ();"
        "import zarrstack.core.errors as e\n"
        "v3 = models.show(m, migrated=True)\n"
        "uses = [lambda: models.validate(m, {'type': 'object'}), lambda: models.to_pydantic(m.model)]\n"
        "uses += [lambda: models.schema(zarr_format=3), lambda: models.create(v3.model, 'memory://x')]\n"
        "for use in uses:\n"
        "    try: use()\n"
        "    except e.UsageError as error: assert 'pip install jsonschema-rs pydantic-zarr' in str(error)\n"
        "    else: raise SystemExit('it should have been told')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# A hierarchy appears whole or not at all, and never over something else.

OCEAN_PATH = archive("zarr-2.18/people/ocean").path
CELLS_PATH = archive("zarr-2.18/people/cells").path


class Stop(Exception):
    pass


def files(path):
    return {
        file.relative_to(path).as_posix(): file.read_bytes() for file in path.rglob("*") if file.is_file()
    }


@pytest.fixture
def failing(monkeypatch):
    """Makes the n-th write of an object fail, or the process die there."""

    def arm(count, *, dead=False):
        seen = []
        real = LocalWriter.write

        def write(self, key, data):
            if len(seen) == count:
                raise Stop(key)
            seen.append(key)
            real(self, key, data)

        monkeypatch.setattr(LocalWriter, "write", write)
        if dead:
            # A process that is killed takes nothing back.
            monkeypatch.setattr(LocalStorage, "delete", lambda self, key: None)
            monkeypatch.setattr(LocalWriter, "close", lambda self: None)
        return seen

    return arm


@pytest.mark.parametrize("migrated", [False, True], ids=["v2", "v3"])
def test_the_root_comes_last_and_groups_after_what_is_in_them(migrated, tmp_path, failing):
    seen = failing(10**6)
    models.create(CELLS_PATH, tmp_path / "made", migrated=migrated)
    name = "zarr.json" if migrated else ".zgroup"
    assert seen[-1] == name
    groups = [f"labels/cells/{name}", f"labels/{name}", name]
    assert [key for key in seen if key in groups] == groups
    array = name if migrated else ".zarray"
    arrays = [key for key in seen if key.endswith("/" + array) and key not in groups]
    assert len(arrays) == 6
    assert max(map(seen.index, arrays)) < seen.index(groups[0]), "groups come after every array"


@pytest.mark.parametrize("count", [0, 6, 10])
def test_a_failing_write_leaves_nothing(count, tmp_path, failing):
    failing(count)
    with pytest.raises(Stop):
        models.create(CELLS_PATH, tmp_path / "made")
    assert files(tmp_path / "made") == {}


@pytest.mark.parametrize("count", [0, 6, 10])
def test_what_a_killed_call_leaves_is_no_hierarchy_and_is_taken_over(count, tmp_path, failing, monkeypatch):
    failing(count, dead=True)
    with pytest.raises(Stop):
        models.create(CELLS_PATH, tmp_path / "made")
    with pytest.raises(FileNotFoundError):
        zarr.open(tmp_path / "made", mode="r", zarr_format=2)
    monkeypatch.undo()
    models.create(CELLS_PATH, tmp_path / "made")
    assert models.diff(CELLS_PATH, tmp_path / "made") == ()
    assert not list((tmp_path / "made").glob(".zarrlift*"))


def test_what_a_killed_call_left_is_not_another_models(tmp_path, failing, monkeypatch):
    failing(5, dead=True)
    with pytest.raises(Stop):
        models.create(CELLS_PATH, tmp_path / "made")
    monkeypatch.undo()
    before = files(tmp_path / "made")
    with pytest.raises(JobError, match="the destination is not empty"):
        models.create(OCEAN_PATH, tmp_path / "made")
    assert files(tmp_path / "made") == before


@pytest.mark.parametrize("there", ["zarr.json", ".zgroup", "notes.txt", "a/b/c"])
def test_what_is_there_already_stays(there, tmp_path):
    file = tmp_path / "made" / there
    file.parent.mkdir(parents=True)
    file.write_text("mine")
    with pytest.raises(JobError) as caught:
        models.create(OCEAN_PATH, tmp_path / "made")
    assert caught.value.problem.key == there
    assert files(tmp_path / "made") == {there: b"mine"}


def test_an_empty_directory_is_nothing(tmp_path):
    assert models.create(OCEAN_PATH, tmp_path).arrays == 12


def test_a_store_is_a_place_too():
    store = MemoryStore()
    models.create(OCEAN_PATH, store, migrated=True, consolidate=True)
    assert models.diff(models.show(OCEAN_PATH, migrated=True), store) == ()
    assert zarr.open_consolidated(store)["sst"].shape == (12, 36, 72)


BAD = {
    "shape": ([-3], "shape/0"),
    "codecs": ([{"name": "gzip", "configuration": {"level": 1}}, {"name": "bytes"}], "codecs"),
    "fill_value": ("x", "fill_value"),
    "chunk_grid": ({"name": "regular", "configuration": {"chunk_shape": [0]}}, "chunk_grid"),
    "dimension_names": (["a", "b", "c", "d"], "dimension_names"),
}


def test_metadata_that_v3_forbids_is_refused_with_every_place(tmp_path):
    model = models.show(OCEAN_PATH, migrated=True).model
    for (member, (value, _)), array in zip(BAD.items(), ("sst", "lat", "lon", "crs", "time"), strict=True):
        model["members"][array][member] = value
    with pytest.raises(MetadataError) as caught:
        models.create(model, tmp_path / "made")
    text = str(caught.value)
    for (_, place), array in zip(BAD.values(), ("sst", "lat", "lon", "crs", "time"), strict=True):
        assert f"/{array}: " in text
        assert place in text
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("member", "value"), [("shape", "big"), ("chunks", [1]), ("dtype", None), ("shape", [-1])]
)
def test_metadata_that_v2_cannot_do_without_is_asked_for(member, value, tmp_path):
    model = models.show(OCEAN_PATH).model
    model["members"]["sst"][member] = value
    with pytest.raises(MetadataError) as caught:
        models.create(model, tmp_path / "made")
    assert caught.value.problem.node == "sst"


V3 = v3_array([4], [2])
V2: dict = {"zarr_format": 2, "shape": [4], "chunks": [2], "dtype": "<i4", "compressor": None}
V2 |= {"filters": None, "fill_value": 0, "order": "C", "attributes": {}}
INNER = {"name": "sharding_indexed", "configuration": {"chunk_shape": [1], "codecs": V3["codecs"]}}
INNER["configuration"]["index_codecs"] = [*V3["codecs"], {"name": "crc32c"}]
SHARDS_IN_SHARDS = {**INNER, "configuration": {**INNER["configuration"], "codecs": [INNER]}}


@pytest.mark.parametrize(
    ("node", "named"),
    [
        (V3 | {"data_type": "int128"}, "int128"),
        (V3 | {"data_type": {"name": "nobody.knows", "configuration": {}}}, "nobody.knows"),
        (V3 | {"codecs": [*V3["codecs"], {"name": "snappy"}]}, "snappy"),
        (V2 | {"dtype": "<x9"}, "<x9"),
        (V2 | {"compressor": {"id": "snappy"}}, "snappy"),
        (V2 | {"filters": [{"id": "nobody-knows"}]}, "nobody-knows"),
    ],
    ids=lambda value: value if isinstance(value, str) else f"v{value['zarr_format']}",
)
def test_data_types_and_codecs_that_nothing_reads_are_refused(node, named, tmp_path):
    with pytest.raises(MetadataError, match="no known reader supports this array") as caught:
        models.create(models.unflatten({"a/b/c": node}), tmp_path / "made")
    assert caught.value.problem.node == "a/b/c"
    assert named in str(caught.value)
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("node", [V3, V2, V3 | {"codecs": [SHARDS_IN_SHARDS]}], ids=["v3", "v2", "by zarr"])
def test_what_one_reader_knows_is_made(node, tmp_path):
    models.create(node, tmp_path / "made")
    assert zarr.open_array(tmp_path / "made", mode="r")[:].tolist() == [0] * 4


def test_an_archive_with_unread_nodes_makes_no_hierarchy(tmp_path):
    models.create(OCEAN_PATH, tmp_path / "a")
    (tmp_path / "a" / "sst" / ".zarray").write_text("{")
    with pytest.raises(MetadataError) as caught:
        models.create(tmp_path / "a", tmp_path / "b")
    assert caught.value.problem.node == "sst"


def test_a_place_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError):
        models.create(OCEAN_PATH, tmp_path / "file")

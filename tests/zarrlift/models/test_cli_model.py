"""`zarrlift model`, command by command, as it is typed."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
import typer
import zarr
from tests.support.fixtures_index import archive

from zarrlift import models
from zarrlift.cli import main
from zarrlift.cli.model_commands import app
from zarrstack.core.errors import MetadataError

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


@pytest.mark.parametrize(("levels", "code"), [(190, 0), (250, 2)])
def test_show_of_a_deep_hierarchy(levels, code, run, tmp_path):
    group = {"zarr_format": 3, "node_type": "group", "attributes": {}}
    model = models.unflatten({"/".join("a" * levels): group})
    models.create(model, tmp_path / "deep")
    assert json.loads(run("show", tmp_path / "deep")[0]) == model
    out, _ = run("show", tmp_path / "deep", "--json", code=code)
    assert ("too deep" in out) == (code == 2)
    run("schema", tmp_path / "deep")


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


def test_documents_are_read_up_to_a_limit(run, tmp_path):
    shutil.copytree(OCEAN, tmp_path / "a")
    (tmp_path / "a" / "sst" / ".zattrs").write_text(json.dumps({"text": "a" * 5000}))
    place, limit = tmp_path / "a", ("--max-document-size", "4kB")
    out, err = run("show", place, *limit, code=1)
    assert "sst" not in json.loads(out)["members"]
    assert "/sst, key 'sst/.zattrs': the document is too large" in err
    run("show", place, "--max-document-size", "6kB")
    run("diff", OCEAN, place, *limit, code=1)
    run("schema", place, *limit)
    (tmp_path / "model.json").write_text(run("show", place)[0])
    assert "too large" in run("validate", place, tmp_path / "model.json", *limit, code=1)[0]
    run("validate", place, tmp_path / "model.json")
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
        (["show"], "Missing argument"),
        (["bogus"], "No such command"),
        (["show", "/no/such/place"], "no such file or directory"),
        (["validate", OCEAN], "an archive and a model are needed"),
        (["validate", OCEAN, "/no/such/model"], "cannot be read"),
        (["show", OCEAN, "--bogus"], "No such option"),
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


def test_help_names_every_command(run):
    out, _ = run("--help")
    for name in ("show", "schema", "validate", "diff", "create"):
        assert f"\n  {name} " in out
    assert "zarrlift model show" in out
    with_h, _ = run("show", "-h")
    assert "--as" in with_h
    run(code=2)


def test_the_help_of_all_names_the_command(capsys):
    assert main(["--help"]) == 0
    assert "\n  model " in capsys.readouterr().out


@pytest.mark.parametrize("name", ["show", "schema", "validate", "diff", "create"])
def test_every_option_has_a_description(name):
    command = typer.main.get_command(app).commands[name]
    assert [
        parameter.name for parameter in command.params if not parameter.help and parameter.name != "help"
    ] == []


def test_other_commands_do_not_load_models():
    program = Path(sysconfig.get_path("scripts")) / "zarrlift"
    words = [sys.executable, "-X", "importtime", str(program), "--version"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert "zarrlift.cli" in done.stderr
    assert "zarrlift.models" not in done.stderr
    assert "zarrlift.cli.model_commands" not in done.stderr


def test_show_needs_none_of_the_extra_packages():
    code = (
        "import sys; sys.modules.update(dict.fromkeys(('jsonschema_rs', 'pydantic', 'pydantic_zarr')));"
        "from zarrlift import models;"
        f"m = models.show({OCEAN!r}); models.show(m, migrated=True); models.schema(m); models.diff(m, m);"
        f"assert models.validate(m, m.model) == ();"
        "import zarrstack.core.errors as e\n"
        "for model in ({'type': 'object'}, dict):\n"
        "    try: models.validate(m, model)\n"
        "    except e.UsageError as error: assert 'pip install jsonschema-rs pydantic-zarr' in str(error)\n"
        "    else: raise SystemExit('it should have been told')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

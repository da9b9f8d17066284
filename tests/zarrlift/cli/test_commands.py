"""Every command ends with its report or one clear error, as text or as JSON, and the right exit code."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorstore
import xarray
import yaozarrs
from tests.support import report_examples as examples
from tests.support.job_archives import cells, ocean, spots

import zarrlift
from zarrlift.cli import demo, main
from zarrlift.cli.commands import COMMANDS as TABLE
from zarrlift.cli.names import SUMMARIES, below
from zarrlift.cli.options import by_place, words_of
from zarrlift.cli.suggestions import COMPLETE, candidates
from zarrlift.core.problems import command
from zarrlift.errors import JobError
from zarrlift.recipe.parsing import parse_codecs
from zarrstack.core.errors import ChunkError, UsageError

COMMANDS = ("inspect", "plan", "migrate", "resume", "status", "verify", "finish", "undo")


class Recorder:
    """Stands for one of zarrlift's functions: keeps the call, gives or raises what it was told."""

    def __init__(self, answer):
        self.answer = answer
        self.args = ()
        self.kwargs = {}

    def __call__(self, *args, **kwargs):
        self.args, self.kwargs = args, kwargs
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


ANSWERS = {
    "inspect": examples.ARCHIVE,
    "plan": examples.PLAN,
    "migrate": examples.DONE,
    "resume": examples.DONE,
    "status": examples.STATUS,
    "verify": examples.EQUAL,
    "finish": examples.FINISHED,
    "undo": examples.UNDONE,
}
ARGUMENTS = {
    **{name: [name, "old.zarr"] for name in COMMANDS},
    "migrate": ["migrate", "old.zarr", "new.zarr"],
    "verify": ["verify", "old.zarr", "new.zarr"],
    "plan": ["migrate", "--dry-run", "old.zarr"],
    "finish": ["finish", "--yes", "old.zarr"],
    "undo": ["undo", "--yes", "old.zarr"],
}


@pytest.fixture
def fakes(monkeypatch):
    recorders = {name: Recorder(answer) for name, answer in ANSWERS.items()}
    for name, recorder in recorders.items():
        # Set, not patched: looking at the real function would load it.
        monkeypatch.setitem(vars(zarrlift), name, recorder)
    monkeypatch.setattr("zarrlift.jobs.archive_run.source_documents", lambda *_, **__: defaultdict(dict))
    return recorders


@pytest.mark.parametrize(
    ("name", "answer", "code"),
    [
        pytest.param("inspect", examples.ARCHIVE, 1, id="inspect-with-a-refused-node"),
        pytest.param("inspect", replace(examples.ARCHIVE, nodes=examples.ARCHIVE.nodes[:3]), 0, id="inspect"),
        pytest.param("plan", examples.PLAN, 1, id="plan-with-a-refusal"),
        pytest.param("plan", replace(examples.PLAN, refusals=()), 0, id="plan"),
        pytest.param("migrate", examples.DONE, 0, id="migrate-done"),
        pytest.param("migrate", examples.NOTHING, 0, id="migrate-nothing-to-do"),
        pytest.param("migrate", examples.PARTLY, 1, id="migrate-some-refused"),
        pytest.param("resume", examples.FAILED, 1, id="resume-failed"),
        pytest.param("status", examples.STATUS, 0, id="status"),
        pytest.param("verify", examples.EQUAL, 0, id="verify-equal"),
        pytest.param("verify", examples.DIFFERENT, 1, id="verify-different"),
        pytest.param("finish", examples.FINISHED, 0, id="finish"),
        pytest.param("undo", examples.UNDONE, 0, id="undo"),
        pytest.param("migrate", JobError("the destination exists"), 1, id="job-error"),
        pytest.param("migrate", UsageError("no such archive"), 2, id="usage-error"),
        pytest.param("migrate", RuntimeError("a bug"), 1, id="bug"),
        pytest.param("migrate", KeyboardInterrupt(), 130, id="interrupted"),
    ],
)
@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
def test_exit_code_says_how_it_went(name, answer, code, as_json, fakes, capsys):
    fakes[name].answer = answer
    arguments = [*ARGUMENTS[name], "--json"] if as_json else ARGUMENTS[name]
    assert main(arguments) == code
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err
    if code == 0:
        assert (bool(out), err) == (True, "")
    if as_json:
        document = json.loads(out)
        assert document["exit_code"] == code
        assert document["command"] == ARGUMENTS[name][0]
        assert ("error" in document) is isinstance(answer, BaseException)
        assert all(line.startswith("zarrlift: ") for line in err.splitlines())
        assert bool(err) is (code != 0), "what went wrong is said where it is seen"


@pytest.mark.parametrize("terminal", [True, False])
def test_what_the_report_says_is_not_repeated_on_standard_error(terminal, fakes, capsys, monkeypatch):
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda _self: terminal, raising=False)
    fakes["verify"].answer = examples.DIFFERENT
    for name in ("inspect", "plan", "verify"):
        assert main(ARGUMENTS[name]) == 1
        assert capsys.readouterr().err == ""


@pytest.mark.parametrize("answer", [examples.PARTLY, examples.FAILED], ids=["refused", "failed"])
def test_what_went_wrong_goes_to_standard_error_and_is_said_once(answer, fakes, capsys):
    fakes["migrate"].answer = answer
    assert main(ARGUMENTS["migrate"]) == 1
    out, err = capsys.readouterr()
    (problem,) = answer.problems
    assert problem.message in err
    assert problem.message not in out
    assert re.search("1 (refusal|failure)", out)


def test_json_is_whole_and_standard_error_gets_short_lines(fakes, capsys):
    many = tuple(replace(examples.FAILED.problems[0], key=f"temperature/{i}") for i in range(25))
    fakes["migrate"].answer = replace(examples.FAILED, problems=many)
    assert main([*ARGUMENTS["migrate"], "--json"]) == 1
    out, err = capsys.readouterr()
    assert len(json.loads(out)["result"]["problems"]) == 25
    first, *others, last = err.splitlines()
    assert first.startswith("zarrlift: Incomplete: 1 of 2 arrays")
    assert len(others) == 10
    assert last == "zarrlift: and 15 more"


def test_an_error_is_one_message_with_its_place(fakes, capsys):
    fakes["verify"].answer = ChunkError(
        "truncated", node="a", key="a/0.0", found="3 bytes", expected="8 bytes", advice="Copy it again."
    )
    assert main(["verify", "old.zarr", "new.zarr"]) == 1
    assert capsys.readouterr() == (
        "",
        "zarrlift: /a, key 'a/0.0': truncated; found 3 bytes; expected 8 bytes. Copy it again.\n",
    )


def test_a_bug_says_how_to_get_its_traceback(fakes, capsys, monkeypatch):
    fakes["plan"].answer = RuntimeError("line one\nline two")
    assert main(["migrate", "--dry-run", "x"]) == 1
    err = capsys.readouterr().err
    assert "unexpected RuntimeError: line one line two" in err
    assert "ZARRLIFT_DEBUG=1" in err
    monkeypatch.setenv("ZARRLIFT_DEBUG", "1")
    assert main(["migrate", "--dry-run", "x"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_an_interruption_says_how_to_go_on(fakes, capsys):
    fakes["migrate"].answer = KeyboardInterrupt()
    fakes["status"].answer = replace(examples.STATUS, job="/tmp/my job.db")
    assert main(["migrate", "old.zarr", "new.zarr"]) == 130
    again = command("resume", "/tmp/my job.db")
    assert capsys.readouterr().err == f"zarrlift: interrupted. Continue with: {again}\n"
    assert fakes["status"].args == ("new.zarr",)


def test_an_interruption_before_there_is_a_job_says_so(fakes, capsys):
    fakes["migrate"].answer = KeyboardInterrupt()
    fakes["status"].answer = JobError("no job")
    assert main(["migrate", "old.zarr", "new.zarr"]) == 130
    assert "No job was started" in capsys.readouterr().err


def test_an_interruption_while_modules_are_loaded_is_no_traceback(fakes, capsys):
    """numpy cannot be loaded a second time once its loading was cut short."""
    fakes["migrate"].answer = KeyboardInterrupt()
    fakes["status"].answer = ImportError("cannot load module more than once per process")
    assert main(["migrate", "old.zarr", "new.zarr"]) == 130
    assert capsys.readouterr().err == "zarrlift: interrupted. Nothing was changed.\n"


def test_an_interruption_that_knows_its_job_asks_nobody(fakes, capsys):
    fakes["resume"].answer = zarrlift.Interrupted("/jobs/1.db")
    fakes["status"].answer = RuntimeError("asked")
    assert main(["resume", "old.zarr"]) == 130
    assert "zarrlift resume /jobs/1.db" in capsys.readouterr().err


def test_quiet_says_nothing_when_all_is_well_and_what_went_wrong_otherwise(fakes, capsys):
    assert main(["migrate", "old.zarr", "new.zarr", "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    fakes["migrate"].answer = examples.PARTLY
    assert main(["migrate", "old.zarr", "new.zarr", "-q"]) == 1
    out, err = capsys.readouterr()
    assert not out
    assert "objects are stored with pickle" in err


@pytest.mark.parametrize("name", ["inspect", "plan", "migrate", "verify"])
def test_how_an_archive_is_read_may_be_said_to_every_command_that_reads_one(name, fakes):
    main([*ARGUMENTS[name], "--from", "n5", "--follow-links", "--axes", "reversed"])
    said = {"format": "n5", "follow_links": True, "axes": "reversed"}
    assert {option: fakes[name].kwargs[option] for option in said} == said
    main(ARGUMENTS[name])
    assert not said.keys() & fakes[name].kwargs.keys(), "defaults are those of the functions"


def test_options_change_the_general_part_of_a_recipe_file(fakes, tmp_path):
    path = tmp_path / "recipe.toml"
    path.write_text('codecs = "zstd:3"\norder = "F"\nexclude = ["x"]\n')
    assert main(["migrate", "--dry-run", "a", "--recipe", str(path), "--set", "order=C"]) == 1
    recipe = fakes["plan"].kwargs["recipe"]
    assert (recipe.base.codecs, recipe.base.order, recipe.exclude) == (
        parse_codecs("zstd:3"),
        "C",
        ("x",),
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param("migrate old.zarr", "destination", id="no-destination"),
        pytest.param(
            "migrate old.zarr new.zarr --in-place", "exclude each other", id="destination-and-in-place"
        ),
        pytest.param("migrate a b --codecs zstdd", "zstdd", id="unknown-codec"),
        pytest.param("migrate -n a --set casting=clamp", "--dtype", id="clamp-without-dtype"),
        pytest.param("migrate -n a --storage-options secret", "KEY=VALUE", id="options-without-value"),
        pytest.param("migrate -n a --storage-options {x", "not JSON", id="options-broken-json"),
        pytest.param("migrate -n a --recipe no-such.toml", "no-such.toml", id="no-recipe-file"),
        pytest.param("migrate -n a --set endian=middle", "middle", id="unknown-choice"),
        pytest.param("migrate -n", "SRC", id="no-source"),
        pytest.param("migrate -n a --set shard-index-location=middle", "middle", id="no-end"),
        pytest.param("migrate -n a --memory much", "--memory", id="no-size"),
        pytest.param("migrate a b --workers many", "--workers/-j: found 'many'; expected a whole", id="word"),
        pytest.param("migrate a b --workers 0", "found '0'; expected a whole number of at least", id="none"),
        pytest.param("batch run a --workers 1.5", "--workers/-j: found '1.5'; expected a whole", id="part"),
        pytest.param("migrate a b --axes up", "--axes: found 'up'; expected reversed, kept", id="no-axes"),
        pytest.param("inspect a --workers 2", "--workers", id="unknown-option"),
        pytest.param("migrate a b --job 4", "-j 4", id="a-number-for-a-job"),
        pytest.param("update a --job 4 --dry-run", "-j 4", id="a-number-for-the-job-of-an-update"),
        pytest.param("migrate a b --workers 0", "--workers", id="no-workers"),
        pytest.param("lift a b", "lift", id="unknown-command"),
    ],
)
@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
def test_a_request_that_makes_no_sense_exits_2_and_touches_nothing(words, message, as_json, fakes, capsys):
    assert main([*words.split(), *(["--json"] if as_json else [])]) == 2
    out, err = capsys.readouterr()
    if as_json:
        error = json.loads(out)["error"]
        assert error["kind"] == "usage"
        assert len(err.splitlines()) == 1
        out = ""
    assert not out
    assert message in err
    assert "Traceback" not in err
    assert all(not recorder.args for recorder in fakes.values())


def test_json_is_strict_even_where_attributes_hold_nan(fakes, capsys):
    root = examples.GroupNode(path="", attributes={"x": [float("nan"), float("-inf")], "y": float("inf")})
    fakes["inspect"].answer = replace(examples.ARCHIVE, nodes=(root,))
    main(["inspect", "a", "--json"])
    document = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert document["result"]["nodes"][0]["attributes"] == {"x": ["NaN", "-Infinity"], "y": "Infinity"}


def test_help_names_every_command_and_exit_code(capsys):
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(f"\n  {name} " in text for name in below(""))
    assert all(f" {code} " in text for code in ("0", "1", "2", "130"))
    assert len(text.splitlines()) <= 24, "a small terminal shows all of it"


@pytest.mark.parametrize("name", TABLE)
def test_every_option_has_a_description_that_speaks_of_options_that_the_command_has(name):
    command = TABLE[name]
    known = {word for word, _, _ in words_of(command)}
    told = {}
    for each, item in {**command.arguments, **command.all_options()}.items():
        assert item.help.endswith("."), each
        told |= dict.fromkeys(re.findall(r"--[a-z-]+", item.help), each)
    assert {word: each for word, each in told.items() if word not in known} == {}


def test_each_command_has_a_name_and_a_line():
    assert [*TABLE] == [*SUMMARIES]


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("zarrlift ")


@pytest.mark.parametrize("words", [["--version", "--verbose"], ["--verbose", "--version"]], ids=" ".join)
@pytest.mark.parametrize(("library", "line"), [("libdeflate", "libdeflate (deflate "), (None, "zlib ")])
def test_version_names_the_library_of_each_codec(capsys, monkeypatch, words, library, line):
    from zarrlift.core.codecs import deflate

    if library is None:
        monkeypatch.setattr(deflate, "libdeflate", None)
    assert main(words) == 0
    first, *others = capsys.readouterr().out.splitlines()
    assert first.startswith("zarrlift ")
    assert f"gzip, zlib  {line}" in "\n".join(others)
    assert [text.split("  ")[0] for text in others] == ["gzip, zlib", "zstd", "blosc", "crc32c", "all else"]


def test_verbose_is_of_no_use_alone(capsys):
    assert main(["--verbose"]) == 2
    assert main(["--verbose", "inspect", "x"]) == 2
    assert "--version" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["", *TABLE])
def test_help_fits_the_terminal(name, monkeypatch, capsys):
    for columns, flag in ((60, "-h"), (80, "--help"), (100, "-h")) if name else ((80, "-h"), (100, "--help")):
        monkeypatch.setenv("COLUMNS", str(columns))
        assert main([*name.split(), flag]) == 0
        text = capsys.readouterr().out
        assert [line for line in text.splitlines() if len(line) > columns] == []
        words = [word for word, _, _ in words_of(TABLE[name])] if name else []
        assert [word for word in words if word not in text] == []


def test_a_percent_sign_in_a_help_text_is_one(monkeypatch, capsys):
    options = {"part": TABLE["demo"].options["as_json"]._replace(help="100 % of %(default)s.", flag="--part")}
    monkeypatch.setitem(TABLE, "demo", TABLE["demo"]._replace(options=options))
    assert main(["demo", "-h"]) == 0
    assert "100 % of %(default)s." in capsys.readouterr().out


# `zarrlift demo`: what it writes is what other libraries read, and what it says to try works.


SUGGESTED = {"undo": ("--yes",)}
"""What a user would answer."""


def test_what_it_says_to_try_works(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, write in (("write_ocean", ocean), ("write_cells", cells), ("write_spots", spots)):
        monkeypatch.setattr(demo, name, write)
    assert main(["demo"]) == 0
    lines = capsys.readouterr().out.splitlines()
    commands = [shlex.split(line)[1:] for line in lines if line.startswith("  zarrlift ")]
    assert len(commands) > 5
    for words in commands:
        assert main([*words, *SUGGESTED.get(words[0], ())]) == 0, words
    assert main(["demo"]) == 2
    assert "Give another name" in capsys.readouterr().err


def test_others_read_it(tmp_path, capsys):
    assert main(["demo", str(tmp_path / "here"), "--json"]) == 0
    written = json.loads(capsys.readouterr().out)["result"]["written"]
    # Without dask, whose threads share what warnings are shown.
    with xarray.open_zarr(written["zarr2"], chunks=None) as ocean:
        assert dict(ocean.sizes) == {"time": 12, "lat": 90, "lon": 180}
        assert np.isnan(ocean.sst[0, 0, 0])
        assert 20 < float(ocean.sst.max()) < 40
    place = {"driver": "file", "path": f"{written['n5']}/cells/c0/s1"}
    image = tensorstore.open({"driver": "n5", "kvstore": place}).result()
    assert image.shape == (128, 96, 16)
    assert image.read().result().max() > 500
    yaozarrs.validate_zarr_store(written["ome"])


# `--storage-options` names the place that each option is for; none goes to another place.


BOTH = ("src", "dst")


@pytest.mark.parametrize(
    ("texts", "given"),
    [
        (["anon=true"], {"src": {"anon": True}}),
        (["dst:key=k", "dst:secret=s"], {"dst": {"key": "k", "secret": "s"}}),
        (["src:key=a", "dst:key=b"], {"src": {"key": "a"}, "dst": {"key": "b"}}),
        (["endpoint_url=http://h:9"], {"src": {"endpoint_url": "http://h:9"}}),
        (["dst:endpoint_url=http://h:9"], {"dst": {"endpoint_url": "http://h:9"}}),
        (["key=a=b:c"], {"src": {"key": "a=b:c"}}),
        (['dst:{"a": {"b": "c=d"}}'], {"dst": {"a": {"b": "c=d"}}}),
        (['{"dst:key": 1}'], {"src": {"dst:key": 1}}),
        (["other:key=1"], {"src": {"other:key": 1}}),
        (["key=1", '{"key": 2}'], {"src": {"key": 2}}),
        (None, {}),
    ],
)
def test_the_place_stands_at_the_start_of_the_key(texts: list[str] | None, given: dict[str, Any]) -> None:
    assert by_place(texts, BOTH, ("src",)) == given


def test_what_is_for_one_place_goes_to_no_other() -> None:
    given = by_place(["anon=true", "src:key=secret"], BOTH, ("src", "dst"))
    assert given == {"src": {"anon": True, "key": "secret"}, "dst": {"anon": True}}


def test_what_names_a_place_wins() -> None:
    given = by_place(["dst:anon=false", "anon=true"], BOTH, ("src", "dst"))
    assert given == {"src": {"anon": True}, "dst": {"anon": False}}


@pytest.mark.parametrize("text", ["hunter2", "dst:hunter2", "=hunter2", "{hunter2", "dst:[]"])
def test_what_has_no_form_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(UsageError) as told:
        by_place([text], BOTH, ("src",))
    assert "hunter2" not in str(told.value)


def test_a_place_that_a_command_has_not_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "a.zarr", "--storage-options", "dst:anon=true"]) == 2
    assert "this command has no dst:; expected src" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("source", "destination", "places"),
    [
        ("s3://a/b", "s3://c/d", {"storage_options", "dest_storage_options"}),
        ("old.zarr", "s3://c/d", {"dest_storage_options"}),
        ("s3://a/b", "new.zarr", {"storage_options"}),
        ("job.zarrlift.db", None, {"storage_options"}),
    ],
)
def test_a_comparison_gives_them_to_both_urls(source, destination, places, monkeypatch) -> None:
    recorder = Recorder(examples.EQUAL)
    monkeypatch.setitem(vars(zarrlift), "verify", recorder)
    assert main(["verify", *filter(None, (source, destination)), "--storage-options", "anon=true"]) == 0
    assert recorder.kwargs.keys() & {"storage_options", "dest_storage_options"} == places


# `zarrlift completion`: the scripts, and what the shells complete with them.


BIN = Path(sys.executable).parent
ASKED = {
    "a command": ("zarrlift mig", {"migrate"}),
    "a command of a command": ("zarrlift batch r", {"run"}),
    "an option": ("zarrlift migrate --dest", {"--dest-through"}),
    "a value": ("zarrlift migrate --axes ", {"reversed", "kept"}),
    "the name of a rare option": ("zarrlift migrate --set shard-", {"shard-index=", "shard-index-location="}),
    "its value": ("zarrlift migrate --set key-encoding=", {"key-encoding=default", "key-encoding=v2"}),
}
SCRIPTS = {
    "bash": """eval "$(zarrlift completion bash)"
        COMP_LINE="$LINE" COMP_POINT=${#LINE}; _zarrlift_completion zarrlift; echo "${COMPREPLY[@]}" """,
    # Outside of its line editor, zsh completes nothing: what its own function is called with is printed.
    "zsh": """autoload -Uz compinit; compinit -D -u; eval "$(zarrlift completion zsh)"
        [[ $_comps[zarrlift] == _zarrlift_completion ]] || exit 1
        compadd() { print -r -- "$@" }; words=(${=LINE}); CURRENT=$#words; _zarrlift_completion""",
    "fish": """zarrlift completion fish | source; complete -C "$LINE" """,
}


@pytest.mark.parametrize(("line", "answers"), ASKED.values(), ids=ASKED)
def test_what_is_completed(line, answers):
    assert set(candidates(line)) == answers


def test_bash_completes_what_follows_an_equals_sign():
    """It takes that for a word of its own."""
    environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}
    for line, answer in (("--set key-enc", "key-encoding="), ("--set key-encoding=d", "default")):
        environment["LINE"] = f"zarrlift migrate a {line}"
        command = ["bash", "--norc", "-c", SCRIPTS["bash"]]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert done.stdout.split() == [answer]


def test_a_script_for_each_shell(capsys):
    for shell in ("bash", "zsh", "fish"):
        assert main(["completion", shell]) == 0
        assert COMPLETE in capsys.readouterr().out
    assert main(["completion", "tcsh"]) == 2
    assert "'tcsh' is not a shell that zarrlift knows; expected bash, zsh, fish" in capsys.readouterr().err


@pytest.mark.parametrize(
    "shell", [pytest.param(name, marks=pytest.mark.needs_reader(name)) for name in SCRIPTS]
)
def test_a_shell_completes(shell):
    environment = {**os.environ, "LINE": "zarrlift batch r", "PATH": f"{BIN}:{os.environ['PATH']}"}
    plain = {"bash": "--norc", "zsh": "-f", "fish": "--no-config"}[shell]
    command = [shell, plain, "-c", SCRIPTS[shell]]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "run" in done.stdout
    assert "status" not in done.stdout

"""Names that are no text; pipes, sockets and pointers of Git for files: refused by name, never waited for."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.damaged_archives import (
    GOOD,
    assert_good,
    copied,
    migrate,
    read,
    run,
    write_archive,
    write_array,
)
from tests.support.fixtures_index import archive

import zarrlift
from zarrlift.core.git_pointers import pointer
from zarrlift.core.problems import JoinedProblems
from zarrstack.core.errors import ChunkError, Problem, UsageError

# Pipes, sockets and devices in the place of documents, archives and job files: refused, never waited for.


def bind_socket(path: Path) -> None:
    """A socket; its name may be longer than an address, so it is bound from its directory."""
    before = Path.cwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(before)


PUT: dict[str, Callable[[Path], None]] = {
    "a pipe": os.mkfifo,
    "a socket": bind_socket,
    "a device": lambda path: path.symlink_to("/dev/zero"),
}


@pytest.fixture(autouse=True)
def _ends_by_itself() -> Iterator[None]:
    """A command that waits for a writer is stopped, so that the test fails rather than hangs."""

    def stop(*_: object) -> None:
        raise TimeoutError("the command waits")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """`good`, and `bad`, whose documents are replaced."""
    path = write_archive(tmp_path / "source.zarr")
    write_array(path / "bad", {"0": bytes(16), "1": bytes(16)})
    return path


@pytest.mark.slow(one_in=5)
@pytest.mark.parametrize("kind", PUT)
@pytest.mark.parametrize("key", [".zattrs", "bad/.zarray", "bad/.zattrs", "bad/attributes.json"])
def test_a_document_that_is_no_file_is_refused_by_node(
    source: Path, tmp_path: Path, key: str, kind: str
) -> None:
    (source / key).unlink(missing_ok=True)
    PUT[kind](source / key)
    ran = migrate(source, tmp_path / "out.zarr", "--follow-links")
    told = [(p["node"], p["key"], p["found"]) for p in ran.refusals]
    assert (ran.code, told) == (1, [(key.rpartition("/")[0], key, kind)])
    assert_good(tmp_path / "out.zarr")


@pytest.mark.parametrize("key", ["bad/.zattrs", "bad/0"])
@pytest.mark.parametrize("kind", ["a pipe", "a device"])
def test_layers_wait_for_nothing_either(source: Path, tmp_path: Path, key: str, kind: str) -> None:
    (source / key).unlink(missing_ok=True)
    PUT[kind](source / key)
    ran = migrate(source, tmp_path / "out.zarr", "--follow-links", "--source-through", "retry")
    assert (ran.code, [(p["node"], p["key"]) for p in ran.refusals]) == (1, [("bad", key)])
    assert_good(tmp_path / "out.zarr")


@pytest.mark.slow(one_in=3)
@pytest.mark.parametrize("kind", PUT)
def test_the_format_is_known_where_the_root_document_is_no_file(
    source: Path, tmp_path: Path, kind: str
) -> None:
    (source / ".zgroup").unlink()
    PUT[kind](source / ".zgroup")
    ran = migrate(source, tmp_path / "out.zarr", "--follow-links")
    assert [(p["node"], p["key"]) for p in ran.refusals] == [("", ".zgroup")]
    assert_good(tmp_path / "out.zarr")


def test_what_cannot_be_read_decides_no_format(source: Path, tmp_path: Path) -> None:
    os.mkfifo(source / "zarr.json")
    ran = migrate(source, tmp_path / "out.zarr")
    assert [(p["node"], p["key"]) for p in ran.refusals] == [("", "zarr.json")]
    assert_good(tmp_path / "out.zarr")


def test_consolidated_metadata_that_is_no_file_is_passed_over(source: Path, tmp_path: Path) -> None:
    os.mkfifo(source / ".zmetadata")
    assert "not a regular file; found a pipe" in run("inspect", source).out
    assert migrate(source, tmp_path / "out.zarr").code == 0
    assert_good(tmp_path / "out.zarr")


@pytest.mark.parametrize("kind", PUT)
def test_an_archive_that_is_no_file_is_refused(tmp_path: Path, kind: str) -> None:
    PUT[kind](tmp_path / "source.zarr")
    for command in (["inspect"], ["migrate", "--dry-run"], ["migrate"]):
        ran = run(*command, tmp_path / "source.zarr", *[tmp_path / "out.zarr"] * (command != ["inspect"]))
        assert (ran.code, kind in ran.err) == (2, True), ran


def test_a_job_file_that_is_no_file_is_refused(source: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "out.zarr.zarrlift.db")
    ran = run("migrate", source, tmp_path / "out.zarr")
    assert (ran.code, "found a pipe" in ran.err) == (1, True), ran


# A pointer of Git LFS or git-annex in the place of a file that was not fetched is called one.


LFS = (
    b"version https://git-lfs.github.com/spec/v1\n"
    b"oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\n"
    b"size 12345\n"
)
ANNEX = b"/annex/objects/SHA256E-s12345--4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\n"
A_LINKS_TEXT = b"../../.git/annex/objects/Gz/4v/MD5E-s5--d8e8fca2dc0f896fd7cb4cb0031ba249/MD5E-s5--d8e8"
POINTERS = {
    "git-lfs": (LFS, "a Git LFS pointer", "git lfs pull"),
    "git-annex": (ANNEX, "a git-annex pointer", "git annex get"),
    "git-annex, no links": (A_LINKS_TEXT, "a git-annex pointer", "git annex get"),
}
each_pointer = pytest.mark.parametrize(("text", "what", "command"), POINTERS.values(), ids=POINTERS)


@pytest.fixture
def two_arrays(tmp_path: Path) -> Path:
    """An archive with two arrays, /bad and /good."""
    place = tmp_path / "source.zarr"
    for name in ("bad", "good"):
        write_array(place / name, {"0": GOOD.tobytes()}, shape=[8], chunks=[8])
    (place / ".zgroup").write_text('{"zarr_format": 2}')
    return place


@each_pointer
def test_a_chunk(text: bytes, what: str, command: str, two_arrays: Path, tmp_path: Path) -> None:
    (two_arrays / "bad/0").write_bytes(text)
    ran = migrate(two_arrays, tmp_path / "out.zarr")
    (told,) = ran.refusals
    assert (told["kind"], told["node"], told["key"]) == ("chunk", "bad", "bad/0")
    assert what in told["message"]
    assert command in told["advice"]
    assert ran.code == 1
    assert read(tmp_path / "out.zarr/good").tolist() == GOOD.tolist()


@pytest.mark.slow(one_in=5)
@each_pointer
@pytest.mark.parametrize("name", [".zarray", ".zattrs"])
def test_a_document(
    name: str, text: bytes, what: str, command: str, two_arrays: Path, tmp_path: Path
) -> None:
    (two_arrays / "bad" / name).write_bytes(text)
    for ran in (
        run("migrate", "--dry-run", two_arrays, tmp_path / "out.zarr", "--json"),
        run("inspect", two_arrays, "--json"),
    ):
        told = json.dumps(json.loads(ran.out))
        assert f"{what} is stored in the place of the document" in told
        assert command in told


@pytest.mark.parametrize("name", [".zgroup", "zarr.json", "attributes.json", "meta"])
def test_the_document_that_would_tell_the_format(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(LFS)
    assert "a Git LFS pointer is stored in" in run("inspect", tmp_path).err + run("inspect", tmp_path).out


def test_the_first_chunk_of_arrays_by_an_old_writer(tmp_path: Path) -> None:
    """Whatever the codecs make of a pointer: its name is told in the place of what they say."""
    expected = archive("zarr_v2/zarr-2.18/codecs")
    place = copied(expected.path, tmp_path / "codecs.zarr")
    first = {}
    for path in [*expected.arrays][::3]:
        names = sorted(file.name for file in (place / path).iterdir() if file.name[0].isdigit())
        first[path] = f"{path}/{names[0]}"
        (place / first[path]).write_bytes(LFS)
    recipe = zarrlift.Recipe(include=tuple(first))
    outcome = zarrlift.migrate(place, tmp_path / "out.zarr", recipe=recipe)
    assert {p.node: p.key for p in outcome.problems if "Git LFS pointer" in p.message} == first


def test_a_view_names_it_and_so_does_a_comparison(two_arrays: Path, tmp_path: Path) -> None:
    assert zarrlift.migrate(two_arrays, tmp_path / "out.zarr").ok
    (two_arrays / "bad/0").write_bytes(LFS)
    with pytest.raises(ChunkError, match="a Git LFS pointer is stored in the place of a chunk"):
        zarrlift.open(two_arrays)["bad"][:]
    report = zarrlift.verify(two_arrays, tmp_path / "out.zarr", full=True)
    assert any("Git LFS pointer" in problem.message for problem in report.problems)


@pytest.mark.parametrize(
    "data", [b"", b"version", b'{"version": "https://git-lfs.github.com/spec/v1"}', b"\x02\x01!\x04" * 64]
)
def test_what_is_no_pointer(data: bytes) -> None:
    assert pointer(data) is None


def test_where_nothing_is_an_archive_nothing_is_called_a_pointer(tmp_path: Path) -> None:
    (tmp_path / "meta").write_bytes(b"{")
    with pytest.raises(UsageError) as raised:
        zarrlift.inspect(tmp_path)
    assert "pointer" not in str(raised.value.problem.advice)


# Names of files that are not UTF-8, which Linux keeps: their nodes are refused, and the others migrated.

NAME = os.fsdecode(b"caf\xe9")


@pytest.fixture
def misnamed(tmp_path: Path) -> Path:
    """`good`; an array and a group with an array in it whose names are no text; a file and a stray chunk."""
    path = write_archive(tmp_path / "source.zarr")
    write_array(path / NAME, {"0": bytes(16)})
    write_array(path / f"g{NAME}" / "inner", {"0": bytes(16)})
    (path / f"g{NAME}/.zgroup").write_text('{"zarr_format": 2}')
    (path / NAME.upper()).write_bytes(b"file")
    (path / "good" / NAME).write_bytes(b"stray")
    return path


def test_a_name_that_is_not_utf8_keeps_back_its_node_alone(misnamed: Path, tmp_path: Path) -> None:
    destination = tmp_path / "out.zarr"
    ran = migrate(misnamed, destination, "--verbose")
    told = {problem["node"]: problem["kind"] for problem in ran.refusals}
    assert (ran.code, told) == (1, dict.fromkeys([NAME, f"g{NAME}", f"g{NAME}/inner"], "name"))
    assert_good(destination)
    assert "done: /good" in ran.err
    result = json.loads(run("status", destination, "--json").out)["result"]
    states = {array["path"]: array["state"] for array in result["arrays"]}
    assert states == {"good": "done", **dict.fromkeys([NAME, f"g{NAME}/inner"], "refused")}
    for command in (["inspect"], ["migrate", "--dry-run"]):
        assert r"caf\udce9" in run(*command, misnamed).out
    assert run("resume", destination).code == 1
    assert run("undo", "--yes", "--yes", destination).code == 0
    assert not destination.exists()


def test_the_places_themselves_may_have_such_names(misnamed: Path, tmp_path: Path) -> None:
    renamed = misnamed.rename(tmp_path / NAME)
    destination = tmp_path / f"{NAME}.out"
    outcome = zarrlift.migrate(renamed, destination, recipe=zarrlift.Recipe(exclude=("*caf*",)))
    assert outcome.ok, outcome.problems
    assert_good(destination)
    assert zarrlift.status(destination).state == "done"
    assert zarrlift.verify(destination).ok


# What an archive says is shown cut short, and what is not its own is not shown at all.


NUMBERS = list(range(100_000))
LONG: dict[str, dict[str, Any]] = {
    "a fill value of numbers": {"fill_value": NUMBERS},
    "a fill value of text": {"fill_value": "x" * 100_000},
    "a data type of many fields": {"dtype": [[f"f{i}", "<i4"] for i in range(5000)], "fill_value": None},
    "a codec's name": {"compressor": {"id": "x" * 100_000}},
    "a shape of texts": {"shape": ["x" * 100_000]},
}


@pytest.fixture
def with_long_text(tmp_path: Path) -> Path:
    """`good` alone."""
    return write_archive(tmp_path / "source.zarr")


@pytest.mark.parametrize("members", LONG.values(), ids=LONG)
@pytest.mark.slow(one_in=5)
def test_every_text_is_cut(with_long_text: Path, tmp_path: Path, members: dict[str, Any]) -> None:
    write_array(with_long_text / "bad", {}, **members)
    destination = tmp_path / "out.zarr"
    for words in (
        ["inspect", with_long_text],
        ["migrate", "--dry-run", with_long_text, destination],
        ["migrate", with_long_text, destination],
    ):
        ran = run(*words)
        assert len(ran.out + ran.err) < 8000, words[0]
    assert len(run("status", destination).out) < 8000
    assert_good(destination)


def test_a_problem_holds_no_long_text() -> None:
    text = "x" * 100_000
    problem = Problem(kind="metadata", message=text, found=text, expected=text, advice=text, node=text)
    assert len(problem.to_json()["found"]) < 1100
    assert len(str(problem)) < 6000
    assert problem.node == text, "which names the node"


def test_a_list_of_problems_names_each_of_them_and_shows_none_at_length() -> None:
    problems = [Problem(kind="usage", message=f"problem {n}", found="x" * 100_000) for n in range(30)]
    message = JoinedProblems.of([*problems, "y" * 100_000], before="several: ")
    said = str(UsageError(message).at(key="recipe.toml"))
    assert all(f"problem {n};" in said for n in range(30))
    assert len(said) < 31 * 1100


@pytest.mark.slow(one_in=3)
@pytest.mark.parametrize("name", [".zattrs", ".zgroup", ".zarray"])
def test_a_directory_in_the_place_of_a_document_is_no_absence(
    with_long_text: Path, tmp_path: Path, name: str
) -> None:
    write_array(with_long_text / "bad", {"0": bytes(16)})
    (with_long_text / "bad" / name).unlink(missing_ok=True)
    (with_long_text / "bad" / name).mkdir()
    ran = migrate(with_long_text, tmp_path / "out.zarr")
    told = [(p["node"], p["key"], p["found"]) for p in ran.refusals if p["kind"] == "storage"]
    assert (ran.code, told) == (1, [("bad", f"bad/{name}", "a directory")])
    assert_good(tmp_path / "out.zarr")


def test_consolidated_metadata_that_lies_elsewhere_is_not_read(with_long_text: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.json"
    secret.write_text('{"password": "hunter2"}')
    (with_long_text / ".zmetadata").symlink_to(secret)
    ran = run("inspect", with_long_text)
    assert "hunter2" not in ran.out
    assert "a link points outside the archive" in ran.out
    assert "hunter2" in run("inspect", with_long_text, "--follow-links").out
    assert migrate(with_long_text, tmp_path / "out.zarr").code == 0
    assert_good(tmp_path / "out.zarr")

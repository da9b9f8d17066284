"""Pipes, sockets and devices in the place of documents, archives and job files: refused, never waited for."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.damaged_archives import assert_good, migrate, run, write_archive, write_array


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

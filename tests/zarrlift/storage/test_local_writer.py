"""How objects get their names: one that is there is never missing for a moment."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from zarrlift.storage.local import writer as writing
from zarrlift.storage.local.storage import LocalStorage
from zarrlift.storage.local.writer import LocalWriter
from zarrstack.core.codecs.base import Buffer, HeadAndTail


class Anything:
    """A look that finds nothing wrong."""

    def check(self, ends: HeadAndTail) -> bool:
        return True

    def check_whole(self, data: Buffer) -> None:
        raise AssertionError


@pytest.fixture
def writer(tmp_path: Path) -> LocalWriter:
    (tmp_path / "source").write_bytes(b"a chunk")
    (tmp_path / "out").mkdir()
    return LocalWriter(LocalStorage(tmp_path / "out"), "0123abcd")


def test_a_name_of_the_same_file_is_left(
    writer: LocalWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A resume may link what an array that is visible already consists of."""
    os.link(tmp_path / "source", tmp_path / "out/0")
    for call in ("unlink", "replace", "rename"):
        monkeypatch.delattr(writing.os, call)
    assert writer.link(str(tmp_path / "source"), "0", Anything()) == 7


def test_a_link_replaces_another_file_at_once(
    writer: LocalWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "out/0"
    target.write_bytes(b"another")
    link = os.link

    def linked(source: str, name: str) -> None:
        assert target.exists()
        link(source, name)

    with monkeypatch.context() as patched:
        patched.setattr(writing.os, "link", linked)
        patched.setattr(writing.os, "unlink", lambda path: (path != str(target)) or pytest.fail("unlinked"))
        assert writer.link(str(tmp_path / "source"), "0", Anything()) == 7
    assert target.samefile(tmp_path / "source")
    writer.close()
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["0"]

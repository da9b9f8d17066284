"""DANDI's checksum: what zarr-checksum computes of the same directory, wherever the archive is."""

from __future__ import annotations

import json
import sys
import uuid
import zipfile
from pathlib import Path

import pytest
from tests.support import fixtures_index
from zarr_checksum import compute_zarr_checksum
from zarr_checksum.generators import yield_files_local

import zarrlift
from zarrlift.cli import main
from zarrlift.storage.open_storage import open_storage
from zarrlift.verification import dandi_checksum
from zarrstack.core.errors import UsageError

OCEAN = fixtures_index.archive("zarr-2.18/people/ocean").path


def theirs(place: Path) -> str:
    """As DANDI computes it."""
    return compute_zarr_checksum(yield_files_local(place)).digest


def files(place: Path) -> list[tuple[str, bytes]]:
    found = (file for file in place.rglob("*") if file.is_file())
    return [(file.relative_to(place).as_posix(), file.read_bytes()) for file in found]


def test_a_directory_a_zip_file_and_a_store_have_that_of_zarr_checksum(tmp_path: Path) -> None:
    expected = theirs(OCEAN)
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as packed:
        for key, data in files(OCEAN):
            packed.writestr(f"ocean.zarr/{key}", data)
    place = f"memory://{uuid.uuid4()}"
    open_storage(place, mode="w").put_many(files(OCEAN))
    assert {zarrlift.dandi_checksum(each) for each in (OCEAN, tmp_path / "a.zip", place)} == {expected}


def test_source_and_result_have_their_own(tmp_path: Path) -> None:
    assert zarrlift.migrate(OCEAN, tmp_path / "out.zarr").ok
    assert zarrlift.dandi_checksum(tmp_path / "out.zarr") == theirs(tmp_path / "out.zarr") != theirs(OCEAN)


def test_large_and_empty_objects_and_odd_names_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dandi_checksum, "_PIECE", 1000)
    place = tmp_path / "a.zarr"
    for name, data in {"x/0.0": bytes(2000), "x/1.0": bytes(2001), "x/.zarray": b"", "é ü/ß": b"1"}.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(data)
    assert zarrlift.dandi_checksum(place) == theirs(place)


def test_what_the_client_of_dandi_does_not_upload_does_not_count(tmp_path: Path) -> None:
    for name in ("x/0", ".git/config", "x/.datalad/y", ".gitattributes", ".dandi/z"):
        (tmp_path / "a.zarr" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "a.zarr" / name).write_bytes(b"1")
        if name == "x/0":
            expected = theirs(tmp_path / "a.zarr")
    assert zarrlift.dandi_checksum(tmp_path / "a.zarr") == expected


def test_the_command_prints_it_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["digest", str(OCEAN), "--dandi"]) == 0
    assert capsys.readouterr().out == theirs(OCEAN) + "\n"
    assert main(["digest", str(OCEAN), "--dandi", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["result"] == {"dandi": theirs(OCEAN)}
    assert main(["digest", str(OCEAN), "--dandi", "-o", "x"]) == 2


def test_what_has_none_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="nothing to compute a checksum of"):
        zarrlift.dandi_checksum(tmp_path / "empty")
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked/x").symlink_to(OCEAN)
    with pytest.raises(UsageError, match="a link to a directory"):
        zarrlift.dandi_checksum(tmp_path / "linked")
    monkeypatch.setitem(sys.modules, "zarr_checksum.tree", None)
    with pytest.raises(UsageError, match=r"not installed; expected zarr-checksum\. Install the extra dandi"):
        zarrlift.dandi_checksum(OCEAN)

"""A file that another program holds open, as a system reports it that lets nobody replace it (Windows)."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.job_archives import results, write_archive

import zarrlift
from zarrstack.system.this import System


@pytest.mark.parametrize("name", ["zarr.json", "0"])
def test_a_file_that_stays_open_fails_its_array_by_name_and_the_job_resumes(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, place, expected = (write_archive(tmp_path / f"{each}.zarr") for each in "abc")
    for each in (place, expected):
        zarrlift.migrate(source, each, overwrite=True)
    replace = System.replace

    def held(self: System, old: str, new: str, **named: int | None) -> None:
        if Path(new).name == name:  # and not a random name
            error = PermissionError(13, "used by another process", new)
            error.winerror = 32
            raise error
        replace(self, old, new, **named)

    with monkeypatch.context() as patched:
        patched.setattr(System, "replace", held)
        outcome = zarrlift.migrate(source, place, overwrite=True)
    assert not outcome.ok
    text = "".join(map(str, outcome.problems))
    assert name in text
    assert "used by another process" in text
    assert "Close the program that has the file open" in text
    assert zarrlift.resume(place).ok
    assert results(place) == results(expected)

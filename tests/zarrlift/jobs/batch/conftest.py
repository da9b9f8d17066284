"""A folder of small archives of all formats, one of them broken and one of them unreadable."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.support.fixtures_index import archive, bad_cases

SOUND = {
    "a/v2.zarr": "zarr-2.18/stores/directory",
    "a/v1.zarr": "zarr_v1/zarr-1.1/root",
    "b/n5.n5": "n5/zarr-2.18/store_root",
    "b/draft.zr3": "zarr_v3_draft/zarr-2.18/root_array",
    "zip.zarr.zip": "zarr-2.18/stores/zip",
}
BROKEN = "b/broken.zarr"
NOTHING = "nothing.zarr"


@pytest.fixture
def old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder; the working directory is its parent."""
    folder = tmp_path / "old"
    for name, fixture in SOUND.items():
        target, source = folder / name, archive(fixture).path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)
    broken = next(case for case in bad_cases() if case.damaged == ("bad",) and not case.readable)
    shutil.copytree(broken.path, folder / BROKEN)
    (folder / NOTHING).mkdir()
    monkeypatch.chdir(tmp_path)
    return folder

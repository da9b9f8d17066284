"""A directory that may not be read is named itself in the error."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from zarrlift.storage.open_storage import open_storage
from zarrstack.core.errors import StorageError

_NOBODY = 65534


@pytest.fixture
def unreadable() -> Iterator[Path]:
    """An N5 container without permissions, as a user sees it who is not root."""
    parent = Path(tempfile.mkdtemp())  # tmp_path is below directories of mode 700
    parent.chmod(0o755)
    root = parent / "a.n5"
    root.mkdir()
    (root / "attributes.json").write_text('{"n5": "4.0.0"}')
    open_storage(str(root))  # imports what it needs while this is still possible
    root.chmod(0)
    was_root = os.geteuid() == 0
    if was_root:
        os.seteuid(_NOBODY)
    try:
        yield root
    finally:
        if was_root:
            os.seteuid(0)
        root.chmod(0o755)
        shutil.rmtree(parent)


def test_an_unreadable_directory_is_named_itself(unreadable: Path) -> None:
    with pytest.raises(StorageError) as caught:
        open_storage(str(unreadable))
    text = str(caught.value)
    assert "cannot read the directory" in text
    assert f"{unreadable}: Permission denied" in text
    assert "data.mdb" not in text

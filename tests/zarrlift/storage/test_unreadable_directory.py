"""A directory that may not be read is named itself in the error."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.another_user import folder_anybody_may_enter, without_privileges

from zarrlift.storage.open_storage import open_storage
from zarrstack.core.errors import StorageError


@pytest.fixture
def unreadable() -> Iterator[Path]:
    """An N5 container without permissions, as a user sees it who is not root."""
    with folder_anybody_may_enter() as folder:
        root = folder / "a.n5"
        root.mkdir()
        (root / "attributes.json").write_text('{"n5": "4.0.0"}')
        open_storage(str(root))  # imports what it needs while this is still possible
        root.chmod(0)
        with without_privileges():
            yield root
        root.chmod(0o755)


def test_an_unreadable_directory_is_named_itself(unreadable: Path) -> None:
    with pytest.raises(StorageError) as caught:
        open_storage(str(unreadable))
    text = str(caught.value)
    assert "cannot read the directory" in text
    assert f"{unreadable}: Permission denied" in text
    assert "data.mdb" not in text

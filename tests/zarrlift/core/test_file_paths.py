"""Paths of files in URLs, which on Windows begin with a drive or a server."""

from __future__ import annotations

from pathlib import PureWindowsPath
from urllib.parse import unquote, urlsplit

import pytest

from zarrlift.core.node_paths import local_path


@pytest.mark.parametrize("path", ["C:\\old.zarr", "d:\\100 %\\\u00e9 #1.zarr", "\\\\server\\share\\a b"])
def test_the_url_of_a_file_names_it_on_windows(path: str) -> None:
    url = urlsplit(PureWindowsPath(path).as_uri())
    assert PureWindowsPath(local_path(unquote(url.path), url.netloc, windows=True)) == PureWindowsPath(path)


def test_a_drive_is_a_folder_elsewhere() -> None:
    assert local_path("/C:/data", windows=False) == "/C:/data"

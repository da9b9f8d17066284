r"""Commands in advice can be pasted into a shell, whatever characters a path has."""

from __future__ import annotations

import subprocess

import pytest

from zarrlift.jobs.command_line import command, quoted

NAMES = [
    "plain.zarr",
    "two words",
    "it's",
    "two\nlines",
    "tab\t's \\ end",
    "bell\x07",
    "left\u202eright",
    "\udcff",
]


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_a_shell_takes_a_quoted_path_back(name: str) -> None:
    shown = quoted(name)
    assert "\n" not in shown, "a line"
    done = subprocess.run(["bash", "-c", f"printf %s {shown}"], capture_output=True, check=True)
    assert done.stdout == name.encode("utf-8", "surrogateescape")


def test_a_path_that_needs_no_quotes_has_none() -> None:
    assert (
        command("verify", "/data/a.zarr", "my result.zarr") == "zarrlift verify /data/a.zarr 'my result.zarr'"
    )

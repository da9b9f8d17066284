"""What is suggested for a name that is not known."""

from __future__ import annotations

import pytest

from zarrstack.core.similar_names import did_you_mean, nearest

FILES = ("ocean3.zarr", "ocean.zarr", "ocean.n5", ".zgroup")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ocaen.zarr", "ocean.zarr"),
        ("ocean.zar", "ocean.zarr"),
        ("ocean", "ocean.n5"),
        ("ocean.n6", "ocean.n5"),
        (".zgrop", ".zgroup"),
        ("nothing.zarr", None),  # only the extension is shared
        ("ocean.is.deep.and.wide.zarr", None),
    ],
)
def test_the_most_similar_name_is_meant(name: str, expected: str | None) -> None:
    assert nearest(name, FILES) == expected


def test_without_names_none_is_meant() -> None:
    assert nearest("ocean", ()) is None


def test_a_known_name_is_no_mistake() -> None:
    assert did_you_mean("zstd", ("zstd", "zlib")) is None
    assert did_you_mean("zst", ("zstd", "zlib")) == "Did you mean 'zstd'?"

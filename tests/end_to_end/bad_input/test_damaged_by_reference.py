"""Every damaged archive by reference: what a copy keeps back is not referred to, all else is read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import zarr
from tests.support.damaged_archives import Ran, migrate, read
from tests.support.fixtures_index import FORMATS, GOOD, BadCase, bad_cases
from tests.support.virtual import opened_icechunk, opened_kerchunk

FORMS = {"icechunk://{}/repo": opened_icechunk, "{}/refs.json": opened_kerchunk}
CASES = tuple(case for name in FORMATS for case in bad_cases(name))


def kept_back(ran: Ran) -> set[str | None]:
    """The nodes of refusals; None for the archive as a whole."""
    return {problem.get("node") for problem in ran.refusals}


@pytest.mark.slow(one_in=199)
@pytest.mark.parametrize("form", FORMS, ids=["icechunk", "kerchunk"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_a_copy_keeps_back_is_not_referred_to(case: BadCase, form: str, tmp_path: Path) -> None:
    copied = migrate(case.path, tmp_path / "copy.zarr")
    destination = form.format(tmp_path)
    referred = migrate(case.path, destination, "--virtual")
    if copied.code == 2:
        assert referred.code == 2
        return
    assert referred.code == (1 if referred.refusals else 0)
    assert kept_back(copied) <= kept_back(referred)
    for node in ("good", *case.damaged):
        if (tmp_path / "copy.zarr" / node / "zarr.json").is_file() and node not in kept_back(referred):
            found = zarr.open(FORMS[form](destination, case.path), path=node, mode="r", zarr_format=3)
            if isinstance(found, zarr.Array) and found.nbytes < 1 << 20:  # not a sparse array of petabytes
                assert np.array_equal(found[...], read(tmp_path / "copy.zarr" / node))
                assert node != "good" or np.array_equal(found[...], GOOD)

"""The ordering faults of `seeded.py` still apply, so that its table stays true."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.zarrlift.jobs.faults.seeded import applied
from tests.zarrlift.jobs.faults.seeded_faults import FAULTS, Edit

ROOT = Path(__file__).parents[4]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_still_applies_and_names_tests_that_exist(fault) -> None:
    for name, source in applied(fault).items():
        assert source != (ROOT / name).read_text()
        compile(source, name, "exec")
    assert fault.tests
    for name in fault.tests:
        assert (ROOT / name).is_file()


def test_a_fault_whose_text_is_gone_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text("first()\nsecond()\n")
    assert Edit("module.py", "first()\n", "").applied(tmp_path) == "second()\n"
    with pytest.raises(ValueError, match="0 times"):
        Edit("module.py", "third()\n", "").applied(tmp_path)
    with pytest.raises(ValueError, match="2 times"):
        Edit("module.py", "()\n", "").applied(tmp_path)

"""A plug-in of pytest: writes down the outcome and the seconds of each phase of each test."""

from __future__ import annotations

import os

import pytest

_path = os.environ["MUTATION_TIMES"]
_file = None if "PYTEST_XDIST_WORKER" in os.environ else open(_path, "a", buffering=1)  # noqa: SIM115
"""Open from the start: some tests run as another user."""


@pytest.hookimpl
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """In the process in which the results come together."""
    if _file is not None:
        _file.write(f"{report.outcome}\t{report.duration}\t{report.nodeid}\n")

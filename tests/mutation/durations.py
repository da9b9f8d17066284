"""A plug-in of pytest: writes down the outcome and the seconds of each phase of each test."""

from __future__ import annotations

import os

import pytest


@pytest.hookimpl
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """In the process in which the results come together."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        with open(os.environ["MUTATION_TIMES"], "a") as file:
            file.write(f"{report.outcome}\t{report.duration}\t{report.nodeid}\n")

"""One test for many cases that share what is dear, such as a migration: all that fail are told together."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import pytest

Case = TypeVar("Case")


def try_each(cases: Iterable[Case], check: Callable[[Case], None]) -> None:
    """Try a check of every case, also once one has failed; each failure bears the name of its case.

    There must be a case: a test of none would pass whatever the code does.
    """
    failed: list[BaseException] = []
    count = 0
    for count, case in enumerate(cases, 1):  # noqa: B007
        try:
            check(case)
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001
            error.add_note(f"Case: {case}")
            failed.append(error)
    assert count, "there is no case to try"
    if failed:
        raise BaseExceptionGroup(f"{len(failed)} of {count} cases failed", failed)

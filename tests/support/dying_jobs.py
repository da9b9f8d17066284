"""Jobs that are killed after so many changes to their destination and their file."""

from __future__ import annotations

import os
from typing import Any

import pytest

from zarrlift.jobs.ledger.ledger import Job
from zarrlift.storage.local.storage import LocalStorage
from zarrlift.storage.local.writer import LocalWriter


class Killed(BaseException):
    """Ends a run as a kill does, without any of its code."""


def dying(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """From now on, the destination and the job take so many changes, and no more."""
    left = [after]

    def dies(owner: type, name: str) -> None:
        whole = getattr(owner, name)

        def wrapped(*given: Any, **named: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                raise Killed
            return whole(*given, **named)

        monkeypatch.setattr(owner, name, wrapped)

    for name in ("write", "copy", "link"):
        dies(LocalWriter, name)
    dies(LocalStorage, "delete")
    dies(Job, "commit")
    for name in ("replace", "rename"):
        dies(os, name)

"""The content of a claim: the process, or between two calls the job, that has a destination for itself."""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass
from typing import Any, Final

from ..storage.local.owner_process import OwnerProcess, State
from .job_array import Attempt

held: Final[set[str]] = set()
"""Tokens of the claims held by this process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimHolder:
    """The content of a claim."""

    token: str
    """Random, which makes every claim unique."""
    job: str
    """The job's id."""
    file: str
    """Path of the job file, on the host that made the claim."""
    since: float
    """Unix time in seconds."""
    replaced: str = ""
    """Digest of the claim that this one replaced."""
    lasting: bool = False
    """Whether a job in parts holds it between two calls, not a process."""
    owner: OwnerProcess
    attempt: Attempt | None = None

    def to_bytes(self) -> bytes:
        """The stored form."""
        return json.dumps(asdict(self), indent=1).encode() + b"\n"

    @classmethod
    def from_bytes(cls, data: bytes) -> ClaimHolder | None:
        """Inverse of `to_bytes`; None for any other content."""
        try:
            members: Any = json.loads(data)
            texts = {name: str(members[name]) for name in ("token", "job", "file", "replaced")}
            attempt = members.get("attempt")
            return cls(
                attempt=None if attempt is None else Attempt(**attempt),
                since=float(members["since"]),
                owner=OwnerProcess.from_json(members["owner"]),
                lasting=bool(members.get("lasting")),
                **texts,
            )
        except (ValueError, TypeError, KeyError):
            return None

    @property
    def state(self) -> State:
        """Whether the job that holds the claim is still running."""
        if self.lasting:
            return "ended"
        state = self.owner.state()
        if state == "unknown" and self.attempt is not None and self.attempt.is_over():
            return "ended"
        if state == "running" and self.owner.pid == os.getpid() and self.token not in held:
            return "ended"  # its release failed
        return state

    def __str__(self) -> str:
        since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(self.since))
        return f"{self.owner}, since {since}, job file {self.file}"

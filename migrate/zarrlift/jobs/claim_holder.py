"""The content of a claim: the process that has a destination for itself."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Self

from ..storage.local.owner_process import OwnerProcess, State

held: Final[set[str]] = set()
"""Tokens of the claims held by this process."""
_ATTEMPTS: Final = {"SLURM_JOB_ID": "SLURM_RESTART_COUNT", "AWS_BATCH_JOB_ID": "AWS_BATCH_JOB_ATTEMPT"}
"""Variables with the id of an element of a job array, which it keeps when it is started again, and with how
often that was (sbatch(1), "Output environment variables"; AWS Batch, "Job environment variables").
"""
_SCHEDULED: Final = (*_ATTEMPTS, "LSB_JOBID", "JOB_COMPLETION_INDEX")
"""Variables that schedulers set for every job."""


def is_scheduled() -> bool:
    """Whether a scheduler has started this process, and reports it if it dies."""
    return any(os.environ.get(name) for name in _SCHEDULED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One start of an element of a job array; a scheduler makes the next one when this one has ended."""

    element: str
    number: int

    @classmethod
    def of_this_process(cls, environment: Mapping[str, str] | None = None) -> Self | None:
        """That of this process; None without a scheduler, or if it does not count the starts."""
        variables = os.environ if environment is None else environment
        for name, counter in _ATTEMPTS.items():
            if element := variables.get(name):
                count = variables.get(counter, "0")
                cluster = variables.get("SLURM_CLUSTER_NAME", "")
                return cls(
                    element=f"{name}={element} {cluster}".strip(),
                    number=int(count) if count.isdecimal() else 0,
                )
        return None

    def is_over(self) -> bool:
        """Whether its element has been started again, as this process."""
        own = Attempt.of_this_process()
        return own is not None and own.element == self.element and own.number > self.number


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
                **texts,
            )
        except (ValueError, TypeError, KeyError):
            return None

    @property
    def state(self) -> State:
        """Whether the process that holds the claim is still running."""
        state = self.owner.state()
        if state == "unknown" and self.attempt is not None and self.attempt.is_over():
            return "ended"
        if state == "running" and self.owner.pid == os.getpid() and self.token not in held:
            return "ended"  # its release failed
        return state

    def __str__(self) -> str:
        since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(self.since))
        return f"{self.owner}, since {since}, job file {self.file}"

"""What a scheduler says of this process: its part of a job array, and how often it was started."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from zarrstack.core.errors import UsageError

VARIABLES: Final = {
    "SLURM_ARRAY_TASK_ID": "Slurm",
    "LSB_JOBINDEX": "LSF",
    "JOB_COMPLETION_INDEX": "Kubernetes",
    "AWS_BATCH_JOB_ARRAY_INDEX": "AWS Batch",
}
"""Environment variables with the index of a process in its job array, and who sets them."""
LSF: Final = ("LSB_JOBID", "LSF_ENVDIR")
"""In a job of LSF, and where its commands are set up (IBM Spectrum LSF, "Environment variables")."""


def part_index(part: int | str, environment: Mapping[str, str] | None = None) -> int:
    """The index of a part: a number, or for "auto" that of the job array; UsageError."""
    if part != "auto":
        return _number(part, "--part")
    variables = os.environ if environment is None else environment
    indexes = {name: variables[name] for name in VARIABLES if variables.get(name)}
    if indexes.get("LSB_JOBINDEX") == "0":  # LSF sets this for a job that is not an array
        del indexes["LSB_JOBINDEX"]
    if len(indexes) != 1:
        raise UsageError(
            "the index of this part is not known" if not indexes else "there is more than one index",
            found=", ".join(f"{name}={value}" for name, value in indexes.items()) or None,
            expected=f"one of {', '.join(VARIABLES)} in the environment",
            advice="Run this in a job array, or name the part: --part N.",
        )
    ((name, value),) = indexes.items()
    return _number(value, name) - (name == "LSB_JOBINDEX")  # indexes of LSF begin with 1


def has_lsf(environment: Mapping[str, str] | None = None) -> bool:
    """Whether this process runs in a job of LSF, or where LSF is set up."""
    variables = os.environ if environment is None else environment
    return any(variables.get(name) for name in LSF)


def _number(value: int | str, name: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise UsageError(
            f"{name} is not the index of a part", found=str(value), expected="a number, or auto"
        ) from None


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

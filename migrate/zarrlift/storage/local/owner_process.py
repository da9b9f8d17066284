"""Identifies the process that created an object, and whether it is still running.

Systems tell more or less, and nothing is guessed: a process is considered ended only if that is proven.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from functools import cache
from typing import Any, Self

from zarrstack.system.this import State, system

from ...core.json_fields import FieldsAsJSON


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerProcess(FieldsAsJSON):
    """One process on one host."""

    host: str
    machine: str
    """`/etc/machine-id`, or the address of a network card on other systems than Linux, which distinguishes
    hosts with the same name; "" if there is none.
    """
    boot: str
    """An id of the current boot; "" if unavailable."""
    namespace: str
    """The namespace of process ids: containers on one host may use equal ids."""
    pid: int
    started: str
    """Start of the process, because process ids are reused: in clock ticks since boot on Linux, in units of
    100 ns since 1601 on Windows.
    """

    @classmethod
    def of_this_process(cls) -> Self:
        """The running process."""
        return cls(**_own(os.getpid()))

    @classmethod
    def from_json(cls, data: Any) -> Self:
        """Inverse of `to_json`; ValueError for anything else."""
        if not isinstance(data, dict) or not data.keys() >= {*cls.__slots__}:
            raise ValueError("not an owner")
        return cls(pid=int(data["pid"]), **{name: str(data[name]) for name in cls.__slots__ if name != "pid"})

    @property
    def place(self) -> str:
        """A short identifier of its environment, equal for all processes that can observe each other."""
        text = f"{self.host}\n{self.machine}\n{self.namespace}"
        return hashlib.blake2b(text.encode(), digest_size=4).hexdigest()

    def state(self) -> State:
        """Whether the process is still running; "unknown" if it cannot be observed from here."""
        here = OwnerProcess.of_this_process()
        return "unknown" if self.place != here.place else state_of(self.pid, self.started, self.boot)

    def __str__(self) -> str:
        here = OwnerProcess.of_this_process()
        other_boot = self.place == here.place and self.boot != here.boot
        note = " (before it was restarted, or on another host of this name)" if other_boot else ""
        return f"process {self.pid} on {self.host or 'an unnamed host'}{note}"


def state_of(pid: int, started: str, boot: str) -> State:
    """Whether a process of this host is still running.

    "unknown" for another boot: the host was restarted, or this is another one of the same name and machine
    id, such as a clone of a virtual machine or a container of the same image.
    """
    if system.boot() != boot or not (boot or system.machine()):
        return "unknown"
    return system.state_of(pid, started)


@cache
def _own(pid: int) -> Any:
    """The fields of this process, with id `pid`; a forked copy has another id."""
    return {
        "host": system.host(),
        "machine": system.machine(),
        "boot": system.boot(),
        "namespace": system.namespace(),
        "pid": pid,
        "started": system.started(pid),
    }

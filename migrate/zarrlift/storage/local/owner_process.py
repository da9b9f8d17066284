"""Which process made something, and whether it still runs.

Read from Linux's `/proc` (proc(5)). Elsewhere less is known, and what is not known is never guessed: a
process whose end cannot be proven has not ended.
"""

from __future__ import annotations

import hashlib
import os
import sys
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, Self, TypeAlias

State: TypeAlias = Literal["running", "ended", "unknown"]

_STARTED: Final = 19
"""Place of `starttime` among the fields of `/proc/PID/stat` that follow the name; the first is the state."""
_ENDED: Final = frozenset("ZXx")
"""States of a process that has ended and whose parent has not asked for its exit code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """One process on one host."""

    host: str
    machine: str
    """`/etc/machine-id`, which tells hosts of one name apart; "" where there is none."""
    boot: str
    """The kernel's random name for the time since it was booted; "" where it gives none."""
    namespace: str
    """The process ids' namespace: containers on one host may use equal ids."""
    pid: int
    started: str
    """When the process began, in clock ticks since the boot: process ids are given again."""

    @classmethod
    def of_this_process(cls) -> Self:
        """The running process."""
        return cls(**_own(os.getpid()))

    @classmethod
    def from_json(cls, data: Any) -> Self:
        """The inverse of `to_json`; ValueError for anything else."""
        if not isinstance(data, dict) or not data.keys() >= {*cls.__slots__}:
            raise ValueError("not an owner")
        return cls(pid=int(data["pid"]), **{name: str(data[name]) for name in cls.__slots__ if name != "pid"})

    def to_json(self) -> dict[str, Any]:
        """All fields."""
        return asdict(self)

    @property
    def place(self) -> str:
        """A short word for where it runs: equal for all processes that can see each other."""
        text = f"{self.host}\n{self.machine}\n{self.namespace}"
        return hashlib.blake2b(text.encode(), digest_size=4).hexdigest()

    def state(self) -> State:
        """Whether the process still runs; "unknown" for one that cannot be seen from here."""
        here = Owner.of_this_process()
        return "unknown" if self.place != here.place else state_of(self.pid, self.started, self.boot)

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host or 'an unnamed host'}"


def state_of(pid: int, started: str, boot: str) -> State:
    """Whether a process of this host still runs, or of one like it before a reboot."""
    if sys.platform == "win32":  # where a signal of 0 is Ctrl-C
        return "running" if pid == os.getpid() else "unknown"
    if boot_id() != boot:
        return "ended"
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return "ended"
    except PermissionError:
        pass  # another user's
    except OverflowError:
        return "unknown"
    facts = _facts(pid)
    if facts is None or not started:
        return "running" if pid == os.getpid() else "unknown"
    return "ended" if facts[0] in _ENDED or facts[1] != started else "running"


@cache
def _own(pid: int) -> Any:
    """The fields of an owner that is this process, whose id is `pid`: a copy made by fork has another."""
    try:
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        namespace = ""
    if sys.platform == "win32":
        host = os.environ.get("COMPUTERNAME", "")
    else:
        host = os.uname().nodename
    return {
        "host": host,
        "machine": _content("/etc/machine-id"),
        "boot": boot_id(),
        "namespace": namespace,
        "pid": pid,
        "started": (_facts(pid) or ("", ""))[1],
    }


def boot_id() -> str:
    """The kernel's name for the time since this host was booted; "" where it gives none."""
    return _content("/proc/sys/kernel/random/boot_id")


def _facts(pid: int) -> tuple[str, str] | None:
    """State and start of a process; None where they cannot be read."""
    fields = _content(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return (fields[0], fields[_STARTED]) if len(fields) > _STARTED else None


def _content(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""

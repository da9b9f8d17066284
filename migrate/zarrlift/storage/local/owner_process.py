"""Identifies the process that created an object, and whether it is still running.

Reads Linux's `/proc` (proc(5)). Other systems provide less, and nothing is guessed: a process is considered
ended only if that is proven.
"""

from __future__ import annotations

import hashlib
import os
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, Self, TypeAlias

from ...core.json_fields import FieldsAsJSON

State: TypeAlias = Literal["running", "ended", "unknown"]

_STARTED: Final = 19
"""Index of `starttime` in the fields of `/proc/PID/stat` after the name; the first is the state."""
_ENDED: Final = frozenset("ZXx")
"""States of an ended process whose parent has not read its exit code."""
_QUERY, _INVALID_PARAMETER, _STILL_ACTIVE = 0x1000, 87, 259
"""Of Windows: the right to observe a process, the error if none has an id, the exit code of a running one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerProcess(FieldsAsJSON):
    """One process on one host."""

    host: str
    machine: str
    """`/etc/machine-id`, or the address of a network card on other systems than Linux, which distinguishes
    hosts with the same name; "" if there is none.
    """
    boot: str
    """The kernel's random id of the current boot; "" if unavailable."""
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
    if boot_id() != boot or not (sys.platform == "linux" or _own(os.getpid())["machine"]):
        return "unknown"
    if sys.platform == "win32":  # where signal 0 is Ctrl-C
        now = _started_on_windows(pid)
        return "unknown" if now is None or not started else "running" if now == started else "ended"
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return "ended"
    except PermissionError:
        pass  # another user's process
    except OverflowError:
        return "unknown"
    facts = _facts(pid)
    if facts is None or not started:
        return "running" if pid == os.getpid() else "unknown"
    return "ended" if facts[0] in _ENDED or facts[1] != started else "running"


@cache
def _own(pid: int) -> Any:
    """The fields of this process, with id `pid`; a forked copy has another id."""
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
        "machine": _content("/etc/machine-id") or _network_card(),
        "boot": boot_id(),
        "namespace": namespace,
        "pid": pid,
        "started": _started_on_windows(pid) or ""
        if sys.platform == "win32"
        else (_facts(pid) or ("", ""))[1],
    }


def _network_card() -> str:
    """The address of a network card, which no other host has; "" if there is none, and on Linux."""
    if sys.platform == "linux":
        return ""
    import uuid

    number = uuid.getnode()
    return "" if number >> 40 & 1 else f"{number:012x}"  # a number drawn at random has this bit


def _started_on_windows(pid: int) -> str | None:
    """The start of a running process, "" if no process has this id, None if it cannot be observed.

    https://learn.microsoft.com/windows/win32/api/processthreadsapi
    """
    if sys.platform != "win32":
        return None
    import ctypes

    system = ctypes.WinDLL("kernel32", use_last_error=True)
    system.OpenProcess.restype = ctypes.c_void_p
    handle = system.OpenProcess(_QUERY, False, pid)
    if not handle:
        return "" if ctypes.get_last_error() == _INVALID_PARAMETER else None
    process = ctypes.c_void_p(handle)
    times, code = (ctypes.c_uint64 * 4)(), ctypes.c_ulong()
    try:
        if not system.GetProcessTimes(process, *(ctypes.byref(times, 8 * number) for number in range(4))):
            return None
        if not system.GetExitCodeProcess(process, ctypes.byref(code)):
            return None
        return str(times[0]) if code.value == _STILL_ACTIVE else ""
    finally:
        system.CloseHandle(process)


def boot_id() -> str:
    """The kernel's id of the current boot; "" if unavailable."""
    return _content("/proc/sys/kernel/random/boot_id")


def _facts(pid: int) -> tuple[str, str] | None:
    """State and start of a process; None if unreadable."""
    fields = _content(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return (fields[0], fields[_STARTED]) if len(fields) > _STARTED else None


def _content(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""

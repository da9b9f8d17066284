"""Pickles of plain data, read without unpickling: nothing is imported, and nothing is called.

A pickle is a program (https://docs.python.org/3/library/pickle.html; opcodes: Lib/pickletools.py
of CPython 3.13). `read_array` runs the part of it that builds data and refuses everything else by
name: it knows a few names by heart (numpy's own, the reference dictionary of hdmf-zarr), builds
what they mean by itself, and looks nothing up. What the numbers inside claim is checked before
memory is taken for it.

Facts of the forms: numpy 1.26 and 2.2 (`ndarray.__reduce__`, `dtype.__reduce__`, `generic.__reduce__`),
hdmf-zarr 0.11 to 0.13 (`hdmf_zarr.utils.ZarrReference`, a subclass of dict), protocols 0 to 5.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import ChunkError, ZarrstackError
from .machine import Machine, kind_of
from .numpy_objects import StoredArray, refused
from .opcodes import REFUSED, STOP, TABLE


def read_array(data: bytes, *, items: int, memory: int) -> np.ndarray[Any, Any]:
    """The numpy array that a pickle holds, its items plain: str, bytes, numbers, None, dict, tuple.

    `items` is how many items it must have, `memory` how many bytes it may take on the way, roughly.
    UnsupportedError names what else a pickle asks for, whatever it would have done with it;
    ChunkError says that the bytes are damaged, or hold something else or another number of items.
    """
    try:
        result = _run(Machine(data, memory))
    except ZarrstackError:
        raise
    except (ValueError, TypeError, IndexError, KeyError, OverflowError, AttributeError) as error:
        # What a well-formed pickle cannot cause: stacks too short, memos that were never set, ...
        raise ChunkError("pickle: the payload is damaged", found=f"{error}"[:200]) from None
    array = result.finish() if isinstance(result, StoredArray) else result
    if not isinstance(array, np.ndarray):
        raise ChunkError(
            "pickle: the payload holds something else", found=kind_of(array), expected="an array"
        )
    if array.size != items:
        raise ChunkError(
            "pickle: the payload holds the wrong number of items", found=str(array.size), expected=str(items)
        )
    return array


def _run(machine: Machine) -> Any:
    """What is on the stack at the end."""
    data, table = machine.data, TABLE
    while True:
        opcode = data[machine.place]  # IndexError where the end is missing
        machine.place += 1
        if opcode == STOP:
            (result,) = machine.stack
            if machine.place != len(data):
                raise ValueError(f"{len(data) - machine.place} bytes behind the end")
            return result
        step = table.get(opcode)
        if step is None:
            raise refused(REFUSED.get(opcode, f"opcode 0x{opcode:02x}"))
        step(machine)
        if machine.left < 0:
            raise machine.too_much()

"""Parsing of pickles of plain data, without imports and without calls.

A pickle is a program (https://docs.python.org/3/library/pickle.html; opcodes: Lib/pickletools.py of CPython
3.13). `read_array` interprets the opcodes that build data and refuses all others by name: it recognises a few
names (numpy's, the reference dictionary of hdmf-zarr), builds the corresponding objects itself, and never
looks a name up. Sizes are checked before memory is allocated.

Facts of the forms: numpy 1.26 and 2.2 (`ndarray.__reduce__`, `dtype.__reduce__`, `generic.__reduce__`),
hdmf-zarr 0.11 to 0.13 (`hdmf_zarr.utils.ZarrReference`, a subclass of dict), protocols 0 to 5.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from zarrstack.core.errors import ChunkError, ZarrstackError

from .machine import Machine, kind_of
from .numpy_objects import StoredArray, refused
from .opcodes import REFUSED, STOP, TABLE


def read_array(data: bytes, *, items: int, memory: int) -> np.ndarray[Any, Any]:
    """Parse a pickled numpy array of plain items: str, bytes, numbers, None, dict, tuple.

    `items` is the required number of items, `memory` an approximate limit on the bytes allocated.
    UnsupportedError names anything else that a pickle contains, without executing it; ChunkError if the bytes
    are damaged, or are not an array with this number of items.
    """
    try:
        result = _run(Machine(data, memory))
    except ZarrstackError:
        raise
    except (ValueError, TypeError, IndexError, KeyError, OverflowError, AttributeError) as error:
        # Impossible for a well-formed pickle: stacks too short, memos that were never set, ...
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
    """Run the machine and return the top of its stack."""
    data, table = machine.data, TABLE
    while True:
        opcode = data[machine.place]  # IndexError if the end is missing
        machine.place += 1
        if opcode == STOP:
            (result,) = machine.stack
            if machine.place != len(data):
                raise ValueError(f"{len(data) - machine.place} bytes after the end")
            return result
        step = table.get(opcode)
        if step is None:
            raise refused(REFUSED.get(opcode, f"opcode 0x{opcode:02x}"))
        step(machine)
        if machine.left < 0:
            raise machine.too_much()

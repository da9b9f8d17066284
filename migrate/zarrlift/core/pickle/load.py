"""Parsing of pickles of plain data, without imports and without calls.

A pickle is a program (https://docs.python.org/3/library/pickle.html; opcodes: Lib/pickletools.py of CPython
3.13). `read_array` interprets the opcodes that build data and refuses all others by name: it recognises a few
names (numpy's, the reference dictionary of hdmf-zarr), builds the corresponding objects itself, and never
looks a name up. Sizes are checked before memory is allocated.

Facts of the forms: numpy 1.26 and 2.2 (`ndarray.__reduce__`, `dtype.__reduce__`, `generic.__reduce__`),
hdmf-zarr 0.11 to 0.13 (`hdmf_zarr.utils.ZarrReference`, a subclass of dict), protocols 0 to 5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from zarrstack.core.errors import ChunkError, ZarrstackError

from .machine import DICT, MARK, OBJECT, Machine, kind_of
from .numpy_objects import StoredArray, refused


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogatepass")


def _whole(raw: bytes) -> int | bool:
    if raw in (b"00", b"01"):  # False and True in protocol 0
        return raw == b"01"
    return int(raw.removesuffix(b"L"))


def _push_sized(size: int, make: Callable[[bytes], Any]) -> Callable[[Machine], None]:
    def step(machine: Machine) -> None:
        raw = machine.sized(size)
        machine.push(make(raw), OBJECT + len(raw))

    return step


def _push(make: Callable[[Machine], Any]) -> Callable[[Machine], None]:
    return lambda machine: machine.push(make(machine), OBJECT)


def _tuple(count: int) -> Callable[[Machine], None]:
    def step(machine: Machine) -> None:
        stack = machine.stack
        if len(stack) < count:
            raise ValueError("the stack is empty")
        items = tuple(stack[-count:])
        del stack[-count:]
        machine.push(items)

    return step


def _memoize(place: Callable[[Machine], int]) -> Callable[[Machine], None]:
    def step(machine: Machine) -> None:
        machine.spend(OBJECT)
        machine.memo[place(machine)] = machine.stack[-1]

    return step


def _recall(place: Callable[[Machine], int]) -> Callable[[Machine], None]:
    def step(machine: Machine) -> None:
        machine.push(machine.memo[place(machine)], 8)

    return step


def _marked_tuple(machine: Machine) -> None:
    items = tuple(machine.marked())
    machine.push(items, OBJECT + 8 * len(items))


def _float(machine: Machine) -> float:
    return float(np.frombuffer(machine.take(8), ">f8")[0])


def _short_text(machine: Machine) -> None:
    # These four take half of the time for a pickle of references, so they avoid helpers.
    data, place = machine.data, machine.place + 1
    end = place + data[place - 1]
    if end > len(data):
        raise ValueError("the payload is cut short")
    machine.place = end
    machine.left -= OBJECT
    machine.stack.append(data[place:end].decode("utf-8", "surrogatepass"))


def _memoize_next(machine: Machine) -> None:
    machine.left -= OBJECT
    machine.memo[len(machine.memo)] = machine.stack[-1]


def _recall_short(machine: Machine) -> None:
    machine.left -= 8
    machine.stack.append(machine.memo[machine.data[machine.place]])
    machine.place += 1


def _recall_long(machine: Machine) -> None:
    place = machine.place
    machine.left -= 8
    machine.stack.append(machine.memo[int.from_bytes(machine.data[place : place + 4], "little")])
    machine.place = place + 4


def _global(machine: Machine) -> None:
    module = _text(machine.line())
    machine.name(module, _text(machine.line()))


STOP: Final = ord(".")
TABLE: Final[Mapping[int, Callable[[Machine], None]]] = {
    0x80: lambda machine: _need(machine.number(1) <= 5, "a protocol after the fifth"),
    0x95: lambda machine: _need(machine.number(8) <= len(machine.data), "a frame beyond the end"),
    ord("("): lambda machine: machine.push(MARK, 8),
    ord("N"): lambda machine: machine.push(None, 8),
    0x88: lambda machine: machine.push(True, 8),
    0x89: lambda machine: machine.push(False, 8),
    ord("I"): _push(lambda machine: _whole(machine.line())),
    ord("L"): _push(lambda machine: int(machine.line().removesuffix(b"L"))),
    ord("J"): _push(lambda machine: machine.number(4, signed=True)),
    ord("K"): _push(lambda machine: machine.number(1)),
    ord("M"): _push(lambda machine: machine.number(2)),
    0x8A: _push_sized(1, lambda raw: int.from_bytes(raw, "little", signed=True)),
    ord("F"): _push(lambda machine: float(machine.line())),
    ord("G"): _push(_float),
    ord("V"): _push(lambda machine: machine.line().decode("raw-unicode-escape")),
    0x8C: _short_text,
    ord("X"): _push_sized(4, _text),
    0x8D: _push_sized(8, _text),
    ord("C"): _push_sized(1, bytes),
    ord("B"): _push_sized(4, bytes),
    0x8E: _push_sized(8, bytes),
    0x96: _push_sized(8, bytearray),
    ord("]"): _push(lambda _: []),
    ord("a"): lambda machine: machine.append([machine.stack.pop()]),
    ord("e"): lambda machine: machine.append(machine.marked()),
    ord("l"): _push(lambda machine: machine.marked()),
    ord(")"): lambda machine: machine.push((), 8),
    0x85: _tuple(1),
    0x86: _tuple(2),
    0x87: _tuple(3),
    ord("t"): _marked_tuple,
    ord("}"): lambda machine: machine.push({}, DICT),
    ord("d"): lambda machine: _filled(machine, machine.marked()),
    ord("s"): lambda machine: machine.set([machine.stack.pop(-2), machine.stack.pop()]),
    ord("u"): lambda machine: machine.set(machine.marked()),
    ord("c"): _global,
    0x93: lambda machine: machine.stack_name(),
    ord("R"): lambda machine: machine.reduce(),
    0x81: lambda machine: machine.new(),
    ord("b"): lambda machine: machine.build(),
    ord("p"): _memoize(lambda machine: int(machine.line())),
    ord("q"): _memoize(lambda machine: machine.number(1)),
    ord("r"): _memoize(lambda machine: machine.number(4)),
    0x94: _memoize_next,
    ord("g"): _recall(lambda machine: int(machine.line())),
    ord("h"): _recall_short,
    ord("j"): _recall_long,
}
REFUSED: Final[Mapping[int, str]] = {
    ord("0"): "POP", ord("1"): "POP_MARK", ord("2"): "DUP", ord("i"): "INST", ord("o"): "OBJ",
    ord("P"): "PERSID", ord("Q"): "BINPERSID", 0x82: "EXT1", 0x83: "EXT2", 0x84: "EXT4",
    0x8B: "LONG4", 0x8F: "EMPTY_SET", 0x90: "ADDITEMS", 0x91: "FROZENSET", 0x92: "NEWOBJ_EX",
    0x97: "NEXT_BUFFER", 0x98: "READONLY_BUFFER",
    ord("S"): "STRING", ord("T"): "BINSTRING", ord("U"): "SHORT_BINSTRING",
}  # fmt: skip
"""Opcodes that plain data never needs, named in error messages."""


def _need(condition: bool, otherwise: str) -> None:
    if not condition:
        raise ValueError(otherwise)


def _filled(machine: Machine, pairs: list[Any]) -> None:
    machine.push({}, DICT)
    machine.set(pairs)


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

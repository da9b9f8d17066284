"""The stack and the memo of the restricted unpickler, and the names that it recognises.

See `load`. Pickles can neither import names nor call functions here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from zarrstack.core.errors import ChunkError

from .numpy_objects import Dtype, Scalar, StoredArray, Unfinished, refused

MARK: Final = object()
OBJECT: Final = 64
"""Minimum bytes counted for any Python object (CPython 3.11: a list 56, a tuple 40 and more)."""
DICT: Final = 232


class _Known:
    """A name in a pickle, recognised and replaced by an object of this module."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


_RECONSTRUCT = _Known("_reconstruct")
_SCALAR = _Known("scalar")
_FROMBUFFER = _Known("_frombuffer")
_NDARRAY = _Known("ndarray")
_DTYPE = _Known("dtype")
_REFERENCE = _Known("ZarrReference")
_DICTIONARY = _Known("dict")
_NEWOBJ = _Known("__newobj__")
_RECONSTRUCTOR = _Known("_reconstructor")
_ENCODE = _Known("encode")
_BYTES = _Known("bytes")

_NAMES: Final[Mapping[tuple[str, str], _Known]] = {
    ("numpy.core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy._core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy.core.multiarray", "scalar"): _SCALAR,
    ("numpy._core.multiarray", "scalar"): _SCALAR,
    ("numpy.core.numeric", "_frombuffer"): _FROMBUFFER,
    ("numpy._core.numeric", "_frombuffer"): _FROMBUFFER,
    ("numpy", "ndarray"): _NDARRAY,
    ("numpy", "dtype"): _DTYPE,
    ("hdmf_zarr.utils", "ZarrReference"): _REFERENCE,
    ("builtins", "dict"): _DICTIONARY,
    ("__builtin__", "dict"): _DICTIONARY,
    ("copyreg", "__newobj__"): _NEWOBJ,
    ("copyreg", "_reconstructor"): _RECONSTRUCTOR,
    ("copy_reg", "_reconstructor"): _RECONSTRUCTOR,
    ("_codecs", "encode"): _ENCODE,
    ("builtins", "bytes"): _BYTES,
    ("__builtin__", "bytes"): _BYTES,
}
"""The recognised names. None is looked up: each has separate code below."""


class Machine:
    """The stack and the memo of one pickle, and the operations of its opcodes."""

    def __init__(self, data: bytes, memory: int) -> None:
        self.data = data
        self.place = 0
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.left = memory
        self.most = memory

    def too_much(self) -> ChunkError:
        """The error for a pickle that exceeds its memory limit."""
        return ChunkError(
            "pickle: the payload builds more than a chunk may hold", expected=f"at most {self.most} bytes"
        )

    # ----- reading

    def take(self, count: int) -> bytes:
        """Read a number of bytes."""
        end = self.place + count
        if count < 0 or end > len(self.data):
            raise ValueError("the payload is cut short")
        result = self.data[self.place : end]
        self.place = end
        return result

    def number(self, size: int, *, signed: bool = False) -> int:
        """Read a little-endian number of `size` bytes."""
        return int.from_bytes(self.take(size), "little", signed=signed)

    def line(self) -> bytes:
        """Read up to the end of the line."""
        end = self.data.index(b"\n", self.place)
        return self.take(end + 1 - self.place)[:-1]

    def sized(self, size: int) -> bytes:
        """Read bytes after their length, which takes `size` bytes."""
        return self.take(self.number(size))

    # ----- the stack

    def spend(self, size: int) -> None:
        """Count memory before it is allocated; ChunkError above the limit."""
        self.left -= size
        if self.left < 0:
            raise self.too_much()

    def push(self, value: Any, size: int = OBJECT) -> None:
        """Put a value on the stack."""
        self.spend(size)
        self.stack.append(value)

    def marked(self) -> list[Any]:
        """Pop all values down to the last mark, and the mark."""
        stack = self.stack
        place = len(stack) - 1
        while place >= 0 and stack[place] is not MARK:
            place -= 1
        if place < 0:
            raise ValueError("a mark is missing")
        values = stack[place + 1 :]
        del stack[place:]
        return values

    # ----- containers

    def append(self, values: list[Any]) -> None:
        """Extend the list on top of the stack."""
        target = self.stack[-1]
        if type(target) is not list:
            raise ValueError("an item for something that is not a list")
        self.spend(8 * len(values))
        target.extend(values)

    def set(self, pairs: list[Any]) -> None:
        """Add keys and values to the dictionary on top of the stack; keys must be str, as in references."""
        target = self.stack[-1]
        if type(target) is not dict or len(pairs) % 2:
            raise ValueError("a key for something that is not a dictionary")
        keys = pairs[::2]
        for key in keys:
            if type(key) is not str:
                raise refused(f"a dictionary with a key of type {kind_of(key)}")
        self.spend(64 * len(keys))
        target.update(zip(keys, pairs[1::2], strict=True))

    # ----- names, and substitutes for calls

    def name(self, module: str, name: str) -> None:
        """Push a known name; UnsupportedError for any other."""
        target = _NAMES.get((module, name))
        if target is None:
            raise refused(f"{module}.{name}")
        self.push(target)

    def stack_name(self) -> None:
        """Push a name from its two parts on the stack."""
        name, module = self.stack.pop(), self.stack.pop()
        if type(name) is not str or type(module) is not str:
            raise ValueError("a name that is not text")
        self.name(module, name)

    def reduce(self) -> None:
        """Push the object that a known name builds from its arguments."""
        arguments, function = self.stack.pop(), self.stack.pop()
        if type(arguments) is not tuple or not isinstance(function, _Known):
            raise refused(f"a call of {kind_of(function)}")
        self.push(self._called(function, arguments))

    def _called(self, function: _Known, arguments: tuple[Any, ...]) -> Any:
        if function is _RECONSTRUCT:
            kind, shape, code = arguments
            if kind is not _NDARRAY or shape != (0,) or code not in (b"b", "b"):
                raise refused(f"an array of {kind_of(kind)}")
            return StoredArray(self.spend, len(self.data))
        if function is _DTYPE:
            return Dtype.named(arguments)
        if function is _SCALAR:
            dtype, raw = arguments
            return Scalar.of(dtype, raw)
        if function is _FROMBUFFER:
            raw, dtype, shape, order = arguments
            array = StoredArray(self.spend, len(self.data))
            array.build((1, shape, dtype, order == "F", bytes(raw) if type(raw) is bytearray else raw))
            return array
        if function is _ENCODE:  # bytes, in protocols before 3
            text, encoding = arguments
            if type(text) is not str or encoding != "latin1":
                raise refused("_codecs.encode of something that is not bytes")
            self.spend(len(text))
            return text.encode("latin1")
        if function is _BYTES and arguments == ():  # empty bytes in the same protocols
            return b""
        if function is _RECONSTRUCTOR:
            kind, base, state = arguments
            if kind is not _REFERENCE or base is not _DICTIONARY or type(state) is not dict:
                raise refused(f"copyreg._reconstructor of {kind_of(kind)}")
            self.spend(DICT)
            return dict(state)
        if function is _NEWOBJ and len(arguments) == 1:
            return self._new(arguments[0])
        raise refused(f"a call of {kind_of(function)}")

    def new(self) -> None:
        """Push a new object of a known class without arguments: a reference."""
        arguments, kind = self.stack.pop(), self.stack.pop()
        if arguments != ():
            raise refused(f"an object of {kind_of(kind)} with arguments")
        self.push(self._new(kind))

    def _new(self, kind: Any) -> dict[str, Any]:
        if kind is not _REFERENCE:
            raise refused(f"an object of {kind_of(kind)}")
        return self._reference()

    def _reference(self) -> dict[str, Any]:
        self.spend(DICT)
        return {}

    def build(self) -> None:
        """Set the state of an array or of a dtype; a reference has none."""
        state = self.stack.pop()
        target = self.stack[-1]
        if isinstance(target, Unfinished):
            target.build(state)
        elif not (type(target) is dict and state in (None, {})):
            raise refused(f"a state for {kind_of(target)}")


def kind_of(value: Any) -> str:
    """The type of a value as a word; never its repr, which a malicious pickle can make endless."""
    return value.name if isinstance(value, _Known) else type(value).__name__

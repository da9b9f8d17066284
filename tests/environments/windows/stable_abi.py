"""Print the module definition of python3.dll, which forwards the stable ABI: `stable_abi.py LIBS/python3.lib`.

The symbols stand in the first member of the import library
(https://learn.microsoft.com/windows/win32/debug/pe-format#first-linker-member); data have an `__imp_` alone.
"""

import struct
import sys
from pathlib import Path

content = Path(sys.argv[1]).read_bytes()
size = int(content[8 + 48 : 8 + 58])
member = content[68 : 68 + size]
(count,) = struct.unpack_from(">I", member)
symbols = set(member[4 + 4 * count :].split(b"\0")[:count])
print("LIBRARY python3\nEXPORTS")
for symbol in sorted(symbols):
    if symbol.startswith(b"__imp_"):
        name = symbol.removeprefix(b"__imp_")
        print(f"  {name.decode()}=python313.{name.decode()}{'' if name in symbols else ' DATA'}")

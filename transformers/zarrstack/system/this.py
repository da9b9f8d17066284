"""The operating system of this process. What differs between systems stands beside this module only."""

from __future__ import annotations

import sys
from typing import Final

if sys.platform == "win32":
    from .windows import State
    from .windows import Windows as System
else:
    from .other import State

    if sys.platform == "linux":
        from .linux import Linux as System
    else:
        from .other import Posix as System

__all__ = ["State", "system"]
system: Final = System()

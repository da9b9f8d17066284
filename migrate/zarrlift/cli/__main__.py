"""`python -m zarrlift.cli`."""

from __future__ import annotations

from . import entry

if __name__ == "__main__":
    entry()

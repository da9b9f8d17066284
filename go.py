#!/usr/bin/env python3
"""Set up zarrlift in .venv and run it: `python3 go.py demo` or `python3 go.py test`.

Needs nothing but Python 3.11 or later and the package registry that pip is set up for.
Safe to run again: what is already installed is not installed twice.

    demo    migrate a real Zarr v2 archive and a real N5 container, and show the results
    test    run the tests, in a few minutes; `--all` runs the slow ones too, `--rest` only those,
            `--random` those that draw examples, with new ones (further arguments go to pytest)
    check   lint, type-check and build the docs, as CI does
    shell   say how to use the environment by hand

The environment lies in .venv, or where ZARRLIFT_VENV says. This file makes it and runs .ci/tasks.py in it. It keeps
to syntax that Python 2.7 can parse, so that an old Python gets one clear line instead of a SyntaxError.
"""


import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.abspath(__file__))
VENV = os.path.abspath(os.environ.get("ZARRLIFT_VENV") or os.path.join(ROOT, ".venv"))
PYTHON = os.path.join(VENV, "Scripts", "python.exe") if os.name == "nt" else os.path.join(VENV, "bin", "python")


def fail(text):
    """End with one line on stderr."""
    sys.stderr.write(text + "\n")
    sys.exit(2)


def works():
    """Whether the environment has a Python with pip, which a killed run or another machine may have left without."""
    try:
        with open(os.devnull, "r+") as null:
            return subprocess.call([PYTHON, "-c", "import pip"], stdin=null, stdout=null, stderr=null) == 0
    except OSError:
        return False


def main():
    """Make the environment if it is not there, and do in it what the first argument names."""
    if sys.version_info < (3, 11):
        fail(
            "zarrlift needs Python 3.11 or later, and this is Python %d.%d; if there is a newer one, "
            "run it with that: python3.11 go.py" % sys.version_info[:2]
        )
    if sys.argv[1:2] not in (["demo"], ["test"], ["check"], ["shell"]):
        print(__doc__)
        sys.exit(0 if sys.argv[1:] in (["-h"], ["--help"]) else 2)
    if sys.argv[1] != "test" and sys.argv[2:]:
        fail("go.py %s takes no further arguments" % sys.argv[1])
    if not works():
        print("Making %s with Python %d.%d ..." % ((VENV,) + sys.version_info[:2]))
        sys.stdout.flush()
        # Nothing but an environment is cleared.
        clear = ["--clear"] if os.path.exists(os.path.join(VENV, "pyvenv.cfg")) else []
        if subprocess.call([sys.executable, "-m", "venv"] + clear + [VENV]):
            fail("This Python makes no virtual environments; try another one, or install what it names above.")
    # Else every process would compile every module, and pytest's workers all of the tests.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [PYTHON, os.path.join(ROOT, ".ci", "tasks.py")] + sys.argv[1:]
    if os.name == "nt":  # where a process cannot become another one
        sys.exit(subprocess.call(command))
    os.execv(PYTHON, command)


if __name__ == "__main__":
    main()

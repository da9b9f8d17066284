#!/usr/bin/env python3
"""Set up zarrlift in .venv and run it: `python3 go.py demo` or `python3 go.py test`.

Needs nothing but Python 3.11 or later and the package registry that pip is set up for.
Safe to run again: what is already installed is not installed twice.

    demo    migrate a real Zarr v2 archive and a real N5 container, and show the results
    test    run the tests, in a few minutes; `--all` runs the slow ones too, `--rest` only those,
            `--random [SEED]` those that draw examples, with new ones (further arguments go to pytest)
    check   lint, type-check and build the docs, as CI does
    shell   say how to use the environment by hand

The environment lies in .venv, or where ZARRLIFT_VENV says. This file keeps to syntax that
Python 2.7 can parse, so that an old Python gets one clear line instead of a SyntaxError.
"""

from __future__ import print_function

import os
import random
import signal
import subprocess
import sys

OLDEST = (3, 11)
ROOT = os.path.dirname(os.path.abspath(__file__))
VENV = os.path.abspath(os.environ.get("ZARRLIFT_VENV") or os.path.join(ROOT, ".venv"))
BIN = os.path.join(VENV, "Scripts" if os.name == "nt" else "bin")
PYTHON = os.path.join(BIN, "python.exe" if os.name == "nt" else "python")
STACK = os.path.join(ROOT, "transformers")
OCEAN = os.path.join(ROOT, "fixtures", "zarr_v2", "zarr-2.18", "people", "ocean.zarr")
PYRAMIDS = os.path.join(ROOT, "fixtures", "n5", "java-3.5.1", "multiscale.n5.zip")
DEMO = os.path.join(ROOT, "demo")


def say(text):
    """One line to the user, at once: pip and pytest write to the same place."""
    print(text)
    sys.stdout.flush()


def fail(text):
    """End with one line on stderr."""
    sys.stderr.write(text + "\n")
    sys.exit(2)


def runs(python, module="sys"):
    """Whether this command is a new enough Python that has a module (pyenv's shims may not run)."""
    code = "import sys, %s; sys.exit(sys.version_info < %r)" % (module, OLDEST)
    try:
        with open(os.devnull, "r+") as null:
            return subprocess.call([python, "-c", code], stdin=null, stdout=null, stderr=null) == 0
    except OSError:
        return False


def need_new_python():
    """Go on with a newer Python from PATH, or say in one line what is missing."""
    if sys.version_info >= OLDEST:
        return
    text = "zarrlift needs Python 3.11 or later, and this is Python %d.%d" % sys.version_info[:2]
    for minor in range(20, OLDEST[1] - 1, -1):
        python = "python3.%d" % minor
        if runs(python):
            sys.stderr.write("%s; going on with %s.\n" % (text, python))
            sys.stderr.flush()
            sys.exit(subprocess.call([python, os.path.abspath(__file__)] + sys.argv[1:]))
    fail(text + "; no newer one was found on PATH.")


def call(*command):
    """Run a command at the root; gives its exit code."""
    return subprocess.call(list(command), cwd=ROOT)


def run(*command):
    """Run a command at the root; its failure is ours."""
    code = call(*command)
    if code:
        sys.exit(code if code > 0 else 1)


def run_tests(*arguments):
    """Run pytest, which ends with a summary where it is interrupted; its failure is ours."""
    # Else every process would compile every module, and pytest's workers all of the tests.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    child = subprocess.Popen([PYTHON, "-m", "pytest"] + list(arguments), cwd=ROOT)
    # Ctrl-C reaches pytest without us; we wait for what it says.
    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        signal.signal(signal.SIGINT, lambda *_: None)
    signal.signal(signal.SIGTERM, lambda number, _: child.send_signal(number))
    code = child.wait()
    if code:
        sys.exit(code if code > 0 else 1)


def zarrlift(*arguments):
    """Show a zarrlift command and run it."""
    shown = [os.path.relpath(word, ROOT) if os.path.isabs(word) else word for word in arguments]
    say("\n$ zarrlift " + " ".join(shown))
    run(os.path.join(BIN, "zarrlift"), *shown)


def make_venv():
    """Make the environment if it is not there."""
    if runs(PYTHON, "pip"):
        return
    say("Making %s with Python %d.%d ..." % ((VENV,) + sys.version_info[:2]))
    pipe = subprocess.PIPE
    # --clear: what a killed run or another machine left there is not worth keeping.
    child = subprocess.Popen([sys.executable, "-m", "venv", "--clear", VENV], stdout=pipe, stderr=pipe)
    child.communicate()
    if child.returncode:
        fail(
            "This Python cannot make virtual environments with pip in them; install the package "
            "python3-venv (Debian, Ubuntu) or another Python 3.11 or later."
        )


def pins():
    """The file with the versions the tests run with on this Python."""
    version = subprocess.check_output([PYTHON, "-c", "import sys; print(sys.version_info[1])"])
    name = "oldest.txt" if int(version) == OLDEST[1] else "newest.txt"
    return os.path.join(ROOT, "tests", "pins", name)


def install(extra):
    """Install zarrstack, zarrlift and what an extra needs, unless this was done with the same files before."""
    make_venv()
    wanted = ""
    described = [os.path.join(STACK, "zarrstack", "version.py")]
    described += [os.path.join(folder, "pyproject.toml") for folder in (STACK, ROOT)]
    for path in described + [pins()]:
        with open(path) as file:
            wanted += file.read()
    stamp = os.path.join(VENV, "zarrlift-%s.stamp" % (extra or "plain"))
    if os.path.exists(stamp):
        with open(stamp) as file:
            if file.read() == wanted:
                return
    say("Installing zarrlift%s ..." % (extra and " and what its %s needs" % extra))
    target = "%s[%s]" % (ROOT, extra) if extra else ROOT
    # The pip that comes with Python 3.11 takes ten seconds longer over what follows.
    run(PYTHON, "-m", "pip", "install", "--quiet", "pip>=26")
    # In one command: zarrlift requires zarrstack, which no registry has.
    both = ["--editable", STACK, "--editable", target]
    # --no-compile: what is imported is compiled then, a fraction of it.
    run(PYTHON, "-m", "pip", "install", "--quiet", "--no-compile", "--constraint", pins(), *both)
    with open(stamp, "w") as file:
        file.write(wanted)


SHOW = """
import sys, zarr, zarrlift

print("\\nWhat zarr-python 3 now sees in %s:" % sys.argv[1])
print(zarr.open_group(sys.argv[1], mode="r", zarr_format=3).tree())
print("\\nThe image in %s as OME-Zarr 0.5 readers find it:" % sys.argv[3])
image = zarr.open_group(sys.argv[3], mode="r", path="viewer/c0")
for level in image.attrs["ome"]["multiscales"][0]["datasets"]:
    scale = level["coordinateTransformations"][0]["scale"]
    print("  %s  %s voxels of %s micrometers" % (level["path"], image[level["path"]].shape, scale))
print("\\nThe same array read from %s as it lies, without converting it:" % sys.argv[2])
old = zarrlift.open(sys.argv[2])["viewer/c0/s0"]
print("  %s\\n  equal to the result: %s" % (old, (old[:] == image["s0"][:]).all()))
"""


def demo():
    """Migrate an xarray dataset of the Zarr v2 days and images in N5, and show the results."""
    install("")
    import shutil
    import zipfile

    shutil.rmtree(DEMO, ignore_errors=True)
    ocean, ocean_v3 = os.path.join(DEMO, "ocean.zarr"), os.path.join(DEMO, "ocean-v3.zarr")
    shutil.copytree(OCEAN, ocean)
    zarrlift("inspect", ocean)
    zarrlift("migrate", ocean, ocean_v3)
    zarrlift("verify", ocean, ocean_v3, "--full")
    images, images_v3 = os.path.join(DEMO, "images.n5"), os.path.join(DEMO, "images-v3.zarr")
    with zipfile.ZipFile(PYRAMIDS) as packed:
        packed.extractall(images)
    zarrlift("migrate", images, images_v3, "--include", "viewer", "--set", "multiscale=ome")
    zarrlift("verify", images, images_v3, "--full")
    run(PYTHON, "-c", SHOW, *[os.path.relpath(path, ROOT) for path in (ocean_v3, images, images_v3)])


def test(*arguments):
    """Run the suite, or the part that the arguments name."""
    install("test")
    words, chosen = list(arguments), []
    for word in ("--all", "--rest"):
        if word in words:
            words.remove(word)
            chosen += [word]
    if "--random" in words:
        place = words.index("--random")
        words.pop(place)
        seed = words.pop(place) if "".join(words[place : place + 1]).isdigit() else str(random.randrange(10**9))
        say("Random examples with seed " + seed)
        chosen += ["--random", seed]
    # worksteal: neighbours run in one process, which then migrates for them once, and none idles at the end.
    run_tests(*(chosen + (words or ["-q", "-n", "auto", "--dist", "worksteal"])))


def check():
    """What CI looks at besides the tests."""
    install("dev")
    os.environ.setdefault("NO_MKDOCS_2_WARNING", "1")  # an advertisement, not a warning about our pages
    site = os.environ.get("ZARRLIFT_SITE") or os.path.join(VENV, "site")
    # All of them, so that one round shows everything.
    codes = [
        call(PYTHON, "-m", "ruff", "check", "--output-format", "concise", "."),
        call(PYTHON, "-m", "mypy"),
        # What Windows has not is used nowhere; a cache of its own, since the two would undo each other's.
        call(PYTHON, "-m", "mypy", "--platform", "win32", "--cache-dir", ".mypy_cache/win32"),
        # With --quiet, --strict would see no warning.
        call(PYTHON, "-m", "mkdocs", "build", "--strict", "--site-dir", site),
    ]
    sys.exit(1 if any(codes) else 0)


def shell():
    """Say where things are."""
    install("")
    say("zarrlift is at %s" % os.path.join(BIN, "zarrlift"))
    say("To have it on your PATH: . %s" % os.path.join(BIN, "activate"))


def main():
    """Do what the first argument names."""
    need_new_python()
    commands = {"demo": demo, "test": test, "check": check, "shell": shell}
    if len(sys.argv) < 2 or sys.argv[1] not in commands:
        say(__doc__)
        sys.exit(0 if sys.argv[1:] in (["-h"], ["--help"]) else 2)
    if sys.argv[1] != "test" and sys.argv[2:]:
        fail("go.py %s takes no further arguments" % sys.argv[1])
    try:
        commands[sys.argv[1]](*sys.argv[2:])
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()

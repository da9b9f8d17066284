#!/usr/bin/env python3
"""Set up zarrlift in .venv and run it: `python3 go.py demo` or `python3 go.py test`.

Needs nothing but Python 3.11 or later and the package registry that pip is set up for.
Safe to run again: what is already installed is not installed twice.

    demo    migrate a real Zarr v2 archive and a real N5 container, and show the results
    test    run the quick tests; `--all` runs the slow ones too, `--rest` only those, `--random` those
            that draw examples, with new ones (further arguments go to pytest)
    check   lint and check types; `--all` also checks types for other systems, looks for unused names
            and builds the docs, as CI does
    shell   say how to use the environment by hand

The environment is in .venv, or where ZARRLIFT_VENV says. This file makes it and runs itself in it. It keeps
to syntax that Python 3.6 can parse, so that an old Python gets one clear line instead of a SyntaxError.
"""

import os
import random
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

if sys.version_info < (3, 11):
    sys.exit(
        "zarrlift needs Python 3.11 or later, and this is Python {}.{}; if there is a newer one, "
        "run it with that: python3.11 go.py".format(*sys.version_info[:2])
    )

ROOT = Path(__file__).resolve().parent
VENV = Path(os.environ.get("ZARRLIFT_VENV") or ROOT / ".venv").absolute()
BIN = VENV / ("Scripts" if os.name == "nt" else "bin")
PYTHON = BIN / ("python.exe" if os.name == "nt" else "python")

DEMO = Path("demo")
OCEAN = Path("fixtures", "zarr_v2", "zarr-2.18", "people", "ocean.zarr.zip")
PYRAMIDS = Path("fixtures", "n5", "java-3.5.1", "multiscale.n5.zip")
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
CHOICES = {
    "--all": ("-m", "not left_out", "--hypothesis-profile", "all"),
    "--rest": ("-m", "(slow or brought) and not left_out", "--hypothesis-profile", "all"),
    "--random": ("-m", "hypothesis", "--hypothesis-profile", "random"),
}
"""What `test` takes in place of pytest's own words; without one, pytest leaves out what is slow."""
CHECKS = (
    ("ruff", "check", "--output-format", "concise", "."),
    ("ruff", "format", "--check", "--quiet", "."),
    ("mypy",),
)
OTHER_CHECKS = (
    # What other systems lack is used nowhere; caches of their own, since they would undo each other's.
    ("mypy", "--platform", "win32", "--cache-dir", ".mypy_cache/win32"),
    ("mypy", "--platform", "darwin", "--cache-dir", ".mypy_cache/darwin"),
    ("vulture",),
    ("zizmor", "--offline", "--quiet", ".github"),
    # With --quiet, --strict would see no warning.
    ("mkdocs", "build", "--strict", "--site-dir", str(VENV / "site")),
)


def run(*words):
    """Run a program that must succeed; its exit code is ours."""
    code = subprocess.call([str(word) for word in words])
    if code:
        sys.exit(max(code, 1))


def become(*words):
    """Continue as another program."""
    if os.name == "nt":  # where a process cannot become another one
        sys.exit(subprocess.call([str(word) for word in words]))
    os.execv(str(words[0]), [str(word) for word in words])


def works():
    """Whether the environment has a Python with pip; a killed run may have left it without."""
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    try:
        return subprocess.call([str(PYTHON), "-c", "import pip"], **quiet) == 0
    except OSError:
        return False


def make_environment():
    """Make the environment, in place of one that does not work."""
    print("Making {} with Python {}.{} ...".format(VENV, *sys.version_info[:2]), flush=True)
    # Nothing but an environment is cleared.
    clear = ["--clear"] if (VENV / "pyvenv.cfg").exists() else []
    if subprocess.call([sys.executable, "-m", "venv", *clear, str(VENV)]):
        sys.exit(
            "This Python makes no virtual environments; try another one, or install what it names above."
        )


def install(extra):
    """Install both packages and what an extra needs, unless this was done with the same files before."""
    pins = Path("tests", "pins", "oldest.txt" if sys.version_info[:2] == (3, 11) else "newest.txt")
    projects = (Path("transformers", "pyproject.toml"), Path("pyproject.toml"))
    files = (Path("transformers", "zarrstack", "version.py"), *projects, pins)
    wanted = "".join(path.read_text(encoding="utf-8") for path in files)
    stamp = VENV / f"zarrlift-{extra or 'plain'}.stamp"
    if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
        return
    needs = f" and what its {extra} needs" if extra else ""
    print(f"Installing zarrlift{needs} ...", flush=True)
    pip = (PYTHON, "-m", "pip", "install", "--quiet")
    # The pip that comes with Python 3.11 takes ten seconds longer over what follows.
    run(*pip, "pip>=26")
    # In one command: zarrlift requires zarrstack, which no registry has.
    both = ("--editable", "transformers", "--editable", f".[{extra}]" if extra else ".")
    # --no-compile: what is imported is compiled then, a fraction of it.
    run(*pip, "--no-compile", "--constraint", pins, *both)
    stamp.write_text(wanted, encoding="utf-8")


def demo():
    """Migrate an xarray dataset of the Zarr v2 days and images in N5, and show the results."""
    install("")

    def zarrlift(*words):
        print("\n$ zarrlift", *words, flush=True)
        run(BIN / "zarrlift", *words)

    shutil.rmtree(DEMO, ignore_errors=True)
    names = ("ocean.zarr", "ocean-v3.zarr", "images.n5", "images-v3.zarr")
    ocean, ocean_v3, images, images_v3 = (DEMO / name for name in names)
    for packed, place in ((OCEAN, ocean), (PYRAMIDS, images)):
        with zipfile.ZipFile(packed) as archive:
            archive.extractall(place)
    zarrlift("inspect", ocean)
    zarrlift("migrate", ocean, ocean_v3)
    zarrlift("verify", ocean, ocean_v3, "--full")
    zarrlift("migrate", images, images_v3, "--include", "viewer", "--set", "multiscale=ome")
    zarrlift("verify", images, images_v3, "--full")
    run(PYTHON, "-c", SHOW, ocean_v3, images, images_v3)


def for_pytest(arguments):
    """The arguments of `test` as pytest takes them; without others, it uses all cores."""
    words = [word for word in arguments if word not in CHOICES]
    chosen = [word for name, given in CHOICES.items() if name in arguments for word in given]
    if "--random" in arguments and not any(word.startswith("--hypothesis-seed") for word in words):
        seed = random.randrange(10**9)
        print("To draw the same examples: --hypothesis-seed", seed, flush=True)
        chosen += ["--hypothesis-seed", str(seed)]
    # worksteal: neighbours run in one process, which then migrates for them once, and none idles at the end.
    return [*chosen, *(words or ["-q", "-n", "auto", "--dist", "worksteal"])]


def test(*arguments):
    """Run the suite, or the part that the arguments name."""
    install("test")
    become(PYTHON, "-m", "pytest", *for_pytest(arguments))


def check(*arguments):
    """Lint and check types; with `--all`, check what CI does besides the tests."""
    if arguments not in ((), ("--all",)):
        sys.exit("go.py check takes no argument but --all")
    install("dev")
    os.environ.setdefault("NO_MKDOCS_2_WARNING", "1")  # an advertisement, not a warning about our pages
    # All of them, so that one round shows everything.
    checks = CHECKS + OTHER_CHECKS if arguments else CHECKS
    codes = [subprocess.call([str(BIN / words[0]), *words[1:]]) for words in checks]
    sys.exit(1 if any(codes) else 0)


def shell():
    """Say where things are."""
    install("")
    print(f"zarrlift is at {BIN / 'zarrlift'}")
    print(f"To have it on your PATH: . {BIN / 'activate'}")


TASKS = {"demo": demo, "test": test, "check": check, "shell": shell}


def main(*words):
    """Do what the first argument names, in the environment, which is made if it is not there."""
    if words[:1] not in {(name,) for name in TASKS}:
        print(__doc__)
        sys.exit(0 if words in (("-h",), ("--help",)) else 2)
    name, *arguments = words
    if name in ("demo", "shell") and arguments:
        sys.exit(f"go.py {name} takes no further arguments")
    # Else every process would compile every module, and pytest's workers all of the tests.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if not VENV.exists() or not os.path.samefile(sys.prefix, VENV):
        if not works():
            make_environment()
        become(PYTHON, ROOT / "go.py", *words)
    os.chdir(ROOT)
    TASKS[name](*arguments)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except KeyboardInterrupt:
        sys.exit(130)

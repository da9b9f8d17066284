"""What `go.py` runs in the environment that it has made: each task first installs what it needs, once."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
DEMO = Path("demo")
FIXTURES = Path("fixtures")
OCEAN = FIXTURES / "zarr_v2" / "zarr-2.18" / "people" / "ocean.zarr"
PYRAMIDS = FIXTURES / "n5" / "java-3.5.1" / "multiscale.n5.zip"
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


def run(*words: str | Path) -> None:
    """A program that must succeed; its exit code is ours."""
    if code := subprocess.call(list(words)):
        sys.exit(max(code, 1))


def become(*words: str) -> None:
    """Go on as another program."""
    if os.name == "nt":  # where a process cannot become another one
        sys.exit(subprocess.call(list(words)))
    os.execv(words[0], words)


def install(extra: str) -> None:
    """Install both packages and what an extra needs, unless this was done with the same files before."""
    pins = Path("tests", "pins", "oldest.txt" if sys.version_info[:2] == (3, 11) else "newest.txt")
    projects = (Path("transformers", "pyproject.toml"), Path("pyproject.toml"))
    files = (Path("transformers", "zarrstack", "version.py"), *projects, pins)
    wanted = "".join(path.read_text(encoding="utf-8") for path in files)
    stamp = Path(sys.prefix, f"zarrlift-{extra or 'plain'}.stamp")
    if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
        return
    print(f"Installing zarrlift{extra and f' and what its {extra} needs'} ...", flush=True)
    pip = (sys.executable, "-m", "pip", "install", "--quiet")
    # The pip that comes with Python 3.11 takes ten seconds longer over what follows.
    run(*pip, "pip>=26")
    # In one command: zarrlift requires zarrstack, which no registry has.
    both = ("--editable", "transformers", "--editable", f".[{extra}]" if extra else ".")
    # --no-compile: what is imported is compiled then, a fraction of it.
    run(*pip, "--no-compile", "--constraint", pins, *both)
    stamp.write_text(wanted, encoding="utf-8")


def demo() -> None:
    """Migrate an xarray dataset of the Zarr v2 days and images in N5, and show the results."""
    install("")

    def zarrlift(*words: str | Path) -> None:
        print("\n$ zarrlift", *words, flush=True)
        run(BIN / "zarrlift", *words)

    shutil.rmtree(DEMO, ignore_errors=True)
    ocean, ocean_v3, images, images_v3 = (
        DEMO / name for name in ("ocean.zarr", "ocean-v3.zarr", "images.n5", "images-v3.zarr")
    )
    shutil.copytree(OCEAN, ocean)
    with zipfile.ZipFile(PYRAMIDS) as packed:
        packed.extractall(images)
    zarrlift("inspect", ocean)
    zarrlift("migrate", ocean, ocean_v3)
    zarrlift("verify", ocean, ocean_v3, "--full")
    zarrlift("migrate", images, images_v3, "--include", "viewer", "--set", "multiscale=ome")
    zarrlift("verify", images, images_v3, "--full")
    run(sys.executable, "-c", SHOW, ocean_v3, images, images_v3)


CHOICES = {
    "--all": ("-m", "not left_out", "--hypothesis-profile", "all"),
    "--rest": ("-m", "(slow or brought) and not left_out", "--hypothesis-profile", "all"),
    "--random": ("-m", "hypothesis", "--hypothesis-profile", "random"),
}
"""What `go.py test` takes in place of pytest's own words; without one, pytest leaves out what is slow."""


def for_pytest(arguments: Sequence[str]) -> list[str]:
    """The arguments of `go.py test` as pytest takes them; without others, it runs on all cores."""
    words = [word for word in arguments if word not in CHOICES]
    chosen = [word for name, given in CHOICES.items() if name in arguments for word in given]
    if "--random" in arguments and not any(word.startswith("--hypothesis-seed") for word in words):
        seed = random.randrange(10**9)
        print("To draw the same examples: --hypothesis-seed", seed, flush=True)
        chosen += ["--hypothesis-seed", str(seed)]
    # worksteal: neighbours run in one process, which then migrates for them once, and none idles at the end.
    return [*chosen, *(words or ["-q", "-n", "auto", "--dist", "worksteal"])]


MEMORY = Path("/dev/shm")  # noqa: S108 - pytest makes a folder of its own there
"""Where 200,000 small files are made and removed, if it has 6 GB: a third of that is used at a time."""


def test(*arguments: str) -> None:
    """Run the suite, or the part that the arguments name."""
    install("test")
    if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > 6 << 30:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))
    become(sys.executable, "-m", "pytest", *for_pytest(arguments))


def check() -> None:
    """What CI looks at besides the tests."""
    install("dev")
    os.environ.setdefault("NO_MKDOCS_2_WARNING", "1")  # an advertisement, not a warning about our pages
    site = str(Path(sys.prefix, "site"))
    checks = (
        ("ruff", "check", "--output-format", "concise", "."),
        ("mypy",),
        # What other systems lack is used nowhere; caches of their own, since they would undo each other's.
        ("mypy", "--platform", "win32", "--cache-dir", ".mypy_cache/win32"),
        ("mypy", "--platform", "darwin", "--cache-dir", ".mypy_cache/darwin"),
        ("vulture", "migrate", "transformers", "tests/repository/called_by_name.py"),
        # With --quiet, --strict would see no warning.
        ("mkdocs", "build", "--strict", "--site-dir", site),
    )
    # All of them, so that one round shows everything.
    codes = [subprocess.call([sys.executable, "-m", *words]) for words in checks]
    sys.exit(1 if any(codes) else 0)


def shell() -> None:
    """Say where things are."""
    install("")
    print(f"zarrlift is at {BIN / 'zarrlift'}")
    print(f"To have it on your PATH: . {BIN / 'activate'}")


if __name__ == "__main__":
    os.chdir(ROOT)
    try:
        {"demo": demo, "test": test, "check": check, "shell": shell}[sys.argv[1]](*sys.argv[2:])
    except KeyboardInterrupt:
        sys.exit(130)

"""All benchmarks whose figures stand in the docs, one after the other.

    python benchmarks/everything.py [--environments FOLDER] [--directory /dev/shm] [--rounds 3] [--write]

Virtual environments for peers that need other versions than zarrlift are made in FOLDER, if they are not
there, and cargo builds zarrs_reencode; where that fails, for want of a Python, a package or cargo, the rows
of that peer are left out.
`object_store.py` runs where s3fs is installed.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).parent
ENVIRONMENTS = ("z5py", "rechunker")
"""Each has its pins in NAME.txt: numpy 1.26, so Python 3.11 or 3.12."""
ZARRS_TOOLS = ("zarrs_tools", "--version", "0.8.1", "--locked", "--features", "zarrs/zlib,zarrs/bz2")
"""What cargo builds zarrs_reencode from; zlib and bz2 are not among its default features."""


def python_for_them() -> str | None:
    """A Python that numpy 1.26 runs on: this one, or one from PATH."""
    for python in (sys.executable, "python3.11", "python3.12"):
        ask = "import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 12))"
        try:
            if subprocess.run((python, "-c", ask), check=False, stderr=subprocess.DEVNULL).returncode == 0:
                return python
        except OSError:
            continue
    return None


def environment(name: str, folder: Path) -> list[str]:
    """The option that names a peer's environment, which is made if need be; nothing if it cannot be."""
    place = folder / name
    pins = HERE / f"{name}.txt"
    done = place / "made.txt"
    if not done.exists() or done.read_text() != pins.read_text():
        python = python_for_them()
        if python is None:
            print(f"{name} is left out: it needs Python 3.11 or 3.12", file=sys.stderr)
            return []
        pip = (place / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        try:
            subprocess.run((python, "-m", "venv", "--clear", place), check=True)
            subprocess.run((*pip, "-r", pins), check=True)
        except subprocess.CalledProcessError as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
            return []
        done.write_text(pins.read_text())
    return [f"--{name}", str(place)]


def zarrs_reencode(folder: Path) -> list[str]:
    """The option that names the folder of zarrs_reencode, which is built once; nothing without cargo."""
    place = folder / "zarrs_reencode"
    done = place / "made.txt"
    if not done.exists() or done.read_text() != " ".join(ZARRS_TOOLS):
        if shutil.which("cargo") is None:
            print("zarrs_reencode is left out: it needs cargo", file=sys.stderr)
            return []
        try:
            subprocess.run(("cargo", "install", *ZARRS_TOOLS, "--root", place), check=True)
        except subprocess.CalledProcessError as error:
            print(f"zarrs_reencode is left out: {error}", file=sys.stderr)
            return []
        done.write_text(" ".join(ZARRS_TOOLS))
    return ["--zarrs_reencode", str(place)]


def main() -> None:
    """Make the environments, run the scripts; the exit code is 1 if one of them failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--environments", type=Path, default=HERE.parent / ".venv-benchmarks")
    parser.add_argument("--directory", default="/dev/shm")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="put figures and chart into docs/")
    asked = parser.parse_args()
    options = {name: environment(name, asked.environments) for name in ENVIRONMENTS}
    rust = zarrs_reencode(asked.environments)
    common = [*(["--write"] if asked.write else []), "--rounds", str(asked.rounds)]
    place = ["--directory", asked.directory]
    scripts = {
        "main_job.py": [*common, *place],
        "n5.py": [*common, *place, *options["z5py"]],
        "peers.py": [*common, *place, *options["z5py"], *options["rechunker"], *rust],
        # These count the fastest round, so they need more of them: their own number.
        "codecs.py": [],
        "layers.py": ["--write"] if asked.write else [],
    }
    if find_spec("s3fs"):
        scripts["object_store.py"] = common
    else:
        print("object_store.py is left out: s3fs is not installed", file=sys.stderr)
    failed = []
    for script, words in scripts.items():
        print(f"\n=== {script} {' '.join(words)}", flush=True)
        if subprocess.run((sys.executable, HERE / script, *words), check=False).returncode:
            failed.append(script)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()

"""release/Containerfile: its steps are run, in a Debian of the same release."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

import zarrlift

ROOT = Path(__file__).parents[2]
FILE = ROOT / "release" / "Containerfile"


class Step(NamedTuple):
    """An instruction and what follows it."""

    word: str
    rest: str


def steps() -> list[Step]:
    text = re.sub(r"(?m)^#.*\n", "", FILE.read_text()).replace("\\\n", "")
    return [Step(*line.split(" ", 1)) for line in text.splitlines() if line]


def test_what_is_copied_is_in_the_clone_and_what_an_image_starts_is_not_root() -> None:
    copied = [path for word, rest in steps() if word == "COPY" for path in rest.split()[:-1]]
    assert [path for path in copied if path[0] not in "-/" and not (ROOT / path).exists()] == []
    user = [rest for word, rest in steps() if word == "USER"]
    assert len(user) == 1
    assert int(user[0]) >= 1000  # a number: Kubernetes cannot look up a name for runAsNonRoot


def test_the_page_on_clusters_builds_the_image_that_it_starts() -> None:
    page = (ROOT / "docs" / "howto" / "cluster.md").read_text()
    [command] = re.findall(r"^podman build (.*)", page, re.MULTILINE)
    words = shlex.split(command)
    assert (ROOT / words[words.index("--file") + 1]) == FILE
    image = words[words.index("--tag") + 1]
    assert f"image: {image}\n" in page
    assert "EXTRAS" in {rest.partition("=")[0] for word, rest in steps() if word == "ARG"}


@pytest.mark.needs_reader("container")
@pytest.mark.slow
def test_the_steps_make_an_image_that_migrates(tmp_path: Path) -> None:
    """Both stages in one root, where what one copies from the other is in its place."""
    root = tmp_path / "root"
    root.mkdir()
    subprocess.run(["tar", "-C", root, "-xf", os.environ["ZARRLIFT_CONTAINER"]], check=True)
    # The network of this machine: names, certificates, settings of pip.
    shutil.copy("/etc/resolv.conf", root / "etc" / "resolv.conf")
    shutil.copytree("/etc/ssl/certs", root / "etc" / "ssl" / "certs", symlinks=False, dirs_exist_ok=True)
    variables = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    variables |= {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"}
    user, folder, start = "0", "/", []
    chroot = shutil.which("chroot")  # not where the image looks for programs

    def run(*words: str) -> str:
        line = [chroot, f"--userspec={user}:{user}", root, "env", "-C", folder, *words]
        done = subprocess.run(line, env=variables, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout

    for word, rest in steps():
        if word == "RUN":
            run("sh", "-c", rest)
        elif word in {"ARG", "ENV"}:
            name, _, value = rest.partition("=")
            variables[name] = value
        elif word == "COPY" and not rest.startswith("--from=build "):
            *sources, target = rest.split()
            for source in sources:
                place = root / (target.strip("/") + f"/{source}" * target.endswith("/"))
                place.parent.mkdir(parents=True, exist_ok=True)
                copy = shutil.copytree if (ROOT / source).is_dir() else shutil.copy
                copy(ROOT / source, place)
        elif word == "USER":
            user = rest
        elif word == "WORKDIR":
            folder = rest
        elif word == "ENTRYPOINT":
            start = json.loads(rest)
        else:
            assert word in {"FROM", "COPY", "CMD"}, word
    variables["HOME"] = folder
    assert run("id", "-u") == f"{user}\n"
    assert run(*start, "--version") == f"zarrlift {zarrlift.__version__}\n"
    run(*start, "demo")
    assert "Done:" in run(*start, "migrate", "zarrlift-demo/ocean.zarr", "new.zarr")
    assert "Equal." in run(*start, "verify", "zarrlift-demo/ocean.zarr", "new.zarr", "--full")
    run("/opt/zarrlift/bin/python", "-c", "import obstore")
    assert run("cat", "/opt/zarrlift/share/man/man1/zarrlift.1").startswith(".TH ZARRLIFT")

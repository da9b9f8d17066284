"""Runs every command on every archive in one process, with the zarrlift that this Python has, and records it.

    PYTHON lives.py REQUEST

`REQUEST` is a JSON file: the archives, the steps, a folder to work in and the file to write
(`oracle.py` writes it). The result has one JSON line per archive. Only the standard library and zarrlift are
imported: the installation under examination need not have what tests need.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import shutil
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any

JOB_FILE = ".zarrlift.db"
"""Part of the name of every job file; what it contains varies from run to run."""


def tree(folder: Path) -> dict[str, str]:
    """What is below a folder: name -> the digest of a file, the target of a link, "/" for a directory."""
    found: dict[str, str] = {}
    for path, folders, files in os.walk(os.fsencode(folder)):
        for name in sorted(folders + files):
            full = os.path.join(path, name)
            shown = os.path.relpath(full, os.fsencode(folder)).decode(errors="backslashreplace")
            if os.path.islink(full):
                found[shown] = "-> " + os.readlink(full).decode(errors="backslashreplace")
            elif os.path.isdir(full):
                found[shown] = "/"
            elif JOB_FILE in shown:
                found[shown] = "job"
            else:
                with open(full, "rb") as file:
                    found[shown] = hashlib.file_digest(file, "sha256").hexdigest()[:16]
    return dict(sorted(found.items()))


def run(words: list[str]) -> dict[str, Any]:
    """One command, as `zarrlift WORDS`."""
    from zarrlift.cli import main

    out, err = io.StringIO(), io.StringIO()
    code: int | str
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), warnings.catch_warnings():
            code = main(words)
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else str(stop.code)
    except BaseException:  # noqa: BLE001 - a crash is an answer that differs
        code = "crashed: " + traceback.format_exc()
    return {"code": code, "out": out.getvalue(), "err": err.getvalue()}


def live(archive: dict[str, str], lives: dict[str, list[dict[str, Any]]], work: Path) -> dict[str, Any]:
    """All lives of one archive, each on a copy of its own."""
    record: dict[str, Any] = {"archive": archive["name"], "lives": {}}
    for life, steps in lives.items():
        folder = work / "archive"
        folder.mkdir()
        kept = Path(archive["folder"])
        (shutil.copytree if kept.is_dir() else shutil.copy)(kept, folder / kept.name)
        source = os.path.join(kept.name, archive["inside"]) if archive["inside"] else kept.name
        os.chdir(folder)
        answers = []
        for step in steps:
            place = {"SRC": source, "DST": "new.zarr"}
            answer = run([place.get(word, word) for word in step["words"]])
            if step["tree"]:
                answer["tree"] = tree(folder)
            answers.append(answer)
        os.chdir(work)
        shutil.rmtree(folder)
        record["lives"][life] = answers
    return record


def main(request: Path) -> None:
    """Write one line per archive."""
    asked = json.loads(request.read_text())
    work = Path(asked["work"])
    with open(asked["result"], "w", encoding="utf-8") as file:
        for archive in asked["archives"]:
            record = live(archive, asked["lives"], work)
            text = json.dumps(record, ensure_ascii=True).replace(str(work), "WORK")
            file.write(text + "\n")
            file.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    # Threads of libraries may remain.
    sys.stdout.flush()
    os._exit(0)

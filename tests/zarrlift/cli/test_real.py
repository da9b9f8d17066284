"""The commands over real archives, from the first look to the last: nothing here is faked."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from tests.support.v2_trees import array

from zarrlift.cli import main


def write_array(root: Path, path: str, values: np.ndarray, chunk: int) -> None:
    """A one-dimensional Zarr v2 array with zlib, as zarr-python 2 writes it."""
    folder = root / path
    folder.mkdir(parents=True)
    zlib_1 = {"id": "zlib", "level": 1}
    document = array(shape=values.shape, chunks=[chunk], dtype=values.dtype.str, compressor=zlib_1)
    (folder / ".zarray").write_text(json.dumps(document))
    for number, start in enumerate(range(0, len(values), chunk)):
        padded = np.zeros(chunk, values.dtype)
        part = values[start : start + chunk]
        padded[: len(part)] = part
        (folder / str(number)).write_bytes(zlib.compress(padded.tobytes(), 1))


VALUES = np.arange(1000, dtype="<i4")


@pytest.fixture
def old(tmp_path: Path) -> Path:
    root = tmp_path / "old.zarr"
    root.mkdir()
    (root / ".zgroup").write_text('{"zarr_format": 2}')
    write_array(root, "a", VALUES, 64)
    write_array(root, "b/c", VALUES[:10] * 3, 7)
    (root / "b" / ".zgroup").write_text('{"zarr_format": 2}')
    return root


def contents(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def read(root: Path, path: str) -> np.ndarray:
    import zarr

    return zarr.open_array(str(root / path), mode="r", zarr_format=3)[:]


def test_from_the_first_look_to_the_comparison(old, capsys):
    new = old.with_name("new.zarr")
    before = contents(old)
    assert main(["inspect", str(old)]) == 0
    assert "zlib:1" in capsys.readouterr().out
    assert main(["migrate", "--dry-run", str(old), str(new)]) == 0
    assert "Nothing has been written." in capsys.readouterr().out
    assert not new.exists()
    assert main(["migrate", str(old), str(new)]) == 0
    out, err = capsys.readouterr()
    assert "Done: 2 arrays, 2 groups; 18 chunks" in out
    assert not err
    assert np.array_equal(read(new, "a"), VALUES)
    assert np.array_equal(read(new, "b/c"), VALUES[:10] * 3)
    assert main(["status", str(new)]) == 0
    assert "4 done" in capsys.readouterr().out
    assert main(["verify", str(old), str(new), "--full"]) == 0
    assert capsys.readouterr().out.startswith("Equal. Compared every value")
    assert contents(old) == before


@pytest.mark.parametrize("command", ["migrate", "resume"])
def test_a_finished_job_is_left_alone_and_says_so(command, old, capsys):
    new = old.with_name("new.zarr")
    main(["migrate", str(old), str(new)])
    before = contents(new)
    capsys.readouterr()
    assert main(["migrate", str(old), str(new)] if command == "migrate" else ["resume", str(new)]) == 0
    assert "Nothing to do" in capsys.readouterr().out
    assert contents(new) == before


def test_a_damaged_chunk_keeps_back_its_array_alone(old, capsys):
    new = old.with_name("new.zarr")
    whole = (old / "a" / "3").read_bytes()
    (old / "a" / "3").write_bytes(b"garbage")
    assert main(["migrate", str(old), str(new)]) == 1
    out, err = capsys.readouterr()
    assert "failed: /a, key 'a/3':" in err
    assert "a/3" not in out
    assert "zarrlift resume" in out
    assert not (new / "a" / "zarr.json").exists()
    assert np.array_equal(read(new, "b/c"), VALUES[:10] * 3)
    (old / "a" / "3").write_bytes(whole)
    assert main(["resume", str(new)]) == 0
    assert np.array_equal(read(new, "a"), VALUES)


def test_a_changed_value_is_found(old, capsys):
    new = old.with_name("new.zarr")
    main(["migrate", str(old), str(new), "--codecs", "none"])
    chunk = new / "b" / "c" / "c" / "0"
    chunk.write_bytes(b"\x01" + chunk.read_bytes()[1:])
    capsys.readouterr()
    assert main(["verify", str(old), str(new), "--full", "--json"]) == 1
    result = json.loads(capsys.readouterr().out)["result"]
    assert result["ok"] is False
    assert list(result["differences"]) == ["b/c"]


def test_in_place_there_and_back(old, capsys):
    before = contents(old)
    assert main(["migrate", str(old), "--in-place"]) == 0
    out = capsys.readouterr().out
    assert "zarrlift finish" in out
    assert "zarrlift undo" in out
    assert {name for name in contents(old).keys() - before.keys() if not name.endswith("zarr.json")} == set()
    assert np.array_equal(read(old, "a"), VALUES)
    assert main(["finish", "--yes", "--yes", str(old)]) == 1
    assert "verified" in capsys.readouterr().err
    assert main(["verify", str(old)]) == 0
    assert main(["finish", "--yes", "--yes", str(old)]) == 0
    assert not list(old.rglob(".zarray"))
    assert np.array_equal(read(old, "a"), VALUES)
    assert main(["undo", "--yes", "--yes", str(old)]) == 0
    assert contents(old) == before


def test_an_existing_destination_is_refused_unless_it_may_be_replaced(old, capsys):
    new = old.with_name("new.zarr")
    new.mkdir()
    (new / "precious").write_text("x")
    assert main(["migrate", str(old), str(new)]) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert contents(new) == {"precious": b"x"}
    assert main(["migrate", str(old), str(new), "--overwrite"]) == 0
    assert "precious" not in contents(new)


def test_a_place_without_an_archive_is_told_in_one_line(tmp_path, capsys):
    assert main(["inspect", str(tmp_path / "nowhere")]) == 2
    out, err = capsys.readouterr()
    assert not out
    assert err.count("\n") == 1


@pytest.mark.slow(one_in=2)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
def test_what_a_signal_leaves_can_be_resumed(number, tmp_path):
    old, new = tmp_path / "old.zarr", tmp_path / "new.zarr"
    values = np.random.default_rng(7).integers(0, 99, 400_000, dtype="<i4")
    write_array(old, "", values, 1000)
    # The first document of the job is seen by polling: a run tells nothing to a pipe.
    code = """
import os, sys, threading, time
from zarrlift.cli import main
def stop():
    while not os.path.exists(sys.argv[-1] + ".zarrlift.db"):
        time.sleep(0.001)
    os.kill(os.getpid(), NUMBER)
sys.argv[1:] = ["migrate", *sys.argv[1:]]
threading.Thread(target=stop, daemon=True).start()
sys.exit(main())
""".replace("NUMBER", str(int(number)))
    done = subprocess.run(
        [sys.executable, "-c", code, str(old), "--codecs", "zstd:19", str(new)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 130
    assert "zarrlift: interrupted. " in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (new / "zarr.json").exists()
    assert main(["resume", str(new), "--quiet"]) == 0
    assert np.array_equal(read(new, ""), values)

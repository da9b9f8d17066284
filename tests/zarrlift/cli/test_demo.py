"""`zarrlift demo`: what it writes is what other libraries read, and what it says to try works."""

from __future__ import annotations

import json
import shlex

import numpy as np
import pytest
import tensorstore
import xarray
import yaozarrs

from zarrlift.cli import main

ANSWERS = {"undo": ("--yes",)}
"""What a user would answer."""


def test_what_it_says_to_try_works(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["demo"]) == 0
    lines = capsys.readouterr().out.splitlines()
    commands = [shlex.split(line)[1:] for line in lines if line.startswith("  zarrlift ")]
    assert len(commands) > 5
    for words in commands:
        assert main([*words, *ANSWERS.get(words[0], ())]) == 0, words
    assert main(["demo"]) == 2
    assert "Give another name" in capsys.readouterr().err


@pytest.mark.slow
def test_others_read_it(tmp_path, capsys):
    assert main(["demo", str(tmp_path / "here"), "--json"]) == 0
    written = json.loads(capsys.readouterr().out)["result"]["written"]
    # Without dask, whose threads share what warnings are shown.
    with xarray.open_zarr(written["zarr2"], chunks=None) as ocean:
        assert dict(ocean.sizes) == {"time": 12, "lat": 90, "lon": 180}
        assert np.isnan(ocean.sst[0, 0, 0])
        assert 20 < float(ocean.sst.max()) < 40
    place = {"driver": "file", "path": f"{written['n5']}/cells/c0/s1"}
    image = tensorstore.open({"driver": "n5", "kvstore": place}).result()
    assert image.shape == (128, 96, 16)
    assert image.read().result().max() > 500
    yaozarrs.validate_zarr_store(written["ome"])

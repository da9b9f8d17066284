"""The reader in TypeScript follows docs/transformers/stored-format.md, and reads vectors and our arrays."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tests.zarrstack.layers import vectors
from tests.zarrstack.layers.test_vectors import DOCUMENTS, VECTORS, document_key
from zarr.codecs import GzipCodec
from zarr.storage import MemoryStore

import zarrstack

pytestmark = [pytest.mark.needs_reader("zarrita"), pytest.mark.needs_reader("typescript")]

SHARDS = zarrstack.Sharding(chunks_per_shard=[2, 3], index_codecs=[vectors.BIG, {"name": "crc32c"}])
STACKS = {
    "shards": [zarrstack.Sharding(chunks_per_shard=[2, 3])],
    "checksums above shards": [zarrstack.Checksum(), SHARDS],
    "checksums below shards": [SHARDS, zarrstack.Checksum()],
}
REGIONS = [[[0, 11], [0, 13]], [[3, 9], [2, 12]], [[10, 11], [12, 13]], [[4, 5], [0, 13]]]
DATA = np.arange(11 * 13, dtype="i4").reshape(11, 13)


@pytest.fixture(scope="module")
def ask(tmp_path_factory):
    """Compile the page's example with the reader, strictly; return a function that puts questions to it."""
    folder = tmp_path_factory.mktemp("reader")
    shutil.copy(vectors.FOLDER / "zarrstack.ts", folder)
    shutil.copy(Path(__file__).with_name("ask_typescript.mjs"), folder)
    page = (vectors.FOLDER.parent / "stored-format.md").read_text()
    (folder / "example.ts").write_text(page.rpartition("```text\n")[2].partition("```")[0])
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "node_modules").symlink_to(Path(os.environ["ZARRLIFT_ZARRITA"]) / "node_modules")
    compiler = Path(os.environ["ZARRLIFT_TYPESCRIPT"]) / "node_modules" / ".bin" / "tsc"
    words = "--strict --target es2022 --lib es2022,dom --module esnext --moduleResolution bundler".split()
    words = [compiler, *words, "example.ts"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout

    def put(questions):
        done = subprocess.run(
            ["node", "ask_typescript.mjs"],
            cwd=folder,
            input=json.dumps(questions),
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return put


def question(objects, document=None, *, path="a", keys=(), regions=(), alone=False):
    if document is not None:
        objects = {**objects, document_key(path): json.dumps(document).encode().hex()}
    return {"objects": objects, "path": path, "keys": [*keys], "regions": [*regions], "alone": alone}


def test_the_reader_agrees_with_each_vector(ask):
    questions = []
    for each in VECTORS.values():
        keys = each.get("chunks") or each["refused"]
        regions = [[[0, n] for n in each["document"]["shape"]]] if "values" in each else []
        questions.append(
            question(each["objects"], each["document"], path=each["path"], keys=keys, regions=regions)
        )
    for (name, each), found in zip(VECTORS.items(), ask(questions), strict=True):
        for key in each.get("refused", ()):
            assert all("refused" in part for part in (found["chunks"][key], *found["ranges"][key])), (
                name,
                key,
            )
        if "chunks" in each:
            assert found["chunks"] == each["chunks"], name
            parts = {key: [text and text[2:6], text and text[-2:]] for key, text in each["chunks"].items()}
            assert found["ranges"] == parts, name
        if "values" in each:
            assert found["regions"] == [each["values"]], name


def test_zarrita_alone_shows_wrong_values_as_the_page_states(ask):
    each = VECTORS["sharding: chunks and shards at the edges, a shard is absent"]
    (found,) = ask([question(each["objects"], each["document"], alone=True)])
    assert found["alone"] not in ([], each["values"])


def test_the_reader_refuses_the_documents_that_must_be_refused(ask):
    cases = DOCUMENTS["cases"]
    documents = [DOCUMENTS["base"] | each["change"] for each in cases]
    paths = [each.get("path", "a") for each in cases]
    found = ask([question({}, each, path=path) for each, path in zip(documents, paths, strict=True)])
    refused = [each["name"] for each, answer in zip(cases, found, strict=True) if "error" in answer]
    assert refused == [each["name"] for each in cases if each["may"] == "nothing"]


def written(layers):
    """What is stored of an array with absent chunks and a shard that is absent."""
    stored = {}
    array = zarrstack.create_array(
        MemoryStore(stored),
        name="a",
        shape=DATA.shape,
        chunks=(2, 3),
        dtype="i4",
        compressors=GzipCodec(),  # not zstd: node 20 may hang at its end after WebAssembly
        storage_transformers=layers,
    )
    expected = np.where(DATA % 7 == 0, 0, DATA)
    expected[4:6], expected[8:, :9] = 0, 0
    array[:] = expected
    return {key: value.to_bytes().hex() for key, value in stored.items()}, expected


@pytest.mark.parametrize("name", STACKS)
def test_the_reader_reads_ranges_across_shards_and_finds_damage(name, ask):
    objects, expected = written(STACKS[name])
    shards = [key for key in objects if "/c/" in key and not key.endswith(".crc32c")]
    assert 0 < len(shards) < 6, "a shard is absent"
    damages = []
    for key in shards:
        damages.append({**objects, key: objects[key][:-2]})
        damages.append({**objects, key: f"{objects[key][:-2]}{int(objects[key][-2:], 16) ^ 0x80:02x}"})
    found, *others = ask([question(each, regions=REGIONS) for each in (objects, *damages)])
    for (rows, columns), region in zip(REGIONS, found["regions"], strict=True):
        assert region == expected[slice(*rows), slice(*columns)].ravel().tolist()
    assert ("a/c/0/0" in found["whole"]) == (name == "checksums below shards"), "shards are read in ranges"
    assert all("refused" in other["regions"][0] for other in others)

"""Rooms import downwards only, no modules import each other in a circle, and start-up stays light.

Read from the source, not from what happens to be loaded: an import under TYPE_CHECKING is
knowledge of the other part too, and counts for the order (not for start-up).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = (ROOT / "transformers", ROOT / "migrate")

ROOMS = {
    "zarrstack.core": (
        "errors", "paths", "sizes", "similar_names", "json_text", "chunk_keys_v3", "crc32c", "shard_index",
    ),
    "zarrstack": (
        "version", "core", "errors", "system", "base", "layers", "decoded", "arrays", "testing", "",
    ),
    "zarrlift.core": (
        "node_paths", "units", "problems", "json_document", "frozen_json", "codec_spec",
        "codec_facts", "codec_members", "codec_table",
        "git_pointers", "identity_cache", "json_fields", "shapes",
        "data_types", "chain", "grid", "pickle", "codecs", "zarr_v2", "n5", "draft_v3",
        "format_table",
    ),
    "zarrlift": (
        "errors", "core", "storage", "recipe", "archive", "formats", "conventions", "planning",
        "models", "transfer", "verification", "views", "jobs", "report", "",
        "cli", "__main__",
    ),
}  # fmt: skip
"""Folders and modules of each package, from the lowest to the highest; "" is the package itself.

A room imports itself and those before it. zarrlift imports zarrstack, which knows nothing of it.
"""

IN_CORE_FORBIDDEN = {
    "asyncio", "fsspec", "glob", "http", "io", "os", "pathlib", "shutil", "socket", "sqlite3",
    "subprocess", "tempfile", "urllib", "zarr",
}  # fmt: skip
MADE_OF_ZARR = {
    "zarrlift.storage.containers.lmdb_file",
    "zarrlift.storage.local.layered_store",
    "zarrlift.storage.icechunk.storage",
    "zarrlift.storage.limited_storage",
    "zarrlift.storage.remote.storage_as_store",
    "zarrlift.views.legacy",
}
"""Modules that subclass what zarr defines; they are imported where they are used, like zarr itself."""
LAZY = {
    "zarr",
    "zarr_metadata",
    "pydantic",
    "pydantic_zarr",
    "jsonschema_rs",
    "tensorstore",
    "arro3",
    "obstore",
    "xarray",
    "dask",
    "distributed",
    "imagecodecs",
    "lmdb",
    "pcodec",
    "zfpy",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """One import as the source says it."""

    importer: str
    imported: str
    line: int
    at_start: bool
    """Runs when the module is loaded: outside functions and TYPE_CHECKING."""

    def __str__(self) -> str:
        return f"{self.importer}:{self.line} imports {self.imported}"


def modules() -> dict[str, Path]:
    """Dotted name and file of every module of both packages."""
    found = {}
    for source in SOURCES:
        for path in sorted(source.rglob("*.py")):
            parts = path.relative_to(source).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


@cache
def tree_of(name: str) -> ast.Module:
    """A module's source, parsed."""
    return ast.parse(MODULES[name].read_text())


def _imports_below(name: str, is_package: bool, node: ast.AST, at_start: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            continue  # no import stands in an expression
        starts = at_start and not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            starts = False
        if isinstance(child, ast.Import):
            for alias in child.names:
                yield Import(importer=name, imported=alias.name, line=child.lineno, at_start=at_start)
        elif isinstance(child, ast.ImportFrom):
            base = child.module or ""
            if child.level:
                parts = name.split(".")
                parts = parts[: len(parts) - child.level + is_package]
                base = ".".join((*parts, base)) if base else ".".join(parts)
            for alias in child.names:
                full = f"{base}.{alias.name}"
                target = full if full in MODULES else base
                yield Import(importer=name, imported=target, line=child.lineno, at_start=at_start)
        else:
            yield from _imports_below(name, is_package, child, starts)


@cache
def imports() -> tuple[Import, ...]:
    """Every import statement of both packages."""
    found: list[Import] = []
    for name, path in MODULES.items():
        found += _imports_below(name, path.name == "__init__.py", tree_of(name), at_start=True)
    return tuple(found)


def is_in(module: str, package: str) -> bool:
    """Whether a module is a package or lies in it."""
    return module == package or module.startswith(f"{package}.")


def room_of(module: str, package: str) -> str:
    """The folder or module directly below a package in which a module of it lies."""
    return module.removeprefix(package).removeprefix(".").split(".")[0]


@pytest.mark.parametrize("package", ROOMS)
def test_the_list_of_rooms_is_that_of_the_folders(package: str) -> None:
    inner = {room_of(module, package) for module in MODULES if is_in(module, package)}
    assert inner | {""} == {*ROOMS[package]} | {""}


@pytest.mark.slow
@pytest.mark.parametrize("package", ROOMS)
def test_rooms_import_downwards_only(package: str) -> None:
    order = ROOMS[package]
    wrong = []
    for found in imports():
        if found.imported not in MODULES or not (
            is_in(found.importer, package) and is_in(found.imported, package)
        ):
            continue
        importer, imported = room_of(found.importer, package), room_of(found.imported, package)
        if order.index(imported) > order.index(importer):
            wrong.append(f"{found} ({importer!r} stands below {imported!r})")
    assert wrong == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph: dict[str, set[str]] = {name: set() for name in MODULES}
    for found in imports():
        if found.imported in MODULES and found.imported != found.importer:
            graph[found.importer].add(found.imported)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


WITH_NAMES = {
    "zarrlift", "zarrlift.cli", "zarrlift.conventions", "zarrlift.models",
    "zarrstack", "zarrstack.layers.rekey", "zarrstack.testing",
}  # fmt: skip
"""Packages whose names are imported from themselves: they load them when asked for; rekey is one layer."""


def test_a_room_says_what_it_is_for_and_loads_nothing() -> None:
    rooms = {name for name, path in MODULES.items() if path.name == "__init__.py"}
    assert {name for name in rooms if not ast.get_docstring(tree_of(name))} == set()
    assert {name for name in rooms if len(tree_of(name).body) > 1} == WITH_NAMES


def test_zarrstack_knows_nothing_of_zarrlift() -> None:
    wrong = [
        str(found)
        for found in imports()
        if is_in(found.importer, "zarrstack") and found.imported.split(".")[0] == "zarrlift"
    ]
    assert wrong == []


def test_only_one_module_imports_what_zarr_does_not_make_public() -> None:
    private = ("zarr.core", "zarr.storage._common")
    found = {each.importer for each in imports() if any(is_in(each.imported, name) for name in private)}
    assert found == {"zarrstack.system.zarr_internals"}


@pytest.mark.slow
def test_the_tests_of_zarrstack_know_nothing_of_zarrlift() -> None:
    """With the modules of tests/support that they use: they pass where zarrstack is installed alone."""
    wanted = [*(ROOT / "tests" / "zarrstack").rglob("*.py"), ROOT / "tests" / "conftest.py"]
    seen: set[Path] = set()
    wrong: list[str] = []
    while wanted:
        path = wanted.pop()
        if path in seen:
            continue
        seen.add(path)
        tree = ast.parse(path.read_text())
        found = tuple(_imports_below("tests", False, tree, at_start=True))
        wrong += [f"{path.relative_to(ROOT)}:{one.line}" for one in found if is_in(one.imported, "zarrlift")]
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and is_in(node.module or "", "tests"):
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
                files = [ROOT / (name.replace(".", "/") + ".py") for name in names]
                wanted += [file for file in files if file.exists()]
    assert wrong == []


def is_in_core(module: str) -> bool:
    """Whether a module has facts of formats only."""
    return is_in(module, "zarrstack.core") or is_in(module, "zarrlift.core")


def test_the_cores_know_nothing_else_and_do_no_io() -> None:
    wrong = [
        str(found)
        for found in imports()
        if is_in_core(found.importer)
        and (
            found.imported.split(".")[0] in IN_CORE_FORBIDDEN
            or (found.imported in MODULES and not is_in_core(found.imported))
        )
    ]
    assert wrong == []


LIGHT_STACK = {
    "zarrstack.base", "zarrstack.base.array_documents", "zarrstack.base.description", "zarrstack.base.lazy",
    "zarrstack.base.plugins", "zarrstack.errors", "zarrstack.system",
    "zarrstack.system.clock", "zarrstack.system.linux",
    "zarrstack.system.other", "zarrstack.system.this", "zarrstack.system.transient_errors",
    "zarrstack.system.windows", "zarrstack.version",
}  # fmt: skip
"""What `zarrlift --help` and a listing of layers may load; the other modules above the core subclass zarr."""


def is_made_of_zarr(module: str) -> bool:
    """Whether a module may import zarr when it is loaded, since nobody loads it who does not need zarr."""
    stack = module.startswith("zarrstack.") and not is_in(module, "zarrstack.core")
    return module in MADE_OF_ZARR or (stack and module not in LIGHT_STACK)


def test_heavy_packages_are_imported_where_they_are_used() -> None:
    wrong = [
        str(found)
        for found in imports()
        if found.at_start
        and (is_made_of_zarr(found.imported) or found.imported.split(".")[0] in LAZY)
        and not is_made_of_zarr(found.importer)
    ]
    assert wrong == []


MAY_PICKLE = {
    "zarrlift.core.codecs.objects": "pickled object arrays, where the user allows them",
    "zarrstack.testing.suite": "whether a layer can be sent to a worker",
    "zarrlift.transfer.executors.process_pool": "the pipe to a process of our own",
    "zarrlift.transfer.worker": "what the coordinator of the job sends to its workers",
}


def test_nothing_is_unpickled_but_where_it_may_be() -> None:
    wrong = [
        str(found)
        for found in imports()
        if found.imported.split(".")[0] in {"pickle", "marshal", "shelve", "dill", "cloudpickle"}
        and (
            found.importer not in MAY_PICKLE
            or (found.at_start and found.importer == "zarrlift.core.codecs.objects")
        )
    ]
    assert wrong == []


def test_no_module_grows_past_450_lines() -> None:
    long = {name: n for name, path in MODULES.items() if (n := len(path.read_text().splitlines())) > 450}
    assert long == {}


# ARCHITECTURE.md names each room that exists, in the order of imports, and each file it names exists.


PAGE = (ROOT / "ARCHITECTURE.md").read_text()
HEADINGS = {"zarrstack": "transformers/zarrstack", "zarrlift.core": "core", "zarrlift": "migrate/zarrlift"}


def rooms_on_page(package: str) -> list[str]:
    """The first column of the table that follows the package's heading or sentence."""
    start = re.search(rf"^(### |Rooms of )`{HEADINGS[package]}`", PAGE, re.MULTILINE)
    assert start is not None
    table = PAGE[start.end() :].split("| --- | --- |\n", 1)[1].split("\n\n", 1)[0]
    return re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)


@pytest.mark.parametrize("package", HEADINGS)
def test_the_rooms_on_the_page_are_the_rooms_of_the_package_in_the_order_of_imports(package: str) -> None:
    source = "migrate" if package.startswith("zarrlift") else "transformers"
    folder = ROOT / source / package.replace(".", "/")
    there = {path.parent.name for path in folder.glob("*/__init__.py")}
    assert rooms_on_page(package) == [room for room in ROOMS[package] if room in there]
    assert there <= {*ROOMS[package]}


def test_each_file_on_the_page_exists() -> None:
    named = re.findall(r"`([\w/]+(?:\.py|/\w+))`", PAGE)
    missing = [name for name in named if "/" in name and not (ROOT / name).exists()]
    unknown = [name for name in named if "/" not in name and not any(ROOT.glob(f"[mt]*/**/{name}"))]
    assert missing + unknown == []


def test_the_page_is_one_page() -> None:
    assert len(PAGE.splitlines()) < 130

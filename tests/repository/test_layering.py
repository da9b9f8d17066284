"""Imports point one way; the core does no I/O; heavy packages are imported where they are used.

Read from the source, not from what happens to be loaded: an import under TYPE_CHECKING is
knowledge of the other part too, and counts for the order (not for start-up).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = (ROOT / "transformers", ROOT / "migrate")

# From the lowest to the highest. A module may import its own layer and those below.
# The first pattern that fits decides.
LAYERS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("core", ("zarrstack.core", "zarrstack.core.*")),
    ("transformers", ("zarrstack", "zarrstack.*")),
    (
        "archive",
        (
            "version",
            "archive",
            "read_options",
            "process",
            "broken_packages",
            "scratch",
            "partial_files",
            "storage*",
            "places",
            "owner",
            "no_archive",
            "credentials",
            "through",
            "stored",
        ),
    ),
    ("recipe", ("recipe*", "codec_text", "casting*", "objects")),
    ("formats, conventions", ("formats*", "conventions*")),
    (
        "route, planning",
        (
            "route*",
            "destination*",
            "inventory*",
            "scanning",
            "planning*",
            "advising",
            "plans*",
            "documents*",
            "models.[!c]*",
            "models.checking",
        ),
    ),
    (
        "move",
        (
            "move*",
            "companions",
            "changing",
            "counting",
            "leaves",
            "assembling",
            "copying",
            "forked",
            "twin",
            "gathering",
            "tasks",
            "canvas",
            "keeping",
            "new_objects",
            "streams",
            "server_copy",
            "job*",
            "writing*",
            "worker",
            "verifying*",
        ),
    ),
    (
        "run",
        (
            "run",
            "run_arrays",
            "executors",
            "view",
            "view_archive",
            "reverse_view",
            "hierarchy_view",
            "shown",
            "reversing*",
            "serving*",
            "merging",
            "source_check",
            "recorded",
            "syncing",
            "unsynced",
            "local_times",
            "outcome",
            "job_status",
            "progress",
            "publishing",
            "totals",
            "events",
            "option_words",
            "report.units",
            "current_status",
            "ends",
            "claiming",
            "earlier",
            "relocated",
            "replacing",
            "migration",
            "finish*",
            "models*",
        ),
    ),
    ("report", ("report*",)),
    ("cli", ("cli*", "__main__", "")),
)
"""Patterns of `zarrlift` stand without the package's name; "" is the package itself."""

IN_CORE_FORBIDDEN = {
    "asyncio", "fsspec", "glob", "http", "io", "os", "pathlib", "shutil", "socket", "sqlite3",
    "subprocess", "tempfile", "urllib", "zarr", "zarrlift",
}  # fmt: skip
MADE_OF_ZARR = {
    "zarrlift.storage.local.layered_store",
    "zarrlift.storage.remote.cross_loop_store",
    "zarrlift.views.base",
    "zarrlift.views.legacy",
    "zarrlift.views.reverse",
}
"""Modules that subclass what zarr defines; they are imported where they are used, like zarr itself."""
LAZY = {
    "zarr",
    "zarr_metadata",
    "pydantic",
    "pydantic_zarr",
    "jsonschema_rs",
    "tensorstore",
    "obstore",
    "xarray",
    "dask",
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


def _imports_below(name: str, is_package: bool, node: ast.AST, at_start: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        starts = at_start and not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
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


def imports() -> tuple[Import, ...]:
    """Every import statement of both packages."""
    found: list[Import] = []
    for name, path in MODULES.items():
        tree = ast.parse(path.read_text())
        found += _imports_below(name, path.name == "__init__.py", tree, at_start=True)
    return tuple(found)


IMPORTS = imports()


def rank(module: str) -> int:
    """Position of a module's layer, counted from the lowest."""
    short = module.removeprefix("zarrlift").removeprefix(".")
    for position, (_, patterns) in enumerate(LAYERS):
        if any(fnmatchcase(short, pattern) for pattern in patterns):
            return position
    pytest.fail(f"{module} is in no layer: add it to LAYERS in {Path(__file__).name}")


def test_every_module_has_a_layer() -> None:
    for module in MODULES:
        rank(module)


def test_imports_point_one_way() -> None:
    wrong = [
        f"{found} (layer {LAYERS[rank(found.importer)][0]!r} below {LAYERS[rank(found.imported)][0]!r})"
        for found in IMPORTS
        if found.imported in MODULES and rank(found.imported) > rank(found.importer)
    ]
    assert wrong == []


def test_zarrstack_knows_nothing_of_zarrlift() -> None:
    wrong = [
        str(found)
        for found in IMPORTS
        if found.importer.split(".")[0] == "zarrstack" and found.imported.split(".")[0] == "zarrlift"
    ]
    assert wrong == []


def test_the_core_does_no_io() -> None:
    wrong = [
        str(found)
        for found in IMPORTS
        if rank(found.importer) == 0 and found.imported.split(".")[0] in IN_CORE_FORBIDDEN
    ]
    assert wrong == []


LIGHT_STACK = {
    "zarrstack", "zarrstack.base.array_documents", "zarrstack.base.description", "zarrstack.base.lazy",
    "zarrstack.base.plugins", "zarrstack.base.registry", "zarrstack.system.clock",
    "zarrstack.system.transient_errors",
}  # fmt: skip
"""What `zarrlift --help` and a listing of layers may load; every other layer module subclasses zarr."""


def is_made_of_zarr(module: str) -> bool:
    """Whether a module may import zarr when it is loaded, since nobody loads it who does not need zarr."""
    layer = module.startswith("zarrstack.") and not module.startswith("zarrstack.core")
    return module in MADE_OF_ZARR or (layer and module not in LIGHT_STACK)


def test_heavy_packages_are_imported_where_they_are_used() -> None:
    wrong = [
        str(found)
        for found in IMPORTS
        if found.at_start
        and (is_made_of_zarr(found.imported) or found.imported.split(".")[0] in LAZY)
        and not is_made_of_zarr(found.importer)
    ]
    assert wrong == []


MAY_PICKLE = {
    "zarrstack.core.codecs.objects": "pickled object arrays, where the user allows them",
    "zarrstack.testing": "whether a layer can be sent to a worker",
    "zarrlift.jobs.processes.forked_process": "the pipe to a process of our own",
    "zarrlift.transfer.worker": "what the coordinator of the job sends to its workers",
}


def test_nothing_is_unpickled_but_where_it_may_be() -> None:
    wrong = [
        str(found)
        for found in IMPORTS
        if found.imported.split(".")[0] in {"pickle", "marshal", "shelve", "dill", "cloudpickle"}
        and (
            found.importer not in MAY_PICKLE
            or (found.at_start and found.importer == "zarrstack.core.codecs.objects")
        )
    ]
    assert wrong == []


def test_no_module_grows_past_400_lines() -> None:
    long = {name: n for name, path in MODULES.items() if (n := len(path.read_text().splitlines())) > 400}
    assert long == {}

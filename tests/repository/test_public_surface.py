"""The names others may rely on, and what it costs to say `zarrlift --help`."""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import zarrlift
import zarrlift.errors
import zarrlift.models
import zarrstack
import zarrstack.errors

FUNCTIONS = (
    "batch", "finish", "inspect", "migrate",
    "open", "open_array", "open_group", "plan", "plan_update",
    "resume", "status", "undo", "update", "verify",
)  # fmt: skip
"""The verbs of the command line, with the same words in Python."""

LAYERS = (
    "Cache", "Log", "PerArray", "ReadOnly", "Rekey", "Retry", "Sharding", "Throttle",
    "WriteBack",
)  # fmt: skip

DATA = (
    "Archive", "ArrayNode", "GroupNode",
    "Layout", "ArrayRecipe", "Recipe", "Batch", "BatchOutcome", "BatchRow",
    "Plan", "Outcome", "ArrayStatus", "NodeUpdate", "Status",
    "UpdatePlan", "VerificationReport",
    "Error", "Interrupted", "LegacyView", "load_recipe",
)  # fmt: skip
"""What the functions take and give."""

MODELS = (
    "consolidated", "create", "diff", "flatten", "load", "schema", "show", "to_pydantic", "unflatten",
    "validate",
    "Difference", "Hierarchy", "Requirement",
)  # fmt: skip

STACK_ERRORS = (
    "ZarrstackError", "CastError", "ChunkError", "MetadataError", "StorageError", "UnsupportedError",
    "UsageError", "Problem",
)  # fmt: skip
JOB_ERRORS = ("Interrupted", "JobError", "SourceChangedError", "VerificationError", "WorkerError")

AUTHORS = ("Call", "Intercept", "bounds", "cut")
"""What a layer of another package needs besides its base class."""

PUBLIC = {
    "zarrlift": {*FUNCTIONS, *DATA},
    "zarrlift.errors": {"Error", *STACK_ERRORS, *JOB_ERRORS},
    "zarrlift.models": {*MODELS},
    "zarrstack": {
        "StorageTransformer",
        "stack",
        "stack_to_json",
        "register",
        "open",
        "open_array",
        "open_group",
        "create_array",
        *AUTHORS,
        *LAYERS,
    },
    "zarrstack.errors": {*STACK_ERRORS},
}
"""Change this only together with CHANGELOG.md: a name that goes breaks somebody."""

HEAVY = {"asyncio", "fsspec", "numcodecs", "numpy", "pydantic", "sqlite3", "tqdm", "zarr", "zarr_metadata"}
"""What `--help` does without: zarr and its fellows cost 0.3 s (speed was measured, not guessed)."""


def submodules(package: object) -> list[str]:
    """Dotted names of every module below a package."""
    return [info.name for info in pkgutil.walk_packages(package.__path__, package.__name__ + ".")]


@pytest.mark.parametrize(
    "package",
    [
        zarrlift,
        zarrlift.errors,
        zarrlift.models,
        zarrstack,
        zarrstack.errors,
    ],
    ids=lambda package: package.__name__,
)
def test_the_public_names_are_pinned(package: object) -> None:
    assert set(getattr(package, "__all__", ())) == PUBLIC[package.__name__]
    assert PUBLIC[package.__name__] <= set(dir(package))


def test_a_star_import_gives_the_public_names() -> None:
    names: dict[str, object] = {}
    exec("from zarrlift import *", names)
    assert {name for name in names if name != "__builtins__"} == PUBLIC["zarrlift"]


def test_no_module_bears_the_name_of_a_public_function() -> None:
    names = {f"zarrlift.{name}" for name in FUNCTIONS} | {f"zarrlift.models.{name}" for name in MODELS}
    assert names & {*submodules(zarrlift)} == set()


def test_public_functions_stay_some_when_every_submodule_is_loaded() -> None:
    for module in submodules(zarrlift):
        if not module.endswith("__main__"):
            importlib.import_module(module)
    assert [name for name in FUNCTIONS if not inspect.isfunction(getattr(zarrlift, name))] == []


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        zarrlift.no_such_name  # noqa: B018 - the access is the test


def test_the_packages_and_their_errors_load_no_heavy_package() -> None:
    code = (
        "import sys, zarrlift, zarrlift.errors, zarrstack, zarrstack.errors\n"
        f"print(sorted({HEAVY} & set(sys.modules)))"
    )
    done = subprocess.run((sys.executable, "-c", code), capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_every_error_is_public_in_the_packages_that_raise_it() -> None:
    from zarrstack.core import errors

    for name in STACK_ERRORS:
        assert getattr(zarrlift.errors, name) is getattr(errors, name)
    raised = {error.__name__ for error in zarrlift.errors.KINDS.values()}
    assert raised == {*STACK_ERRORS, *JOB_ERRORS[1:]} - {"Problem"}
    for path in Path(zarrstack.__file__).parent.rglob("*.py"):
        assert not [name for name in JOB_ERRORS if re.search(rf"\b{name}\b", path.read_text())], path


def test_every_error_is_one_tree_with_its_own_kind() -> None:
    classes = filter(inspect.isclass, vars(zarrlift.errors).values())
    own = {each for each in classes if issubclass(each, zarrlift.errors.ZarrstackError)}
    kinds = [error.kind for error in own]
    assert sorted(kinds) == [
        "cast",
        "chunk",
        "error",
        "job",
        "metadata",
        "source-changed",
        "storage",
        "unsupported",
        "usage",
        "verification",
        "worker",
    ]


def error_classes() -> dict[str, tuple[str, set[str]]]:
    """Name of each exception class in the source: its file, and the names of its bases."""
    found = {}
    for package in (zarrlift, zarrstack):
        for path in Path(package.__file__).parent.rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef):
                    found[node.name] = (path.name, {ast.unparse(base).split(".")[-1] for base in node.bases})
    built_in = {name for name, value in vars(builtins).items() if inspect.isclass(value)}
    errors = {name for name in built_in if issubclass(getattr(builtins, name), BaseException)}
    while new := {name for name, (_, bases) in found.items() if bases & errors} - errors:
        errors |= new
    return {name: found[name] for name in sorted(errors & found.keys())}


@pytest.mark.slow
def test_an_error_that_reaches_users_is_public_or_one_of_a_public_kind() -> None:
    """What is neither is caught where it is called: it only says to other code of the package what to do."""
    classes = error_classes()
    public = set(zarrlift.errors.__all__)
    assert {name for name, (file, _) in classes.items() if file == "errors.py"} == public - {
        "Problem",
        "Error",
    }
    own = {name: bases for name, (_, bases) in classes.items() if name not in public}
    inside = {name for name, bases in own.items() if not bases & public}
    source = "".join(
        path.read_text()
        for package in (zarrlift, zarrstack)
        for path in Path(package.__file__).parent.rglob("*.py")
    )
    raised = {name for name in inside if re.search(rf"raise {name}\b", source)}
    caught = {name for name in inside if re.search(rf"except \(?.*\b{name}\b", source)}
    assert inside == raised == caught

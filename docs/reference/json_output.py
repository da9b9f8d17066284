"""The JSON that commands print with `--json`, and the lines of `--log`, as a JSON Schema.

`generate.py` writes it to json-output.schema.json. Most members are fields and properties of classes, whose
docstrings describe them. The others stand here, as `names: type: description`. A type is `string`, `integer`,
`number`, `boolean`, `any`, the name of an object, or made of these: `list of T`, `map of T`, `T or null`.
That of a member that may be absent is `T, optional`.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from types import NoneType, UnionType
from typing import Any, Final, Literal, NamedTuple, Union, get_args, get_origin

NAMES: Final = {str: "string", bool: "boolean", int: "integer", float: "number", NoneType: "null", Any: "any"}
PRIMITIVES: Final = {"string", "boolean", "integer", "number", "null"}


class Section(NamedTuple):
    """An object: the members of a class, and others."""

    members: str = ""
    """By hand, also in place of what a class says. The further lines of a member are indented."""
    of: str = ""
    """`module:Class`, with `-name` for fields that are left out, and `name` for properties that are added."""
    description: str = ""
    optional: bool = False
    """Whether members that would be null are absent."""


SECTIONS: Final[Mapping[str, Section]] = {
    "problem": Section(of="zarrstack.core.errors:Problem", optional=True),
    "outcome": Section(
        of="zarrlift.jobs.outcome:Outcome -plan",
        members="""
        options: list of string: Command line arguments that open the job's places again, with
            placeholders such as `<secret>`.
        """,
    ),
    "archive": Section(
        of="zarrlift.archive.nodes:Archive -documents", members="nodes: list of node: Sorted by path."
    ),
    "convention": Section(of="zarrlift.archive.nodes:RecognizedConvention"),
    "node": Section(
        """
        kind: string: `array` or `group`.
        refused: boolean: Whether a problem excludes it from a migration.
        attributes: map of any: As stored.
        documents: list of string: Keys of its metadata documents.
        implicit: boolean, optional: Of a group: whether it has no document.
        layout: layout or null, optional: Of an array; null if it cannot be described.
        unknown: string or null, optional: Of an array that is passed through: what is unknown of it.
        fill_is_null: boolean, optional: Of an array: whether the source defines no fill value.
        extra: map of any, optional: Of an array: members of its document that are not part of the format.
        path: string
        problems: list of problem
        """
    ),
    "layout": Section(
        """
        data_type: any: A name, or an object with `name` and `configuration`.
        chunk_shape: list of integer: Shape of a chunk; of an inner chunk, if there are shards.
        codecs: list of codec: The codecs of a chunk, in order of encoding. Those that Zarr v3 does
            not have are named `numcodecs.NAME` or after their format.
        chunk_key_encoding: codec: How coordinates become keys: `default` and `v2` of Zarr v3, or
            that of the source format.
        frame: frame or null: What surrounds the codecs' output; null for nothing.
        root: string or null: Prefix of the chunk keys, if it is not the path of the node.
        dimension_names: list of any or null: Names of the axes; null for an axis without one.
        shape: list of integer
        fill_value: any
        opaque: boolean, optional: True of an array that is passed through, of which only the keys
            of the objects are known.
        """,
        description="How an array is stored, in terms of Zarr v3. Data type, fill value and codecs have "
        "the form of `zarr.json`.",
    ),
    "codec": Section("name: string\nconfiguration: map of any, optional"),
    "frame": Section(
        """
        name: string: `n5` (a header before each block) or `shards`.
        axes: string, optional: Of `n5`: `reversed` or `kept`.
        chunks_per_shard: list of integer, optional: Of `shards`: along each axis.
        index_codecs: list of codec, optional: Of `shards`.
        index_location: string, optional: Of `shards`: `start` or `end`.
        """
    ),
    "plan": Section(
        of="zarrlift.planning.plans:Plan -reading",
        members="""
        arrays: list of planned array
        groups: list of planned group
        free_bytes: integer or null: Free space at the destination.
        recipe: recipe
        axes: string: Option.
        max_document_size: integer: Option.
        follow_links, allow_fallback: boolean: Option.
        source_digests: list of list of string: Pairs of key and BLAKE2b digest of documents that
            belong to no node.
        source_documents: map of any: These documents by key; text if one is not JSON.
        conventions: list of convention: Those whose metadata is converted.
        totals: plan totals
        """,
    ),
    "plan totals": Section(
        """
        arrays, groups: integer: Number of them to migrate.
        refused: integer: Number of refused nodes.
        chunks: integer: Stored chunks of the source.
        reads: integer: Reads of source objects, repeated ones included.
        objects_out: integer: Objects to write, documents included; a maximum with `--drop-empty`.
        bytes_in: integer: Of chunks that move, each once.
        bytes_read: integer: Bytes to read.
        bytes_out: integer: Bytes to write.
        bytes_in_known, bytes_out_known: boolean: False if the bytes are an estimate.
        """
    ),
    "planned array": Section(
        of="zarrlift.planning.plans:ArrayPlan -move -changes -verbatim",
        members="""
        bytes_in: integer: Stored bytes to read, each chunk once.
        bytes_out: integer: Bytes to write.
        bytes_in_known, bytes_out_known: boolean: False if the bytes are an estimate.
        path: string
        verbatim: string, optional: The text of `document`, for an array that is passed through.
        source, destination: layout: As the array is and will be stored.
        route: route
        casting, objects: string: Key of its recipe.
        allow_pickle, drop_empty: boolean: Key of its recipe.
        block_shape: list of integer or null: Unit of work in elements, if the objects of source and
            result differ.
        piece_shape: list of integer or null: Part of a block that is assembled at a time, if a
            block exceeds the memory.
        run_shape: list of integer or null: Consecutive pieces for which decoded chunks are kept.
        source_digests: list of list of string: Pairs of key and BLAKE2b digest of its metadata documents.
        source_documents: map of any: These documents by key; text if one is not JSON.
        readers: reading: Who can read the result.
        """,
    ),
    "route": Section(
        of="zarrlift.planning.routes:Route",
        members="""
        name: string: `stay`, `pass`, `relink`, `reframe`, `recode`, `rewrite` or `regrid`.
        shared: integer: Codecs at the start of both chains that are not undone.
        """,
    ),
    "intermediate array": Section(
        """
        layout: layout
        block_shape, bounds: list of integer: As for a planned array, of the first pass.
        piece_shape, run_shape: list of integer or null: As for a planned array, of the first pass.
        """
    ),
    "reading": Section(
        """
        yes: list of string: Readers that can read the array; none if a codec or data type is not in
            the table.
        no: map of list of string: Readers that cannot, and the features that they lack.
        """
    ),
    "planned group": Section(
        of="zarrlift.planning.plans:GroupPlan",
        members="""
        source_digests: list of list of string: As for an array.
        source_documents: map of any: As for an array.
        """,
    ),
    "refusal": Section(of="zarrlift.planning.plans:Refusal"),
    "recipe": Section(
        """
        base: map of any: Keys that apply to all arrays and do not have their defaults.
        sections: list of any: Pairs of a path glob and its keys.
        include, exclude: list of string: Path globs.
        consolidate: boolean or null: Null: as in the source.
        memory: integer or null
        model: map of any, optional: `name` and `content` of the required model.
        """,
        description="Keys are those of a recipe file.",
    ),
    "status": Section(
        of="zarrlift.jobs.status:Status arrays_done",
        members="""
        bytes_done: integer: Stored bytes read.
        bytes_total: integer: Stored bytes to read in all.
        bytes_known: boolean: False if the bytes are an estimate.
        silent_since: number or null: Since when a server has not answered a running job.
        silent_attempt: integer or null: The present attempt of a request to it.
        options: list of string: As in an outcome.
        requested: map of string: What was requested of the job, by option.
        recipe: map of any: Members of the recipe that do not have their defaults.
        arrays_total: integer: Refused arrays included.
        totals: totals: Of the arrays that are done.
        routes: map of totals: Of those of each route.
        conventions: list of convention: Those whose metadata was converted.
        """,
    ),
    "array status": Section(
        of="zarrlift.jobs.status:ArrayStatus",
        members="""
        tasks_done, tasks_total: integer
        bytes_done, bytes_total: integer: Of an array that is done what was read, and 0 for chunks
            that are not moved; since the last update if there was one.
        bytes_known: boolean: False if the bytes are an estimate.
        objects_before: integer: Stored objects.
        bytes_written: integer: Bytes so far.
        dropped: integer: Chunks omitted as empty.
        objects_after, bytes_before, bytes_after: integer or null: Null while not known.
        """,
    ),
    "totals": Section(
        """
        arrays: integer
        objects_before, objects_after, objects_done, dropped: integer or null: As in an array
            status; null if the figure of some array is not known.
        bytes_before, bytes_after, bytes_done, bytes_written: integer or null: As in an array
            status; null if the figure of some array is not known.
        """
    ),
    "stored form": Section(of="zarrlift.jobs.status:StoredForm"),
    "verification": Section(
        of="zarrlift.verification.archives:VerificationReport -groups -arrays -chunks -bytes ok",
        members="""
        compared: compared: The extent of the comparison.
        differences: map of integer: Path of a node -> number of differences.
        """,
    ),
    "compared": Section(
        """
        arrays, groups: integer: Those on both sides.
        chunks: integer: Chunks, or blocks of them, whose values were compared.
        bytes: integer: Decoded bytes.
        """
    ),
    "update plan": Section(
        of="zarrlift.jobs.update.steps:UpdatePlan",
        members="""
        objects: integer: Source objects to read.
        bytes: integer: Their size.
        """,
    ),
    "node update": Section(
        of="zarrlift.jobs.update.steps:NodeUpdate",
        members="""
        objects: integer: Source objects to read.
        bytes: integer: Their size.
        """,
    ),
    "batch": Section(
        of="zarrlift.jobs.batch.state:BatchOutcome -rows counts",
        members="""
        totals: batch totals
        archives: list of batch archive
        """,
    ),
    "batch totals": Section("seconds: number\narrays, objects, bytes_in, bytes_out: integer"),
    "batch archive": Section(
        of="zarrlift.jobs.batch.rows:BatchRow -request",
        members="""
        objects, bytes_in: integer: Of the source, moved and read; before the archive is run, planned.
        status: status or null, optional: With `status --verbose`; null if nothing of it was begun.
        """,
    ),
    "list": Section(
        """
        list_file: string or null: Path of the list that was written; null if it was printed.
        rows: list of map of any: The rows of the list.
        """
    ),
    "demo": Section("written: map of string: Format -> path of the archive."),
    "model": Section(
        """
        format: string: Format of the source.
        model: map of any: A Zarr Object Model (ZEP 6).
        problems: list of problem: Nodes that are not in the model, and notes.
        """
    ),
    "validation": Section("archives: list of validated: In the order given.\nmodel: string"),
    "validated": Section("violations: list of problem\nurl: string"),
    "model differences": Section("differences: list of model difference"),
    "model difference": Section(
        of="zarrlift.models.differences:Difference",
        members="""
        what: string: `added`, `missing` or `changed`.
        member: string, optional: Member of the node's metadata; absent for the whole node.
        first: any, optional: Its value in the first hierarchy, unless `added`.
        second: any, optional: Its value in the second hierarchy, unless `missing`.
        """,
    ),
    "created": Section(of="zarrlift.models.creation:Created"),
    "log line": Section(
        """
        time: string: ISO 8601: `2026-11-22T09:41:02.123456Z`.
        level: string: `info`, `warning` or `error`.
        event: string: `start`, `plan`, `array`, `failure`, `retry`, `progress`, `interrupted`,
            `error`, `end`, or `message` for the rest.
        message: string: For people.
        process: integer: Process id.
        archive: string, optional: In a batch: the archive.
        problem: problem, optional: Of a failure or an error.
        node: string, optional
        """,
        description="A line of the file of `--log`, in ASCII.",
    ),
}

DOCUMENT: Final = Section(
    """
    zarrlift: string: Version of the program.
    command: string or null: The command, such as `migrate` or `batch run`; null if the command line is
        invalid.
    exit_code: integer: The exit code of the process.
    result: map of any, optional: Present unless there is an `error`, also if the exit code is 1.
    error: problem, optional: Why the command could not do its work. After Ctrl-C its `kind` is `interrupted`.
    """
)

RESULTS: Final[Mapping[str, tuple[str, ...]]] = {
    "inspect": ("archive",),
    "migrate": ("outcome", "plan"),
    "resume": ("outcome", "batch"),
    "finish": ("outcome", "batch"),
    "undo": ("outcome", "batch"),
    "update": ("outcome", "update plan", "batch"),
    "status": ("status", "batch"),
    "verify": ("verification", "batch"),
    "demo": ("demo",),
    "batch list": ("list",),
    "batch run": ("batch",),
    "model show": ("model",),
    "model validate": ("validation",),
    "model diff": ("model differences",),
    "model create": ("created",),
}
"""What each command prints as its `result`."""


def schema() -> dict[str, Any]:
    """The schema of the document, with every object that it may contain as `$defs`."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "What zarrlift prints with --json",
        "description": "A line of the file of --log is #/$defs/log-line. Members may be added: ignore those "
        "that you do not know. Sizes are bytes, durations seconds, times seconds since 1970 (UTC).",
        **_object(DOCUMENT),
        "allOf": [
            {
                "if": {"properties": {"command": {"const": command}}},
                "then": {"properties": {"result": {"anyOf": [_reference(name) for name in names]}}},
            }
            for command, names in RESULTS.items()
        ],
        "$defs": {_key(name): _object(section) for name, section in SECTIONS.items()},
    }


def _object(section: Section) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    required = []
    for name, form, text in _members(section):
        is_optional = form.endswith(", optional")
        properties[name] = _type(form.removesuffix(", optional"))
        if text:
            properties[name]["description"] = text
        if not is_optional:
            required.append(name)
    described = {"description": section.description} if section.description else {}
    return {**described, "type": "object", "properties": properties, "required": required}


def _members(section: Section) -> Iterator[tuple[str, str, str]]:
    """Name, type and description of each member."""
    by_hand = {name: (form, text) for name, form, text in _by_hand(section.members)}
    if section.of:
        place, *words = section.of.split()
        kind = _class(place)
        without = {word[1:] for word in words if word[0] == "-"} | by_hand.keys()
        hints, texts = _hints(kind), _texts(kind)
        fields = list(getattr(kind, "__dataclass_fields__", None) or kind._fields)
        for name in (*fields, *(word for word in words if word[0] != "-")):
            if name in without:
                continue
            form = _form(hints[name])
            if section.optional and form.endswith(" or null"):
                form = f"{form.removesuffix(' or null')}, optional"
            yield name, form, _plain(f"{_choices(hints[name])} {texts.get(name, '')}")
    for name, (form, text) in by_hand.items():
        yield name, form, text


def _by_hand(text: str) -> Iterator[tuple[str, str, str]]:
    for line in re.sub(r"\n {4,}", " ", textwrap.dedent(text).strip()).splitlines():
        names, form, *description = line.split(": ", 2)
        for name in names.split(", "):
            yield name, form, "".join(description)


def _type(form: str) -> dict[str, Any]:
    """The schema of a type."""
    if form.endswith(" or null"):
        inner = _type(form.removesuffix(" or null"))
        if "type" in inner:
            return {**inner, "type": [inner["type"], "null"]}
        return {"anyOf": [inner, {"type": "null"}]}
    if form.startswith("list of "):
        return {"type": "array", "items": _type(form.removeprefix("list of "))}
    if form.startswith("map of "):
        return {"type": "object", "additionalProperties": _type(form.removeprefix("map of "))}
    if form in PRIMITIVES:
        return {"type": form}
    return {} if form == "any" else _reference(form)


def _reference(name: str) -> dict[str, Any]:
    if name not in SECTIONS:
        raise LookupError(f"{name!r} is not a type")
    return {"$ref": f"#/$defs/{_key(name)}"}


def _key(name: str) -> str:
    return name.replace(" ", "-")


# ----- what classes say of their members


def _class(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


@cache
def _names_of_classes() -> Mapping[str, str]:
    """The name of the object of each class that has one."""
    found = {
        section.of.split()[0].partition(":")[2]: name for name, section in SECTIONS.items() if section.of
    }
    by_hand = ("Intermediate Array", "Layout", "Recipe", "Totals")
    return found | {name.replace(" ", ""): name.lower() for name in by_hand}


class _Names(dict[str, Any]):
    """The names of a module; what it imports for type checkers only is data."""

    def __missing__(self, name: str) -> Any:
        return getattr(builtins, name, Any)


def _hints(kind: Any) -> dict[str, Any]:
    """The type of each field and property of a class."""
    hints: dict[str, Any] = {}
    for base in reversed(kind.__mro__[:-1]):
        names = _Names(vars(sys.modules[base.__module__]) | {"JSON": Any, "JSONObject": dict[str, Any]})
        own = inspect.get_annotations(base)
        own |= {
            name: item.fget.__annotations__["return"]
            for name, item in vars(base).items()
            if isinstance(item, property)
        }
        own = {name: getattr(item, "__forward_arg__", item) for name, item in own.items()}
        hints |= {
            name: eval(item, {}, names)  # noqa: S307 - our own annotations
            for name, item in own.items()
        }
    return hints


@cache
def _texts(kind: Any) -> dict[str, str]:
    """The first paragraph of the docstring below each field, or of each property; of an option, its help."""
    found = {}
    for base in reversed(kind.__mro__[:-1]):
        try:
            body = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0].body
        except (OSError, TypeError):
            continue
        for item, following in zip(body, [*body[1:], None], strict=True):
            if isinstance(item, ast.FunctionDef):
                found[item.name] = ast.get_docstring(item) or ""
            elif isinstance(item, ast.AnnAssign) and _is_text(following):
                found[item.target.id] = inspect.cleandoc(following.value.value)
    for name, field in getattr(kind, "__dataclass_fields__", {}).items():
        if "option" in field.metadata:
            found[name] = field.metadata["option"].help
    return {name: text.partition("\n\n")[0] for name, text in found.items()}


def _is_text(item: Any) -> bool:
    return isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant)


def _plain(text: str) -> str:
    """A text of the source in one line, in terms of JSON."""
    return re.sub(r"\bNone\b", "null", re.sub(r"(^|\. )None\b", r"\1Null", " ".join(text.split())))


def _form(hint: Any) -> str:
    """A type of Python as a type of a member."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        forms = [_form(each) for each in inner]
        return " or ".join(sorted(forms, key=lambda form: form == "null"))
    if origin is Literal:
        return "string"
    if origin is tuple:
        return f"list of {_form(inner[0])}"
    if origin is not None and issubclass(origin, Mapping):
        return f"map of {_form(inner[1])}"
    return NAMES.get(hint) or _names_of_classes()[hint.__name__]


def _choices(hint: Any) -> str:
    for each in (hint, *get_args(hint)):
        if get_origin(each) is Literal:
            *most, last = [f"`{value}`" for value in get_args(each)]
            return f"{', '.join(most)} or {last}." if most else f"{last}."
    return ""

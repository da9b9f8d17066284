"""An archive, plans and outcomes as small data, for the tests of reports."""

from __future__ import annotations

from dataclasses import replace

from zarrlift.archive.nodes import Archive, ArrayNode, GroupNode, Layout
from zarrlift.core.chain.chain import Chain
from zarrlift.core.codec_spec import CodecSpec
from zarrlift.core.data_types.v3 import DataType
from zarrlift.core.grid.frames import Shards
from zarrlift.jobs.outcome import Outcome
from zarrlift.jobs.status import ArrayStatus, Status, StoredForm, Totals
from zarrlift.planning.plans import ArrayPlan, GroupPlan, Plan, Refusal
from zarrlift.planning.routes import Move, route_between
from zarrlift.recipe.recipe import Recipe
from zarrlift.verification.archives import VerificationReport
from zarrstack.core.chunk_keys_v3 import KeyEncoding
from zarrstack.core.errors import Problem
from zarrstack.core.shard_index import IndexFormat

LITTLE = CodecSpec("bytes", {"endian": "little"})
BLOSC = CodecSpec("blosc", {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 2, "blocksize": 0})
ZLIB = CodecSpec("numcodecs.zlib", {"level": 1})
GZIP = CodecSpec("gzip", {"level": 1})
V2 = KeyEncoding("v2", ".")
DEFAULT = KeyEncoding("default", "/")


def layout(dtype="uint16", tail=(BLOSC,), shape=(512, 512, 512), chunk=(64, 64, 64), keys=V2) -> Layout:
    return Layout(
        shape=shape,
        data_type=DataType.from_json(dtype),
        fill_value=0,
        chunk_shape=chunk,
        chain=Chain((LITTLE, *tail)),
        keys=keys,
    )


IMAGE = layout()
TABLE = layout("float64", (ZLIB,), (365, 180), (30, 90))

UNKNOWN = Problem(
    kind="unsupported",
    node="objects",
    key="objects/.zarray",
    message="objects are stored with pickle",
    found="filter 'pickle'",
    expected="a codec that runs no code",
    advice="Use --allow-pickle if you trust the archive.",
)
NULL_FILL = Problem(
    kind="fill-null", severity="note", node="temperature", message="fill_value null becomes 0.0"
)
RENAMED = Problem(
    kind="name", severity="warning", node="__meta", message="names beginning with '__' are reserved"
)

ARCHIVE = Archive(
    url="/data/old.zarr",
    format="zarr2",
    consolidated=True,
    nodes=(
        GroupNode(path="", attributes={"title": "x", "Conventions": "CF-1.8"}),
        GroupNode(path="a", implicit=True),
        ArrayNode(path="a/image", layout=IMAGE, attributes={"unit": "m"}),
        ArrayNode(path="objects", problems=(UNKNOWN,)),
        ArrayNode(path="temperature", layout=TABLE, fill_is_null=True, problems=(NULL_FILL,)),
    ),
)


def array_plan(
    path: str, source: Layout, destination: Layout, chunks=512, size=134_000_000, **more
) -> ArrayPlan:
    route = route_between(source, destination, same_place=False)
    return ArrayPlan(
        move=Move(path=path, source=source, destination=destination, route=route),
        document={"zarr_format": 3, "node_type": "array"},
        chunks=chunks,
        bytes_in=size,
        bytes_out=size,
        bytes_out_known=route.name == "relink",
        bounds=(0, chunks),
        reads=chunks,
        **{"objects_out": chunks, **more},
    )


PLAN = Plan(
    source="/data/old.zarr",
    destination="/data/new.zarr",
    in_place=False,
    format="zarr2",
    recipe=Recipe(),
    arrays=(
        array_plan("a/image", IMAGE, replace(IMAGE, keys=DEFAULT)),
        array_plan(
            "temperature",
            TABLE,
            replace(TABLE, keys=DEFAULT, chain=Chain((LITTLE, GZIP))),
            chunks=26,
            size=1_230_000,
            problems=(NULL_FILL,),
        ),
    ),
    groups=(GroupPlan(path="", document={}), GroupPlan(path="a", document={}, problems=(RENAMED,))),
    refusals=(Refusal(path="objects", kind="array", problems=(UNKNOWN,)),),
    excluded=("raw", "raw/0"),
    free_bytes=98_000_000_000,
)

CUT_ANEW = replace(
    PLAN,
    arrays=(
        array_plan(
            "a/image",
            IMAGE,
            replace(
                IMAGE,
                keys=DEFAULT,
                chunk_shape=(32, 32, 32),
                frame=Shards((4, 4, 4), IndexFormat()),
            ),
            objects_out=64,
            times_read=1.25,
            memory=412_000_000,
        ),
    ),
    refusals=(),
    excluded=(),
)
MANY = replace(
    PLAN,
    arrays=tuple(
        array_plan(f"t/{i:04}", IMAGE, replace(IMAGE, keys=DEFAULT), chunks=3, size=1000) for i in range(250)
    ),
    refusals=tuple(
        Refusal(
            path=f"bad/{i}",
            kind="array",
            problems=(replace(UNKNOWN, node=f"bad/{i}", key=f"bad/{i}/.zarray"),),
        )
        for i in range(40)
    ),
    excluded=(),
)
SHARDED_LEVELS = tuple(
    array_plan(
        str(level),
        before := layout(shape=(8192 >> level, 8192 >> level), chunk=(64, 64)),
        replace(before, keys=DEFAULT, frame=Shards((128 >> level, 128 >> level), IndexFormat())),
        chunks=4 ** (7 - level),
        size=4 ** (13 - level),
        problems=(
            Problem(
                kind="shards",
                severity="note",
                node=str(level),
                message=f"shards of {128 >> level} x {128 >> level} chunks",
            ),
        ),
    )
    for level in range(8)
)
PYRAMID = replace(PLAN, arrays=SHARDED_LEVELS, refusals=(), excluded=())
"""Its levels differ in their shards."""
CODECS = replace(
    PLAN,
    arrays=tuple(
        array_plan(
            name,
            before := layout(tail=tail, shape=(9,), chunk=(9,)),
            replace(before, keys=DEFAULT),
            chunks=1,
            size=18,
        )
        for name, tail in (("a", ()), ("b", (GZIP,)), ("c", (BLOSC,)), ("d", (BLOSC,)))
    ),
    refusals=(),
    excluded=(),
)
"""Two arrays share their codecs, the others have others."""
IMAGES = replace(
    ARCHIVE,
    nodes=(
        GroupNode(path=""),
        *(
            ArrayNode(path=f"{group}/{level}", layout=layout(tail=tail, shape=(512 >> level,), chunk=(64,)))
            if level >= 0
            else GroupNode(path=group)
            for group, tail in (("image", (BLOSC,)), ("labels", (ZLIB,)))
            for level in range(-1, 4)
        ),
    ),
)
"""The arrays have two forms."""

DONE = Outcome(
    job="/data/new.zarr.zarrlift.db",
    state="done",
    arrays_done=2,
    arrays_total=2,
    groups_done=2,
    chunks=538,
    bytes_in=135_230_000,
    bytes_out=135_000_000,
    seconds=0.71,
    whole=Totals(
        arrays=2,
        objects_before=538,
        objects_after=90,
        bytes_before=135_230_000,
        bytes_after=135_000_000,
        objects_done=538,
        bytes_done=135_230_000,
        bytes_written=135_000_000,
        dropped=0,
    ),
    seconds_in_all=0.71,
    plan=replace(PLAN, refusals=()),
)
RESUMED = replace(DONE, chunks=12, bytes_in=1_230_000, bytes_out=1_000_000, runs=2, seconds_in_all=185.0)
"""A second run, or an update, did a small part."""
PARTLY = replace(DONE, arrays_total=3, problems=(UNKNOWN,), plan=PLAN)
FAILED = replace(
    DONE,
    state="incomplete",
    whole=None,
    arrays_done=1,
    problems=(
        Problem(
            kind="chunk",
            node="temperature",
            key="temperature/3.1",
            message="the zlib stream is damaged",
            found="incorrect header check",
        ),
    ),
)
IN_PLACE = replace(
    DONE,
    job="/data/old archive.zarr.zarrlift.db",
    chunks=0,
    bytes_in=0,
    bytes_out=0,
    whole=replace(DONE.whole, objects_after=538, bytes_after=135_230_000, bytes_done=0, bytes_written=0),
    plan=replace(PLAN, in_place=True, destination=PLAN.source, refusals=()),
)
NOTHING = Outcome(job=DONE.job, state="nothing to do", arrays_done=2, arrays_total=2, groups_done=2)
FINISHED = Outcome(job=IN_PLACE.job, state="finished", removed=7, seconds=0.01)
UNDONE = Outcome(job=IN_PLACE.job, state="undone", removed=5, restored=7, seconds=0.01)

FORM = StoredForm(data_type="uint16", chunk_shape=(64, 64), shard_shape=None, codecs="bytes:little > zstd:3")
STATUS = Status(
    job=DONE.job,
    source=PLAN.source,
    destination=PLAN.destination,
    in_place=False,
    format="zarr2",
    state="incomplete",
    arrays=(
        ArrayStatus(
            path="a/image",
            state="done",
            route="relink",
            reason="place",
            shape=(512, 512),
            before=FORM,
            after=FORM,
            tasks_done=4,
            tasks_total=4,
            bytes_done=134_000_000,
            bytes_total=134_000_000,
            bytes_written=134_000_000,
            objects_before=64,
            objects_after=64,
            bytes_before=134_000_000,
            bytes_after=134_000_000,
        ),
        ArrayStatus(path="objects", state="refused"),
        ArrayStatus(
            path="temperature",
            state="failed",
            route="recode",
            reason="zlib -> gzip",
            shape=(365, 180),
            before=FORM,
            after=FORM,
            tasks_total=1,
            bytes_total=1_230_000,
            objects_before=12,
            bytes_before=1_230_000,
        ),
    ),
    groups_done=1,
    groups_total=2,
    problems=(UNKNOWN, *FAILED.problems, Problem(kind="fill", severity="note", message="2 missing chunks")),
    created=1_790_000_000.0,
    updated=1_790_000_060.0,
    seconds=60.0,
    activity="stopped",
    host="storm",
    process=4242,
    began=1_790_000_000.0,
    bytes_done=134_000_000,
    bytes_total=135_230_000,
    checked="sample",
    requested={"--link": "hard"},
    versions={"zarrlift": "1.0"},
)
UPDATED = replace(
    STATUS,
    state="done",
    activity=None,
    problems=(),
    arrays=STATUS.arrays[:1],
    groups_done=2,
    last_update=replace(DONE.whole, arrays=1, objects_done=3, bytes_done=72, bytes_written=96),
)
RUNNING = replace(STATUS, activity="running", rate=2_230_000.0, seconds_left=0.55)

MANY_ARRAYS = replace(
    STATUS,
    arrays=(
        *STATUS.arrays,
        *(
            ArrayStatus(
                path=f"t/{number}",
                route="relink",
                state="done" if number < 30 else "pending",
                tasks_done=min(2, max(0, 61 - 2 * number)),
                tasks_total=2,
                bytes_done=min(1000, max(0, 30_500 - 1000 * number)),
                bytes_total=1000,
                bytes_known=number != 39,
            )
            for number in range(40)
        ),
    ),
)

EQUAL = VerificationReport(
    source=PLAN.source,
    destination=PLAN.destination,
    full=False,
    groups=2,
    arrays=2,
    chunks=9,
    bytes=4_700_000,
    share=0.0321,
)
DIFFERENT = replace(
    EQUAL,
    full=True,
    differences=(("temperature", 3),),
    problems=(
        Problem(
            kind="values",
            node="temperature",
            message="3 values differ, the first at (0, 17)",
            found="1.5",
            expected="1.25",
        ),
    ),
)

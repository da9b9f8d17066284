"""Every command of the command line: its arguments, options and help. Imports nothing heavy.

The parser, the help, the completion, the advice for wrong words and the reference are made of this table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from ..recipe import options as table
from ..recipe.options import Option, rows
from . import options as o
from .options import Argument, Command

COMMANDS: Final[Mapping[str, Command]] = {
    "inspect": Command(
        """\
Show the content of an archive in Zarr v3 terms, and every problem found in it.

The exit code is 1 if a migration without options would refuse a node. In a store, chunks are not listed:
`migrate --dry-run` finds more. Of many archives, `batch run --dry-run` shows the formats and sizes.""",
        "migrate_commands",
        {
            "source": o.SOURCE,
            "node": Argument("NODE", "A group or an array: only it, and what is below.", "?"),
        },
        {**rows(table.Describing), **o.OUTPUT},
        places=("src",),
    ),
    "migrate": Command(
        """\
Migrate an archive to DST, or --in-place, which only adds files to the source.

With --dry-run, show what would be done and cost, array by array.

  zarrlift migrate old.zarr new.zarr
  zarrlift migrate s3://bucket/scan.n5 scan.zarr --codecs zstd:3 --shards auto""",
        "migrate_commands",
        {
            "source": o.SOURCE,
            "destination": Argument("DST", "Where to write the result; must not exist yet.", "?"),
        },
        {
            **o.DRY_RUN,
            **rows(table.Request, table.JobPlace, table.Running, table.Watching),
            **o.RECIPE,
            **o.YES,
            **o.WATCHED,
        },
        places=("src", "dst"),
    ),
    "resume": Command(
        "Continue a migration that was interrupted or had failures, also of a batch.",
        "migrate_commands",
        o.TARGET,
        {
            **o.ONLY,
            **rows(table.JobPlace, table.Moved, table.Running, table.Watching),
            **o.VERIFY_AGAIN,
            **o.WATCHED,
        },
        places=("src", "dst"),
    ),
    "update": Command(
        """\
Bring the result of a migration up to date with a source that has changed since.

Only objects that differ are moved again, and are replaced one by one. May be run at any time and again.""",
        "migrate_commands",
        o.TARGET,
        {
            **o.ONLY,
            **o.DRY_RUN,
            **rows(table.Updating, table.JobPlace, table.Moved, table.Running, table.Watching),
            **o.VERIFY_AGAIN,
            **o.YES,
            **o.WATCHED,
        },
        places=("src", "dst"),
    ),
    "status": Command(
        """\
Show the progress of a job or a batch; with --verbose or --html, report what it did.

Without TARGET, list the jobs of this folder. Reads the job file alone, and with --html, source and result
for pictures. --watch refreshes the page too, with pictures at the end. With --watch until it ends: exit code
0 if everything is done, 1 if not, 130 after Ctrl-C.
To pause a job, stop it with Ctrl-C, and continue it later with zarrlift resume.""",
        "status_command",
        {"target": o.TARGET["target"]._replace(number="?")},
        {
            **o.ONLY,
            "watch": Option(
                "Refresh it until the job ends; if not on a terminal, one line per minute.", bool
            ),
            "check": Option("List the results; exit code 1 unless all is migrated and present.", bool),
            "html": Option("Write one self-contained page to a file.", metavar="FILE", heading="Output"),
            "pictures": Option(
                "With --html: read and show the middle planes of images.",
                bool,
                flag="--pictures/--no-pictures",
                default=True,
            ),
            **rows(table.JobPlace),
            "verbose": Option(
                "Report each array: routes, sizes, times, and why it failed.", bool, flag="--verbose -v"
            ),
            **o.OUTPUT,
        },
        places=("src", "dst"),
    ),
    "verify": Command(
        """\
Compare source and result: structure, attributes, data types, fill values and values.

Or any two archives, as they would be in Zarr v3: --from A,B names the formats of both.

Of a batch: all results with their sources.""",
        "migrate_commands",
        {
            "source": Argument("SRC", "The source (any archive), or the job of a migration."),
            "destination": Argument(
                "DST", "The result, or another archive; by default the job's result.", "?"
            ),
        },
        {
            **o.ONLY,
            "full": Option("Compare every value, not samples.", bool),
            "no_list": Option(
                "Do not compare the names and sizes of all objects first (for 10^9 objects).", bool
            ),
            **o.RECIPE_FILE,
            **rows(table.Describing, table.JobPlace, table.Executing),
            **o.WATCHED,
        },
        places=("src", "dst"),
        unnamed=("src", "dst"),
    ),
    "finish": Command(
        """\
Delete the legacy metadata after a verified migration in place; the job file keeps a copy.

After a verified migration to DST, delete the job file: undo and update end with it.""",
        "migrate_commands",
        o.TARGET,
        {**o.ONLY, **rows(table.JobPlace, table.TakingOver), **o.YES, **o.WATCHED},
        places=("src",),
    ),
    "undo": Command(
        "Undo a migration, or a batch: delete what was written, restore what `finish` deleted.",
        "migrate_commands",
        o.TARGET,
        {**o.ONLY, **rows(table.JobPlace, table.TakingOver), **o.YES, **o.WATCHED},
        places=("src", "dst"),
    ),
    "batch": Command(
        """\
Migrate many archives, each with a job of its own.

  zarrlift batch list old/ --to 'v3/{relative}.zarr' > all.jsonl
  zarrlift batch run all.jsonl      migrate all in the list
  zarrlift status all.jsonl         show all states
  zarrlift verify all.jsonl --full  compare every value
  zarrlift undo all.jsonl           take everything back

A list has one archive in each line, with its source, its destination, and any option of migrate, and may be
changed: JSON lines, or CSV. An archive that is refused or fails does not stop the others; the exit code is
then 1.

The verbs for one job do the same for a list: resume, status, verify, update, finish, undo.""",
    ),
    "batch list": Command(
        """\
Print a list of the archives in DIR, one in each line; nothing else is changed.

The list may be changed, and is run by batch run. Paths in it are relative to its folder: on standard output,
to the working directory if DIR and TEMPLATE are.""",
        "batch_commands",
        {"dirs": Argument("DIR...", "Folders, store prefixes or globs to search.", "+")},
        {
            **o.TO,
            **rows(table.Request),
            "list_file": Option(
                "Write the list to a file.", metavar="FILE", flag="--output -o", heading="Output"
            ),
            **o.RECIPE,
            **o.JSON,
        },
        places=("src",),
    ),
    "batch run": Command(
        """\
Migrate every archive of a list, or of folders, of which a list is written first.

A second run resumes an interrupted batch, and tries again what was refused or failed. Several processes
may run one list, also on several machines, such as the elements of a job array: each takes the archives
that no other one has claimed. With --dry-run, archives that cannot be migrated are listed with the cause.""",
        "batch_commands",
        {"lists": Argument("LIST...", "A list (.jsonl, .csv), or what to search as in batch list.", "+")},
        {
            **o.TO,
            **o.ONLY,
            "dry_run": o.DRY_RUN["dry_run"]._replace(help="Plan all archives; write nothing."),
            **rows(table.Request, table.Running, table.Watching),
            "list_file": Option(
                "The list to write; by default NAME.zarrlift.jsonl next to the results.",
                metavar="FILE",
                flag="--output -o",
                heading="Output",
            ),
            **o.RECIPE,
            **o.WATCHED,
        },
        places=("src", "dst"),
    ),
    "model": Command(
        """\
Describe, compare, validate and create hierarchies by Zarr Object Models (ZEP 6).

  zarrlift model show old.zarr > model.json    print the structure as JSON
  zarrlift model show old.zarr --as v3         ... as after a migration
  zarrlift model validate new.zarr model.json  check against a model
  zarrlift model diff old.zarr new.zarr        compare two structures
  zarrlift model create model.json empty.zarr  create it without values

A MODEL is a ZOM or a JSON Schema in a file (- for stdin).""",
    ),
    "model show": Command(
        "Print the hierarchy as a Zarr Object Model. Problems go to standard error.",
        "model_commands",
        o.HIERARCHY,
        {
            **o.AS,
            "flat": Option("Print one object: path -> node without members.", bool),
            "consolidated": Option("Print the consolidated metadata of the model.", bool),
            **o.RECIPE_FILE,
            **rows(table.Describing),
            **o.JSON,
        },
        places=("src",),
    ),
    "model schema": Command(
        "Write a JSON Schema (draft 2020-12): of all v2 or v3 models, or of one hierarchy.",
        "model_commands",
        {"source": Argument("SRC", "An archive or model; without it, the schema of a whole format.", "?")},
        {
            **o.OPEN,
            "as_": Option(
                "v3: the result of a migration of SRC. Without SRC: the format; v3 by default.",
                Literal["v2", "v3"],
                flag="--as",
            ),
            **rows(table.Describing),
        },
        places=("src",),
    ),
    "model validate": Command(
        "Check any number of archives against one model; every violation is listed with its path.",
        "model_commands",
        {"places": Argument("SRC... MODEL", "Archives (or models), then the MODEL.", "+")},
        {**o.OPEN, **o.AS, **rows(table.Describing), **o.JSON},
        places=("src",),
    ),
    "model diff": Command(
        "Compare the structure of two hierarchies, not values, storage or format. Exit code 1 if it differs.",
        "model_commands",
        {
            "first": Argument("A", o.HIERARCHY["source"].help),
            "second": Argument("B", "The other archive or model."),
        },
        {
            "ignore": Option(
                "A metadata member to skip, such as codecs; repeatable.", list[str], metavar="MEMBER"
            ),
            **rows(table.Reading),
            **o.JSON,
        },
        places=("src",),
    ),
    "model create": Command(
        "Create groups and arrays with their metadata. The root is written last.",
        "model_commands",
        {
            "source": Argument("ZOM", "A model in a file, - for stdin, or an archive."),
            "destination": Argument("DST", "Where to create it; must be empty."),
        },
        {**o.AS, "consolidate": Option("Also write consolidated metadata.", bool), **o.JSON},
        places=("dst",),
        unnamed=("dst",),
    ),
    "demo": Command(
        "Write small archives of Zarr v2, N5 and OME-NGFF, and say what to try with them.",
        "demo",
        {
            "folder": Argument(
                "DIR",
                "Where to write them, by default zarrlift-demo; must not exist yet.",
                "?",
                "zarrlift-demo",
            )
        },
        o.JSON,
    ),
    "completion": Command(
        """\
Print a script that completes zarrlift's commands, options and their values.

  bash  eval "$(zarrlift completion bash)"  in ~/.bashrc
  zsh   eval "$(zarrlift completion zsh)"   in ~/.zshrc, after compinit
  fish  zarrlift completion fish > ~/.config/fish/completions/zarrlift.fish""",
        "suggestions",
        {"shell": Argument("bash|zsh|fish", "The shell.")},
    ),
}
"""By name; the name of a command in a group begins with that of the group."""

TOP: Final = Command(
    "",
    options={
        "version": Option("Print the version.", bool, flag="--version -V"),
        "verbose": Option("With --version: the library of each codec.", bool, flag="--verbose -v"),
    },
)
"""What stands before the name of a command."""


def usage_of(name: str) -> str:
    """The words of a command, such as `zarrlift migrate [OPTIONS] SRC [DST]`."""
    arguments = COMMANDS[name].arguments.values()
    words = [f"[{each.metavar}]" if each.number in ("?", "*") else each.metavar for each in arguments]
    if COMMANDS[name].module is None:
        words = ["COMMAND [ARGS]..."]
    return " ".join(["zarrlift", name, "[OPTIONS]", *words])

"""What may have been meant by a wrong word, and what a shell may complete a word to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ..recipe.options import FORMATS, Option
from .commands import COMMANDS, TOP
from .exit_codes import DONE
from .given import Given, choices_of, usage
from .names import below
from .options import SETTABLE, words_of
from .session import Answer, plain


def _by_word(words: dict[str, str]) -> dict[str, str]:
    return {word: ours for ours, others in words.items() for word in others.split()}


OTHER_COMMANDS: Final = _by_word(
    {
        "--help": "help",
        "--version": "version",
        "batch run": "bulk run",
        "completion": "genautocomplete",
        "demo": "example examples init tutorial",
        "finish": "clean cleanup remove-metadata",
        "inspect": "cat describe dir info list lookup ls lsd lsf lsjson lsl ncdu show size stat tree",
        "migrate": (
            "archive backup clone convert copy copyto copyurl cp move moveto mv plan preview resave start "
            "upgrade"
        ),
        "model create": "create",
        "model diff": "diff",
        "model schema": "schema",
        "model show": "dump metadata",
        "model validate": "validate",
        "resume": "continue rerun restart retry",
        "status": "browse history jobs log monitor pause progress report view watch",
        "undo": "cancel delete purge remove restore revert rm rollback",
        "update": "bisync refresh sync",
        "verify": "check checksum compare cryptcheck hashsum md5sum sha1sum test",
    }
)
"""Commands of rclone, gh, zarr, ome2024-ngff-challenge and the like -> ours."""
OTHER_OPTIONS: Final = _by_word(
    {
        "--bwlimit": "bandwidth limit-rate rate",
        "--chunks": "block-size chunk-size output-chunks rechunk",
        "--codecs": "codec compression compressor compressors",
        "--consolidate": "consolidate-metadata consolidated",
        "--delete": "allow-delete cleanup delete-after delete-before delete-during delete-excluded",
        "--dry-run": "dryrun interactive output-write-details plan preview simulate what-if",
        "--dtype": "data-type type",
        "--exclude": "exclude-from",
        "--executor": "backend cluster scheduler",
        "--follow-links": "copy-links links skip-links symlinks",
        "--from": "format from-format input-format source-format zarr-format",
        "--full": "download",
        "--html": "web",
        "--in-place": "inplace remove-v2-metadata",
        "--include": "array filter filter-from include-from",
        "--json": "jq",
        "--link": "hard-links hardlink",
        "--log": "log-file structured-logs use-json-log",
        "--memory": "buffer-size max-memory mem ram",
        "--overwrite": "force output-overwrite replace",
        "--quiet": "silent",
        "--recipe": "config output-read-details",
        "--shards": "output-shards shard-shape shard-size sharding",
        "--source-through": "retries tpslimit",
        "--storage-options": (
            "anon endpoint endpoint-url input-anon input-bucket input-endpoint input-region output-anon "
            "output-bucket output-endpoint output-region profile region s3-access-key-id s3-endpoint "
            "s3-provider s3-region"
        ),
        "--to": "destination out output template",
        "--verbose": "debug details log-level progress",
        "--verify": "checksum",
        "--watch": "follow",
        "--workers": (
            "checkers concurrency cores cpus jobs multi-thread-streams num-workers output-threads parallel "
            "parallelism processes procs threads transfers"
        ),
        "--yes": "confirm no-confirm no-prompt",
    }
)
"""Options of the same programs, without hyphens -> ours."""


def unknown_command(group: str, words: list[str]) -> Exception:
    """The error for words that begin with what is not a command of a group, or of the whole command line."""
    from zarrstack.core.units import safe

    from ..core.problems import command

    word = words[0]
    message = f"{safe(word)} is not a command" + (f" of {group}" if group else "")
    if not group and ("/" in word or "." in word):
        return usage(f"{message}; did you mean: {command('migrate', *words)}?")
    names = {name.removeprefix(f"{group} "): name for name in COMMANDS}
    near = OTHER_COMMANDS.get(f"{group} {word}".strip()) or names.get(word)
    near = near or names.get(_nearest(word, below(group)) or "")
    near = near or OTHER_COMMANDS.get(word) or names.get(_nearest(word, names) or "")
    if near is not None:
        return usage(f"{message}; did you mean: zarrlift {near}?")
    return usage(message, expected=f"{', '.join(below(group))}")


def unknown_option(name: str, flag: str) -> Exception:
    """The error for an option that a command, a group of commands or the whole command line does not have."""
    from zarrstack.core.units import safe

    here = [word for word, _, _ in words_of(COMMANDS[name] if name else TOP)]
    elsewhere: dict[str, list[str]] = {}
    for other, command in COMMANDS.items():
        for word, _, _ in words_of(command):
            elsewhere.setdefault(word, []).append(other)
    message = f"{safe(flag)} is not an option of {name or 'zarrlift'}"
    if flag in elsewhere:
        message += f", but of {_listed(elsewhere[flag])}" + ("" if name else "; it follows the command")
    meant = OTHER_OPTIONS.get(flag.lstrip("-"))
    if meant not in here and f"-{flag}" in here:
        meant = f"-{flag}"
    if meant in here:
        return usage(f"{message}; did you mean {meant}?")
    if flag in elsewhere:
        return usage(message)
    meant = meant or _nearest(flag, here) or _nearest(flag, elsewhere)
    if meant is None:
        return usage(message, expected=f"one of those that zarrlift {name} --help shows".replace("  ", " "))
    of = "" if meant in here else f", an option of {_listed(elsewhere[meant])}"
    return usage(f"{message}; did you mean {meant}{of}?")


def _listed(names: list[str]) -> str:
    """Names as a text, such as `a, b and c`."""
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _nearest(word: str, candidates: Iterable[str]) -> str | None:
    """The candidate with the fewest differences, or None."""
    from difflib import SequenceMatcher

    most = max(1, len(word.lstrip("-")) // 3)
    near = [(_changes(word, each), -SequenceMatcher(None, word, each).ratio(), each) for each in candidates]
    changes, _, name = min(near, default=(most + 1, 0.0, ""))
    return name if changes <= most else None


def _changes(first: str, second: str) -> int:
    """Letters to add, remove or replace, and pairs of letters to exchange, to make one word of another."""
    before: list[int] = []
    row = list(range(len(second) + 1))
    for place, letter in enumerate(first):
        before, row, above = row, [place + 1], before
        for other, wanted in enumerate(second):
            least = min(before[other] + (letter != wanted), before[other + 1] + 1, row[other] + 1)
            if place and other and letter == second[other - 1] and first[place - 1] == wanted:
                least = min(least, above[other - 1] + 1)
            row.append(least)
    return row[-1]


COMPLETE: Final = "_ZARRLIFT_COMPLETE"
"""The line to complete, up to the cursor; the scripts set it, and read candidates from standard output."""
SCRIPTS: Final = {
    # bash starts a new word after "=", and replaces that word only.
    "bash": """\
_zarrlift_completion() {
    local IFS=$'\\n' line="${COMP_LINE:0:COMP_POINT}"
    local word="${line##* }"
    COMPREPLY=($(_ZARRLIFT_COMPLETE="$line" zarrlift))
    if [[ "$word" == *=* ]]; then COMPREPLY=("${COMPREPLY[@]#"${word%"${word##*=}"}"}"); fi
    if [[ "${COMPREPLY[0]}" == *= ]]; then compopt -o nospace 2> /dev/null; fi
}
complete -o default -F _zarrlift_completion zarrlift""",
    "zsh": """\
_zarrlift_completion() {
    local -a candidates
    candidates=(${(f)"$(_ZARRLIFT_COMPLETE="${(j: :)words[1,CURRENT]}" zarrlift)"})
    if (( $#candidates )); then compadd -- $candidates; else _files; fi
}
compdef _zarrlift_completion zarrlift""",
    "fish": """\
function __zarrlift_completion
    env _ZARRLIFT_COMPLETE=(commandline -cp) zarrlift
end
complete -c zarrlift -a '(__zarrlift_completion)'""",
}


def completion(given: Given) -> Answer:
    """The script of a shell."""
    if given.shell not in SCRIPTS:
        raise usage(f"{given.shell!r} is not a shell that zarrlift knows", expected=", ".join(SCRIPTS))
    return Answer(code=DONE, text=lambda: plain([SCRIPTS[given.shell]]), data=dict)


def candidates(line: str) -> list[str]:
    """What the last word of a line may become; empty for names of files."""
    _, *words, last = line.split(" ")
    name = ""
    for word in words:
        longer = f"{name} {word}".strip()
        name = longer if longer in COMMANDS else name
    options = {word: (each, row) for word, each, row in words_of(COMMANDS[name] if name else TOP)}
    before, equals, _ = last.partition("=")
    if equals and before in options:
        found = [f"{before}={value}" for value in _values(*options[before], last)]
    elif words and words[-1] in options and options[words[-1]][1].type is not bool:
        found = _values(*options[words[-1]], last)
    elif last.startswith("-"):
        found = list(options)
    elif name == "completion":
        found = list(SCRIPTS)
    else:
        found = list(below(name))
    return [word for word in found if word.startswith(last)]


def _values(name: str, row: Option, word: str) -> list[str]:
    """The values that an option takes, if they are known."""
    if name == "format":
        return list(FORMATS)
    if name != "rare":
        return list(row.choices)
    setting, equals, _ = word.partition("=")
    if not equals:
        return [f"{each.replace('_', '-')}=" for each in SETTABLE]
    settable = SETTABLE.get(setting.replace("-", "_"))
    return [f"{setting}={choice}" for choice in (choices_of(settable) if settable else ())]

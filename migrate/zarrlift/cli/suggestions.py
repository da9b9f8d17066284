"""What may have been meant by a wrong word, and what a shell may complete a word to."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from zarrstack.core.similar_names import nearest

from ..core.problems import command
from ..core.units import safe
from ..recipe.options import FORMATS, Option
from ..recipe.other_words import OTHER_OPTIONS, by_word
from ..storage.redact import redact
from .commands import COMMANDS, TOP
from .exit_codes import DONE
from .names import below
from .options import SETTABLE, Given, choices_of, usage, words_of
from .session import Answer, plain

OTHER_COMMANDS: Final = by_word(
    {
        "--help": "help",
        "--version": "version",
        "batch run": "bulk run",
        "completion": "genautocomplete",
        "demo": "example examples init tutorial",
        "finish": "clean cleanup remove-metadata",
        "inspect": "cat describe dir info list listremotes lookup ls lsd lsf lsjson lsl ncdu show size tree",
        "migrate": (
            "archive backup clone convert copy copyto copyurl cp download export import move moveto mv plan "
            "preview push resave save start transfer transform upgrade upload"
        ),
        "model create": "create",
        "model diff": "diff",
        "model schema": "schema",
        "model show": "dump metadata",
        "model validate": "validate",
        "resume": "continue rerun restart retry",
        "status": "browse history jobs log monitor pause progress report view watch",
        "undo": "cancel delete deletefile purge remove restore revert rm rmdir rmdirs rollback",
        "update": "bisync refresh sync",
        "verify": "check checksum compare cryptcheck hashsum md5sum sha1sum test",
    }
)
"""Commands of rclone, gh, zarr, ome2024-ngff-challenge and the like -> ours."""


_SETTINGS: Final = {
    "anon": "anon=true",
    "endpoint": "endpoint_url=URL",
    "endpoint-url": "endpoint_url=URL",
    "profile": "profile=NAME",
    "region": "region=NAME",
}
"""Options of other programs -> what `--storage-options` takes for them."""


def unknown_command(group: str, words: list[str]) -> Exception:
    """The error for words that begin with what is not a command of a group, or of the whole command line."""
    word = words[0]
    message = f"{safe(redact(word))} is not a command" + (f" of {group}" if group else "")
    if not group and ("/" in word or "." in word):
        return usage(f"{message}; did you mean: {command('migrate', *map(redact, words))}?")
    names = {name.removeprefix(f"{group} "): name for name in COMMANDS}
    near = OTHER_COMMANDS.get(f"{group} {word}".strip()) or names.get(word)
    near = near or names.get(_near(word, below(group)) or "")
    near = near or OTHER_COMMANDS.get(word) or names.get(_near(word, names) or "")
    if near is not None:
        return usage(f"{message}; did you mean: zarrlift {near}?")
    return usage(message, expected=f"{', '.join(below(group))}")


def unknown_option(name: str, flag: str) -> Exception:
    """The error for an option that a command, a group of commands or the whole command line does not have."""
    here = [word for word, _, _ in words_of(COMMANDS[name] if name else TOP)]
    elsewhere: dict[str, list[str]] = {}
    for other, its in COMMANDS.items():
        for word, _, _ in words_of(its):
            elsewhere.setdefault(word, []).append(other)
    message = f"{safe(flag)} is not an option of {name or 'zarrlift'}"
    if flag in elsewhere:
        message += f", but of {_listed(elsewhere[flag])}" + ("" if name else "; it follows the command")
    meant = OTHER_OPTIONS.get(flag.lstrip("-"))
    if meant not in here and f"-{flag}" in here:
        meant = f"-{flag}"
    if meant in here:
        setting = _SETTINGS.get(re.sub("^(s3|input|output)-", "", flag.lstrip("-")), "")
        return usage(f"{message}; did you mean {f'{meant} {setting}'.strip()}?")
    if flag in elsewhere:
        return usage(message)
    meant = meant or _near(flag, here) or _near(flag, elsewhere)
    if meant is None:
        return usage(message, expected=f"one of those that zarrlift {name} --help shows".replace("  ", " "))
    of = "" if meant in here else f", an option of {_listed(elsewhere[meant])}"
    return usage(f"{message}; did you mean {meant}{of}?")


def _near(word: str, candidates: Iterable[str]) -> str | None:
    """The only candidate that begins with a word, or else the most similar one, if any."""
    longer = [each for each in candidates if each.startswith(word)]
    return longer[0] if len(longer) == 1 else nearest(word, candidates)


def _listed(names: list[str]) -> str:
    """Names as a text, such as `a, b and c`."""
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


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

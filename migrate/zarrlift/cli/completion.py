"""`zarrlift completion`: the scripts for shells, and what they complete."""

from __future__ import annotations

from typing import Final

from ..recipe.options import FORMATS, Option
from .commands import COMMANDS, TOP
from .exit_codes import DONE
from .given import Given, choices_of, usage
from .names import below
from .options import SETTABLE, words_of
from .session import Answer, plain

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

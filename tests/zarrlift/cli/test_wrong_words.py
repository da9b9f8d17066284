"""A word that is not a command or an option: one line on standard error, with the word that was meant."""

from __future__ import annotations

import json
import re
import shlex

import pytest

from zarrlift.cli import main
from zarrlift.cli.commands import COMMANDS
from zarrlift.cli.names import below
from zarrlift.cli.options import words_of
from zarrlift.cli.parser import parsed
from zarrlift.core.units import quoted

OTHERS = {
    "rclone": """
        copy migrate / copyto migrate / move migrate / sync update / bisync update / check verify
        cryptcheck verify / hashsum verify / ls inspect / lsd inspect / lsl inspect / lsf inspect
        lsjson inspect / tree inspect / size inspect / cat inspect / ncdu inspect / delete undo
        purge undo / version --version / help --help / genautocomplete completion
        migrate --transfers --workers / migrate --checkers --workers
        migrate --multi-thread-streams --workers / migrate --progress --verbose
        migrate --log-file --log / migrate --log-level --verbose / migrate --use-json-log --log
        migrate --filter --include / migrate --include-from --include
        migrate --exclude-from --exclude / migrate --copy-links --follow-links
        migrate --links --follow-links / migrate --retries --source-through
        migrate --tpslimit --source-through / migrate --buffer-size --memory
        migrate --s3-endpoint --storage-options / migrate --s3-region --storage-options
        migrate --s3-provider --storage-options / migrate --config --recipe
        migrate --checksum --verify / migrate --interactive --dry-run / update --delete-after --delete
        update --delete-excluded --delete / update --delete-during --delete / verify --download --full
        migrate --bwlmit --bwlimit
    """,
    "gh": """
        view status / list inspect / watch status / rerun resume / cancel undo / create model create
        browse status / run batch run / version --version / help --help / status --web --html
        status --jq --json / undo --confirm --yes / status --follow --watch
    """,
    "zarr": """
        remove-metadata finish / migrate --force --overwrite / migrate --zarr-format --from
        migrate --remove-v2-metadata --in-place
    """,
    "ome2024-ngff-challenge": """
        resave migrate / lookup inspect / migrate --input-bucket --storage-options
        migrate --input-endpoint --storage-options / migrate --input-anon --storage-options
        migrate --input-region --storage-options / migrate --output-bucket --storage-options
        migrate --output-endpoint --storage-options / migrate --output-region --storage-options
        migrate --output-overwrite --overwrite / migrate --output-chunks --chunks
        migrate --output-shards --shards / migrate --output-threads --workers
        migrate --output-read-details --recipe / migrate --output-write-details --dry-run
        migrate --silent --quiet
    """,
}
"""What users of other programs would type, and the word of ours, which follows."""


def changed(word):
    """A word with a letter lost, doubled, or exchanged with the next one."""
    start = len(word) - len(word.lstrip("-"))
    for place in range(start, len(word)):
        yield word[:place] + word[place + 1 :]
        yield word[:place] + word[place] + word[place:]
        yield word[:place] + word[place + 1 : place + 2] + word[place] + word[place + 2 :]


def by_rule():
    """(words, what the line must name), of every command and option."""
    for name in COMMANDS:
        group, _, last = name.rpartition(" ")
        for word in changed(last):
            if word and word not in below(group):
                yield [*group.split(), word], f"zarrlift {name}"
    every = {word: row for command in COMMANDS.values() for word, _, row in words_of(command)}
    for name, command in COMMANDS.items():
        here = {word for word, _, _ in words_of(command)}
        for right in here:
            for word in changed(right) if right.startswith("--") else ():
                if word not in here and word.strip("-"):
                    yield [*name.split(), word], right
        for word in every.keys() - here:
            having = [other for other, of in COMMANDS.items() if word in [each for each, *_ in words_of(of)]]
            yield [*name.split(), word], f"but of {having[0]}"


def of_others():
    """(words, what the line must name), of other programs."""
    for text in OTHERS.values():
        for line in text.replace("\n", "/").split("/"):
            match line.split():
                case [command, flag, right] if flag.startswith("--"):
                    yield [command, flag], right
                case [word, *right]:
                    yield [word], f"zarrlift {' '.join(right)}"


@pytest.mark.parametrize(("cases", "one_in"), [(by_rule, 7), (of_others, 1)])
def test_a_wrong_word_gets_one_line_with_the_right_one(cases, one_in, capsys):
    wrong, every = [], [*cases()][::one_in]
    for words, right in every:
        assert main([*words, "a", "b"]) == 2, words
        out, err = capsys.readouterr()
        assert (out == "") is ("--json" not in words)
        assert err.startswith("zarrlift: ")
        assert err.count("\n") == 1
        meant = err if right.startswith("but of") else err.partition("did you mean")[2]
        if not re.search(rf"(?<![\w-]){re.escape(right)}(?![\w-])", meant):
            wrong.append((" ".join(words), right, err.strip()))
    share = 1 - len(wrong) / len(every)
    print(f"{cases.__name__}: {share:.1%} of {len(every)} words right; not: {wrong}")
    assert share >= 0.95, wrong


QUOTED = quoted("n w")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("migrate a b --chunk 4", "--chunk is not an option of migrate; did you mean --chunks?"),
        ("status a --chunks 4", "--chunks is not an option of status, but of migrate, batch list and"),
        ("-n migrate a b", "-n is not an option of zarrlift, but of migrate, update and batch run; it"),
        ("migrate -overwrite a b", "-overwrite is not an option of migrate; did you mean --overwrite?"),
        ("migrate a b --overwrite=yes", "--overwrite takes no value; expected --overwrite"),
        ("migrate a b --codecs", "--codecs needs a value; expected --codecs CODECS"),
        ("migrate a b --codecs --json", "--codecs needs a value; expected --codecs CODECS"),
        ("migrate a b c", "unexpected word 'c'; expected zarrlift migrate [OPTIONS] SRC [DST]"),
        ("migrate a b --storage-options x=1 key=hunter2", "unexpected word 'key'; expected zarrlift migrate"),
        ("s3://me:hunter2@b/a c", "s3://b/a is not a command; did you mean: zarrlift migrate s3://b/a c?"),
        ("migrate a --over b", "--over is not an option of migrate; did you mean --overwrite?"),
        ("mig a b", "mig is not a command; did you mean: zarrlift migrate?"),
        ("verify", "verify needs SRC; expected zarrlift verify [OPTIONS] SRC [DST]"),
        ("model diff a", "model diff needs B; expected zarrlift model diff [OPTIONS] A B"),
        ("old.zarr 'n w'", f"old.zarr is not a command; did you mean: zarrlift migrate old.zarr {QUOTED}?"),
        ("migrate v3 a b", "migrate needs no 'v3', which it always writes; did you mean: zarrlift mi"),
        ("migrate v3 a --storage-options k=hunter2", "migrate needs no 'v3', which it always writes; did"),
        ("remove-metadata v2 a", "remove-metadata is not a command; did you mean: zarrlift finish?"),
        ("batch resume a", "resume is not a command of batch; did you mean: zarrlift resume?"),
        ("validate a b", "validate is not a command; did you mean: zarrlift model validate?"),
        ("xyz", "xyz is not a command; expected inspect, migrate, resume, update, status, verify"),
        ("sync a b", "sync is not a command; did you mean: zarrlift update?"),
        ("info a", "info is not a command; did you mean: zarrlift inspect?"),
        ("convert a b", "convert is not a command; did you mean: zarrlift migrate?"),
        ("migrate a b --compressor x", "--compressor is not an option of migrate; did you mean --codecs?"),
        ("migrate a b --endpoint-url=u", "--endpoint-url is not an option of migrate; did you mean --stor"),
        ("inspect a --profile hunter2", "--profile is not an option of inspect; did you mean"),
        ("migrate a b --qqq", "--qqq is not an option of migrate; expected one of those that zarrlift"),
    ],
)  # fmt: skip
def test_the_line_for_a_wrong_word(words, line, capsys):
    assert main(shlex.split(words)) == 2
    out, err = capsys.readouterr()
    assert (out == "") is ("--json" not in words)
    assert err.startswith(f"zarrlift: {line}")
    assert err.count("\n") == 1
    assert "hunter2" not in err
    assert main([*shlex.split(words), "--json"]) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert (error["kind"], error["severity"]) == ("usage", "refusal")


@pytest.mark.parametrize(
    "words",
    [
        "-nqj3 a b --chunks=-1,64 --set=order=C",
        "a --chunks -1,64 -j 3 b -q -n --set order=C",
        "--workers=3 --set order=C --chunks -1,64 --dry-run --quiet -- a b",
    ],
)
def test_options_stand_in_any_order_and_form(words):
    given = parsed("migrate", words.split())
    assert (given.source, given.destination, given.chunks, given.workers) == ("a", "b", "-1,64", 3)
    assert (given.dry_run, given.quiet, given.rare, given.consolidate) == (True, True, ["order=C"], None)


def test_the_later_one_of_a_pair_wins_and_others_are_collected():
    given = parsed("migrate", "a --consolidate --include x --no-consolidate --include -z".split())
    assert (given.consolidate, given.include) == (False, ["x", "-z"])
    assert parsed("migrate", ["--", "-a", "-b"]).destination == "-b"

"""`zarrlift batch`: many archives, each with a job of its own. Loaded for these commands only."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from ..recipe.options import Request, Running, Watching
from .exit_codes import DONE
from .migrate_commands import moving
from .options import Given
from .session import Answer, plain


def list(given: Given) -> Answer:  # noqa: A001 - the name of the command
    """Print a list of the archives in folders, or write it to a file."""
    from ..core.problems import command
    from ..jobs.batch.batch import list_path
    from ..jobs.batch.list_file import list_text, write_list
    from ..jobs.batch.rows import RowRequest, find_archives
    from ..storage.open_storage import is_url

    asked: dict[str, Any] = {"recipe": given.recipe(), **given.reading(), **given.of(Request)}
    path = None if given.list_file is None else list_path(given.dirs, given.to, given.list_file)
    folder = Path.cwd() if path is None else path.parent
    rows = find_archives(given.dirs, given.to, RowRequest(**asked), folder, **given.storage())
    # Where a printed list will be is not known, unless the user means the working directory.
    places = (*given.dirs, given.to or "")
    is_known = path is not None or not any(is_url(place) or os.path.isabs(place) for place in places)
    lines = shown = list_text(rows, str(folder) if is_known else "").splitlines()
    if path is not None:
        write_list(path, rows)
        shown = [f"Run the list with: {command('batch', 'run', str(path))}"]
    return Answer(
        code=DONE,
        text=lambda: plain(shown),
        data=lambda: {"list_file": path and str(path), "rows": [json.loads(line) for line in lines]},
    )


def run(given: Given) -> Answer:
    """Migrate every archive of a list, or of folders."""

    def work(progress: Any) -> Any:
        import zarrlift

        how: dict[str, Any] = {name: vars(given)[name] for name in ("to", "list_file", "only", "dry_run")}
        how |= {"recipe": given.recipe(), "progress": progress}
        how |= {**given.reading(), **given.of(Request, Running, Watching), **given.storage()}
        return zarrlift.batch(*given.lists, **how).outcome

    return moving(work, None, given)

"""`zarrlift limit`: changes the bandwidth of a job while it runs."""

from __future__ import annotations

from typing import Annotated

import typer

from . import options as o
from .session import DONE, Answer, plain


def limit(
    target: o.Target,
    rate: Annotated[str, typer.Argument(help="Such as 20MB/s, or off for no limit.", metavar="RATE")],
    *,
    options: o.JobFile,
) -> Answer:
    """Change the bandwidth of a job that was started with --bwlimit, while it runs or for its next run.

    Workers in other processes take it up with their next task. To pause a job, stop it with Ctrl-C, and
    continue it later with zarrlift resume.
    """
    import zarrlift

    zarrlift.limit(target, rate, **options.arguments())
    text = "no limit" if rate == "off" else f"at most {rate} at each end"
    return Answer(code=DONE, text=lambda: plain([f"The job has {text}."]), data=dict)

"""The command that serves an archive as Zarr v3, or a Zarr v3 hierarchy in an older format."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import typer

from ..recipe.changes import Separator
from . import options as o
from .option_groups import whole_number
from .recipe_options import Recipe, load_recipe
from .session import DONE, Answer, OutputError, say, write

Shown: TypeAlias = Literal["zarr3", "zarr2", "n5"]
_HOST = "127.0.0.1"
_PORT = 8383


def _open_in_browser(address: str) -> None:
    """Open a page in the desktop's browser, if there is one; a browser of the terminal would take it over."""
    import os
    import threading
    import webbrowser
    from contextlib import suppress

    with suppress(webbrowser.Error):
        browser = webbrowser.get()
        if os.environ.get("BROWSER") or type(browser) is not webbrowser.GenericBrowser:
            threading.Thread(target=browser.open, args=(address,), daemon=True).start()


def serve(
    source: o.Source,
    port: Annotated[
        int,
        typer.Option(
            "--port",
            help="The port to listen on; 0 selects a free one.",
            metavar="PORT",
            parser=whole_number(0, 65535),
        ),
    ] = _PORT,
    host: Annotated[
        str,
        typer.Option(
            "--host",
            help="The address to listen on; 0.0.0.0 is reachable from other machines.",
            metavar="ADDRESS",
        ),
    ] = _HOST,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-origin",
            help="Web pages that may read in a browser: https://HOST (repeatable), or * for all.",
            metavar="ORIGIN",
        ),
    ] = None,
    as_: Annotated[
        Shown, typer.Option("--as", help="The format served: zarr2 and n5 are for readers without Zarr v3.")
    ] = "zarr3",
    separator: Annotated[
        Separator | None,
        typer.Option("--separator", help="With --as zarr2: separator in chunk keys; a dot by default."),
    ] = None,
    open_: Annotated[
        bool,
        typer.Option(
            "--open", help="Open the page in a browser, print links for viewers, and allow their origins."
        ),
    ] = False,
    recipe_file: Recipe = None,
    *,
    reading: o.Reading,
    storage_options: o.SourceStorage,
) -> Answer:
    """Serve an archive over HTTP as Zarr v3, without converting it, read-only, until Ctrl-C."""
    import sys

    from zarrstack.core.errors import UsageError

    from ..formats.describe import opened
    from ..planning.images import first_image
    from ..report.html.pages import served_page
    from ..report.page import Page
    from ..report.text import lines as text_lines
    from ..report.viewers import ORIGINS, viewer_links
    from ..views.http_server import ServedView, require_server, run
    from ..views.legacy import view_of

    require_server()
    if separator is not None and as_ != "zarr2":
        raise UsageError("--separator is for the chunk keys of Zarr v2", expected="--as zarr2")
    storage, options, format = opened(source, {**reading.arguments(), **storage_options.arguments()})  # noqa: A001
    origins = frozenset(allow_origin or ()) | (ORIGINS if open_ else frozenset())
    recipe = load_recipe(recipe_file)
    image = None
    if open_ or as_ == "zarr3":
        view = view_of(storage, format=format, reading=options, recipe=recipe)
        image = first_image(view.plan, as_) if open_ else None
    if as_ == "zarr3":
        kinds: dict[str, Any] = {"view": view}
        problems = view.plan.all_problems()
    else:
        from ..views.reverse import presented

        how: dict[str, Any] = {"format": format, "reading": options, "recipe": recipe}
        reverse = presented(storage, as_, separator=separator or ".", **how)
        kinds = {"view": reverse, "shown_as": reverse.shown_as, "documents": reverse.document_names}
        problems = reverse.problems
    page = served_page(storage, format=format, reading=options, shown_as=as_, origins=origins)
    served = ServedView(url=storage.url, origins=origins, page=page, **kinds)
    for problem in problems:
        if problem.severity == "refusal":
            say(f"zarrlift: not served: {problem}")

    def ready(address: str) -> None:
        lines = [f"{storage.url} as {served.shown_as}: {address} (Ctrl-C stops)"]
        if image is not None:
            lines += text_lines([viewer_links(image, address, as_)], Page.of(sys.stdout))
        try:
            write("".join(f"{line}\n" for line in lines), sys.stdout)
        except OutputError:
            say(lines[0])
        if open_:
            _open_in_browser(address)

    run(served, host=host, port=port, ready=ready)
    reading.session.interrupted = False  # Ctrl-C is the normal end of a server
    return Answer(code=DONE, text=tuple, data=dict)

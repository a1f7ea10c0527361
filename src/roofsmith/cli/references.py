"""Reference projects: other people's kernels, to look things up in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from roofsmith import api
from roofsmith.cli import options
from roofsmith.cli.knowledge import knowledge
from roofsmith.cli.output import print_json, print_lines
from roofsmith.wording import plural

references = typer.Typer(
    no_args_is_help=True, help="Folders of other people's kernels, searched as data."
)
knowledge.add_typer(references, name="references")

Folders = Annotated[
    list[Path] | None,
    typer.Option(
        "--in", metavar="DIR", exists=True, file_okay=False, help="A reference project; repeat."
    ),
]  # fmt: skip
OfTarget = Annotated[
    Path | None,
    typer.Option(
        "--target",
        help="A target whose `references` are meant.",
        show_default="target.yaml, if it is here",
    ),
]


@references.command()
def index(folder: Folders = None, target: OfTarget = None, as_json: options.Json = False) -> None:
    """The kernels that a search finds, and which files aren't read."""
    projects, sources = api.index_references(api.folders_of(folder or (), target))
    kernels = [
        {"where": f"{source.path}:{line}", "symbol": name, "language": language}
        for source in sources
        for name, line, language in source.kernels
    ]
    if as_json:
        left_out = list(projects.reasons)
        print_json({"files": projects.files, "kernels": kernels, "left_out": left_out})
        return
    print_lines([f"{one['symbol']} ({one['language']}) {one['where']}" for one in kernels])
    read = f"{plural(len(kernels), 'kernel')} in {projects.files} files"
    print_lines([read, *projects.reasons])


@references.command()
def search(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="Such as 'flash attention'.")],
    language: Annotated[
        str | None, typer.Option(help="Such as cuda, triton, cutedsl: first among equals.")
    ] = None,
    folder: Folders = None,
    target: OfTarget = None,
    as_json: options.Json = False,
) -> None:
    """Kernels of an operator, by name, path and words. Exit 1 if there are none."""
    found = api.search_references(query, api.folders_of(folder or (), target), language)
    if as_json:
        print_json(found.model_dump(mode="json"))
    else:
        hits = (f"{hit.where} {hit.symbol} ({hit.language}): {hit.text}" for hit in found.hits)
        count = f"{plural(len(found.hits), 'hit')} in {found.files} files"
        print_lines([*hits, count, *found.left_out])
    raise typer.Exit(0 if found.hits else 1)


@references.command()
def show(
    place: Annotated[str, typer.Argument(metavar="FILE:LINE", help="As search prints it.")],
    folder: Folders = None,
    target: OfTarget = None,
    as_json: options.Json = False,
) -> None:
    """The lines of a reference from there on."""
    path, lines = api.show_reference(place, api.folders_of(folder or (), target))
    if as_json:
        print_json({"file": str(path), "lines": [{"line": n, "text": text} for n, text in lines]})
    else:
        print_lines([f"{number:>5}  {text}" for number, text in lines])

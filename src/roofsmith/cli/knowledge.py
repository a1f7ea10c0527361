"""The library: pages by operator, hardware and backend."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from roofsmith import api
from roofsmith.cli import options
from roofsmith.cli.output import dumped, print_json, printed
from roofsmith.cli.root import cli

knowledge = typer.Typer(
    no_args_is_help=True,
    help="What is known to help a kernel: directions by operator, hardware, backend and bottleneck,"
    " each with its source.",
)
cli.add_typer(knowledge, name="knowledge")


@knowledge.command("list")
def list_(as_json: options.Json = False) -> None:
    """Every page, and what is wrong with pages of your own; those in $ROOFSMITH_KNOWLEDGE win."""
    from roofsmith.api.views import knowledge as views

    found = api.knowledge.library(api.settings())
    printed(found, api.knowledge.library_document, views.listing, as_json=as_json)


@knowledge.command()
def show(
    page: Annotated[str, typer.Argument(metavar="ID", help="Such as ops/softmax.")],
    as_json: options.Json = False,
) -> None:
    """Print a page, Markdown as it is written."""
    whole = api.knowledge.library(api.settings())
    _remark(whole.findings)
    found = whole.page(page)
    if as_json:
        print_json(dumped(found))
    else:
        sys.stdout.write(found.text)


@knowledge.command()
def search(
    words: Annotated[list[str], typer.Argument(metavar="WORD...")], as_json: options.Json = False
) -> None:
    """Pages that have all the words, and the line with most of them."""
    from roofsmith.api.views import knowledge as views

    whole = api.knowledge.library(api.settings())
    _remark(whole.findings)
    found = whole.search(" ".join(words))
    printed(found, api.knowledge.hits_document, views.hits, as_json=as_json)


@knowledge.command()
def route(
    op: Annotated[str | None, typer.Option(help="Operator, such as softmax or gemm.")] = None,
    gpu: Annotated[
        str | None,
        typer.Option(
            help="A product, such as H100, or an architecture: sm_90, gfx942, x86-64-avx512."
        ),
    ] = None,
    lang: Annotated[str | None, typer.Option(help="Such as cuda, triton, hip, c.")] = None,
    bottleneck: Annotated[
        str | None, typer.Option(help="memory, compute, latency, occupancy, launch or tail.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """The pages for a kernel, the most specific first, with the directions that fit."""
    from roofsmith.api.views import knowledge as views

    _remark(api.knowledge.library(api.settings()).findings)
    found = api.knowledge.route(api.settings(), op, gpu, lang, bottleneck)
    printed(found, api.knowledge.pages_document, views.routed, as_json=as_json)


def _remark(findings: Sequence[object]) -> None:
    """That pages of one's own are wrong, as what they say may be missed."""
    if findings:
        said = "something is wrong with pages of your own: `roofsmith knowledge list` names it"
        print(f"roofsmith: {said}", file=sys.stderr)

"""Writes the generated pages: cli, recipes, measured, results, rules and parts of others.

`make docs` runs it; the tests compare what it returns with what is checked in.
"""

from __future__ import annotations

import inspect
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import judged
import measured
import rules
import typer
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from typer.models import ArgumentInfo, OptionInfo

import results
from roofsmith.asking.page import DROPPED
from roofsmith.cli import main as _main  # noqa: F401 - registers every command
from roofsmith.cli.arrangement import FORMER, SHOWN
from roofsmith.cli.root import cli
from roofsmith.domain.answer import Answer
from roofsmith.domain.command import CommandSection, ProfileCommand
from roofsmith.domain.dialects import DIALECTS
from roofsmith.domain.target import Target
from roofsmith.domain.workload import Workload
from roofsmith.knowledge.library import Library
from roofsmith.proposers.cards import Card, all_cards
from roofsmith.specs.wiki import Wiki
from roofsmith.specs.wiki_page import Quality
from roofsmith.specs.wiki_schema import FACTS
from roofsmith.store.memory import SCHEMA, schema
from roofsmith.targets.schema import SECTIONS, TargetFile

DOCS = Path(__file__).resolve().parent
README = DOCS.parent / "README.md"
WIKI_INDEX = DOCS.parent / "src" / "roofsmith" / "specs" / "pages" / "README.md"
_GENERATED = "<!-- Written by `make docs`; edits are lost. -->\n\n"

_LANGUAGES = {name: dialect.label for name, dialect in DIALECTS.items()} | {
    "c": "C",
    "cpp": "C++",
    "cuda": "CUDA",
    "hip": "HIP",
    "triton": "Triton",
    "torch": "PyTorch",
}

_FILE_KEYS: Mapping[str, str] = {
    "name": "Of the target, in every table; by default the folder's name.",
    "kernel": "The naive, correct kernel, relative to this file; it is never written to.",
    "reference": "The Python file that says what is right, relative to this file.",
    "includes": "Further files that the kernel needs to build; not changed. One name or a list.",
    "workloads": "What the kernel is judged on: `{N: 4096, D: 2048}`, with `class: name` to "
    "declare a config class, or `N=4096,D=2048`.",
    "language": "By default from the kernel's suffix; a `.py` file that imports Triton is "
    "`triton`, any other `torch`.",
    "entry": "Name of the function.",
    "format": "What formats a candidate before it is built: `auto` (what the kernel's folder is "
    "configured for), `off`, `clang-format`, `ruff`, or a shell command.",
}
"""Keys whose meaning in the file differs from the target's field of that name."""


def cli_page() -> str:
    """docs/cli.md: every command with its arguments and options, and former names at the end."""
    former = (f"- `roofsmith {old}`: `roofsmith {' '.join(new)}`" for old, new in FORMER.items())
    told = "They work in this version as before:\n\n" + "\n".join(former) + "\n"
    sections = [*_commands(cli, "roofsmith"), "## Former names\n\n" + told]
    return _GENERATED + "# Commands\n\n" + "\n".join(sections)


def recipes_page() -> str:
    """docs/recipes.md: every strategy card."""
    cards = all_cards()
    head = (
        "# Recipes\n\n"
        f"{len(cards)} strategy cards, one file each in `src/roofsmith/proposers/recipes/`. Each "
        "is one change that a performance engineer would try. The proposer `recipes` ranks those "
        "that apply by their predicted gain, which counts half where a card answers another "
        "bottleneck than the classified one. Every result is judged like any other change: a "
        "card can be useless, but it can't be wrong unnoticed.\n\n"
        "Cards read `solve` and all that it calls in its file: static functions, templates, "
        "members of classes. `A[i][j]` is read as the flat index, and so is `*p++` in an innermost "
        "loop that counts from 0; where such a kernel is changed, pointers that moved are written "
        "as indices. "
        "A card that was slower by far isn't tried again where it would do the same.\n\n"
        "Cards of `recipes/families/` put a whole implementation in the place of the kernel's own, "
        "where the shapes of the target's arrays fit on every workload. Of a module "
        "`setup` and what it needs stay, `run_kernel` keeps its arguments, and everything "
        "else goes; the new kernels declare what a sweep may tune. Shapes don't say everything: "
        "whether attention is causal is read off the kernel's words. Without `family:` in the "
        "target such a card asks for its family's name in the kernel's file. What such a card "
        "predicts is the measured time over the floor, times "
        "the share of the floor's rate that its kernels were seen to reach (`proposers/reach.py`), "
        "less what a call takes to start.\n\n"
    )
    return _GENERATED + head + "\n".join(map(_card, cards))


def measured_page() -> str:
    """docs/measured.md: what the judge did, from benchmarks/results."""
    return _GENERATED + measured.page(measured.load())


def with_figures(page: str) -> str:
    """README.md with what the present judge did, in two lines, and what came of GPU kernels."""
    page = _with(page, "measured", measured.summary(measured.load()))
    return _with(page, "gpu", results.summary())


def with_constants(page: str) -> str:
    """docs/judge.md with the judge's numbers as they are in its code."""
    return _with(page, "constants", judged.constants())


def keys_table() -> str:
    """The keys of a target file with their defaults."""
    rows = ["| key | type | default | |", "|---|---|---|---|"]
    for name, info in TargetFile.model_fields.items():
        section = SECTIONS.get(name)
        if section is not None:
            rows += [_row(f"{name}.{key}", field) for key, field in section.model_fields.items()]
        else:
            rows.append(_row(name, info))
    return "\n".join(rows) + "\n"


def command_keys_table() -> str:
    """The keys of a target's `command` section with their defaults."""
    rows = ["| key | type | default | |", "|---|---|---|---|"]
    for name, info in CommandSection.model_fields.items():
        if name == "profile":
            fields = ProfileCommand.model_fields.items()
            rows += [_row(f"command.{name}.{key}", field) for key, field in fields]
        else:
            rows.append(_row(f"command.{name}", info))
    return "\n".join(rows) + "\n"


def with_brief(page: str) -> str:
    """docs/brief.md with what is left out first, and the fields of an answer, as they are now."""
    steps = [f"{number}. {what}" for number, (*_, what) in enumerate(DROPPED, start=1)]
    rows = ["| field | type | default | |", "|---|---|---|---|"]
    for name, info in Answer.model_fields.items():
        default = _default(info.get_default(call_default_factory=True))
        about = info.description or _ANSWERED[name]
        rows.append(f"| `{name}` | {_cell(_type(info.annotation))} | {default} | {_cell(about)} |")
    page = _with(page, "dropped", "\n".join(steps) + "\n")
    return _with(page, "fields", "\n".join(rows) + "\n")


_ANSWERED: Mapping[str, str] = {"cost_usd": "What it cost, if that is known."}
"""Fields of an answer that say nothing themselves."""


def with_command_keys(page: str) -> str:
    """docs/command.md with the table of keys as it is now."""
    return _with(page, "keys", command_keys_table())


def with_keys(page: str) -> str:
    """docs/target.md with the table of keys as it is now."""
    return _with(page, "keys", keys_table())


def with_facts(page: str) -> str:
    """docs/specs.md with the facts that a wiki page may state."""
    lines = ["| section | unit | facts |\n|---|---|---|"]
    of_units: dict[tuple[str, str], list[str]] = {}
    for path, unit in FACTS.items():
        section, _, name = path.partition(".")
        if section != "peak_rates" and "." not in name:
            of_units.setdefault((section, unit), []).append(f"`{name}`")
    for (section, unit), names in of_units.items():
        lines.append(f"| `{section}` | {unit} | {' '.join(names)} |")
    return _with(page, "facts", "\n".join(lines) + "\n")


def with_pages(page: str) -> str:
    """The wiki's index with a row for every page: facts, and how they were read."""
    qualities = get_args(Quality)
    lines = [f"| file | product | facts | {' | '.join(qualities)} |", "|---" * 8 + "|"]
    for known in Wiki.load().pages:
        told = [entry.told for entry in (*known.entries.values(), *known.aliases)]
        counts = Counter(statement.quality for statement in told)
        of_quality = " | ".join(str(counts[quality]) for quality in qualities)
        lines.append(f"| `{known.file.name}` | {known.product} | {len(told)} | {of_quality} |")
    return _with(page, "pages", "\n".join(lines) + "\n")


def with_counts(page: str) -> str:
    """docs/seeds.md with how many demands of each document have which status."""
    statuses = ("ENFORCED", "PARTIAL", "MISSING", "N/A")
    columns = ("document", "demands", *statuses)
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    of_all: Counter[str] = Counter()
    for section in page.split("\n## Seed ")[1:]:
        rows = re.findall(r"^\|.*\| ([A-Z/]+) \|[^|]*\|$", section, re.MULTILINE)
        unknown = set(rows) - {*statuses}
        if unknown:
            raise ValueError(f"docs/seeds.md: no such status: {', '.join(sorted(unknown))}")
        of_all.update(counts := Counter(rows))
        figures = (counts.total(), *(counts[status] for status in statuses))
        lines.append(f"| {section.splitlines()[0]} | {' | '.join(map(str, figures))} |")
    figures = (of_all.total(), *(of_all[status] for status in statuses))
    lines.append(f"| all | {' | '.join(map(str, figures))} |")
    return _with(page, "counts", "\n".join(lines) + "\n")


def _with(page: str, name: str, text: str) -> str:
    """A page with what stands between two marks written anew."""
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    before, _, rest = page.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n{text}{end}{after}"


def _commands(app: typer.Typer, name: str) -> Iterator[str]:
    """A section for the app itself, for each of its commands, and for each of its groups."""
    callback = app.registered_callback
    if callback is not None and callback.callback is not None:
        yield from _section(name, callback.callback, "COMMAND ...")
    else:
        yield f"## {name}\n\n{app.info.help}\n\n    {name} COMMAND ...\n"
    sections = dict([*_functions(app, name), *_groups(app, name)])
    for own in SHOWN if app is cli else sections:
        yield from sections[own]


def _functions(app: typer.Typer, name: str) -> Iterator[tuple[str, Iterator[str]]]:
    for command in app.registered_commands:
        assert command.callback is not None, "every command of ours is a function"
        own = command.name or command.callback.__name__.replace("_", "-")
        yield own, _section(f"{name} {own}", command.callback)


def _groups(app: typer.Typer, name: str) -> Iterator[tuple[str, Iterator[str]]]:
    for group in app.registered_groups:
        assert group.typer_instance is not None, "every group of ours is an app"
        yield str(group.name), _commands(group.typer_instance, f"{name} {group.name}")


def _section(name: str, function: Callable[..., Any], behind: str = "") -> Iterator[str]:
    parameters = inspect.signature(function, eval_str=True).parameters.values()
    arguments = [p for p in parameters if isinstance(_info(p), ArgumentInfo)]
    options = [p for p in parameters if isinstance(_info(p), OptionInfo)]
    words = [name, *(["[OPTIONS]"] if options else []), *map(_metavar, arguments), behind]
    yield f"## {name}\n\n{inspect.getdoc(function)}\n\n    {' '.join(words).rstrip()}\n"
    rows = [f"| `{_cell(_metavar(p))}` | {_about(p)} |" for p in arguments]
    rows += [f"| {_spelling(p)} | {_about(p)} |" for p in options]
    if rows:
        yield "| | |\n|---|---|\n" + "\n".join(rows) + "\n"


def _info(parameter: inspect.Parameter) -> Any:
    """What typer was told about a parameter: `Annotated[type, info]`."""
    return get_args(parameter.annotation)[1]


def _metavar(parameter: inspect.Parameter) -> str:
    return str(_info(parameter).metavar or parameter.name.upper())


def _spelling(option: inspect.Parameter) -> str:
    info = _info(option)
    declared = (info.default, *(info.param_decls or ()))  # in an `Annotated`, names begin there
    given = [name for name in declared if isinstance(name, str) and name.startswith("-")]
    names = given or [f"--{option.name.replace('_', '-')}"]
    kind = _plain_type(get_args(option.annotation)[0])
    value = "" if kind is bool else f" `{info.metavar or _VALUES[kind]}`"
    return ", ".join(f"`{name}`" for name in names) + value


def _plain_type(annotation: Any) -> Any:
    """`X` of `X`, `X | None` and `list[X] | None`."""
    for inner in get_args(annotation):
        if inner is not type(None):
            return _plain_type(inner)
    return annotation


_VALUES: Mapping[Any, str] = {str: "TEXT", int: "INTEGER", float: "NUMBER", Path: "FILE"}


def _about(parameter: inspect.Parameter) -> str:
    info = _info(parameter)
    is_required = isinstance(info, OptionInfo) and parameter.default is inspect.Parameter.empty
    required = " Required." if is_required else ""
    default = f" Default: `{info.show_default}`." if isinstance(info.show_default, str) else ""
    return _cell(f"{info.help or ''}{required}{default}")


def _card(card: Card) -> str:
    families = ", ".join(sorted(card.families)) or "any"
    languages = ", ".join(_LANGUAGES[name] for name in sorted(card.languages))
    listed = f"; `{card.instruction}` in the listing" if card.instruction else ""
    return (
        f"## {card.id}\n\n{card.title}. {card.rationale.rstrip('.')}.\n\n"
        f"- category: {card.category.replace('_', ' ')}; families: {families}; "
        f"languages: {languages}\n"
        f"- answers: {', '.join(sorted(card.answers))}\n"
        f"- expected: {card.expected_counter} {card.expected_change}{listed}\n"
        f"- source: {card.source}\n{_pages(card)}"
    )


def _pages(card: Card) -> str:
    """The pages of the library that name a card, or are of its operators."""
    pages = [
        f"[{page.id}](../src/roofsmith/knowledge/pages/{page.id}.md)"
        for page in Library.load().pages
        if re.search(rf"(card |recipe:){card.id}\b", page.text) or card.families & set(page.op)
    ]
    return f"- pages: {', '.join(pages)}\n" if pages else ""


def _row(key: str, info: FieldInfo) -> str:
    default = (
        "required" if info.is_required() else _default(info.get_default(call_default_factory=True))
    )
    about = _FILE_KEYS.get(key) or info.description or _described(key)
    return f"| `{key}` | {_cell(_type(info.annotation))} | {_cell(default)} | {_cell(about)} |"


def _described(key: str) -> str:
    field = Target.model_fields.get(key)
    return (field.description if field is not None else None) or _UNDOCUMENTED[key]


_UNDOCUMENTED: Mapping[str, str] = {
    "build.compiler": "`auto` takes gcc, else clang; for CUDA nvcc, for HIP hipcc.",
    "build.link": "Behind the sources on the command line.",
    "tolerance.error_factor": "The budget is at least this multiple of the error that the "
    "reference itself makes in the declared precision; for float16 and "
    "bfloat16 four tenths of it.",
    "tolerance.atol": "With `rtol`, replaces the element-wise half of the budget: "
    "|out - ref| <= atol + rtol * |ref|. Integers may be off by `atol`.",
    "tolerance.rtol": "As `atol`, but for integers.",
}
"""Keys whose fields say nothing themselves."""


def _type(annotation: Any) -> str:
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return " or ".join(f"`{value}`" for value in inner)
    if origin is tuple:
        return f"list of {_type(inner[0])}"
    if origin is dict:
        return "mapping"
    if type(None) in inner:
        return _type(next(kind for kind in inner if kind is not type(None)))
    names = {
        str: "text", int: "integer", float: "number", bool: "`true` or `false`",
        Workload: "workload",
    }  # fmt: skip
    return names.get(annotation, "mapping")


def _default(value: Any) -> str:
    match value:
        case None | () | {} | "":
            return "none"
        case tuple():
            return " ".join(f"`{item}`" for item in value)
        case BaseModel():
            return "see below"
        case bool():
            return f"`{str(value).lower()}`"
        case float():
            return f"`{value:g}`"
        case _:
            return f"`{value}`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|")


def main() -> None:
    """Write them all."""
    (DOCS / "cli.md").write_text(cli_page(), encoding="utf-8")
    (DOCS / "recipes.md").write_text(recipes_page(), encoding="utf-8")
    (DOCS / "measured.md").write_text(measured_page(), encoding="utf-8")
    (DOCS / "rules.md").write_text(rules.page(), encoding="utf-8")
    if (shown := results.page()) is not None:
        (DOCS / "results.md").write_text(shown, encoding="utf-8")
    for name, drawn in results.plots():
        (DOCS / name).write_text(drawn, encoding="utf-8")
    SCHEMA.write_text(json.dumps(schema(), indent=2) + "\n", encoding="utf-8")
    for path, written in (
        (README, with_figures),
        (DOCS / "judge.md", with_constants),
        (DOCS / "target.md", with_keys),
        (DOCS / "brief.md", with_brief),
        (DOCS / "command.md", with_command_keys),
        (DOCS / "specs.md", with_facts),
        (DOCS / "seeds.md", with_counts),
        (WIKI_INDEX, with_pages),
    ):
        path.write_text(written(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()

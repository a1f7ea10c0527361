"""docs/specs.md and the wiki's index say what is so; `specs` as people type it."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import pytest
from test_wiki import resolve
from typer.testing import CliRunner

from roofsmith import api
from roofsmith.cli.root import cli
from roofsmith.domain.facts import Citation, Fact
from roofsmith.specs.sheet import CeilingMeasurement, MeasurementFile, kept_sheet, parse, render
from roofsmith.specs.wiki import MAX_PAGE_BYTES, Wiki
from roofsmith.specs.wiki_datasheet import MEMORY_TOLERANCE, missing
from roofsmith.specs.wiki_page import Quality, Statement
from roofsmith.specs.wiki_problems import Code

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "specs.md"
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ROOFSMITH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("ROOFSMITH_WIKI", str(tmp_path / "wiki"))
    monkeypatch.setenv("COLUMNS", "300")
    (tmp_path / "wiki").mkdir()
    return tmp_path


@pytest.fixture(scope="module")
def generate() -> Iterator[ModuleType]:
    sys.path.insert(0, str(ROOT / "docs"))
    import generate

    yield generate
    sys.path.remove(str(ROOT / "docs"))


def specs(*arguments: str) -> Any:
    return CliRunner().invoke(cli, ["specs", *arguments])


def kept(folder: Path, device: str) -> Path:
    """A file of ceilings as it is kept for a device."""
    common = {"threads": 1, "variant": "v", "spread": 0.0, "rounds": 4, "date": "2026-11-20 10:00"}
    measured = [
        {"kind": "bandwidth", "subject": "copy", "working_set_bytes": 1 << 30, "rate": 3.015e12},
        {"kind": "bandwidth", "subject": "read", "working_set_bytes": 1 << 24, "rate": 7e12},
        {"kind": "mma", "subject": "float16", "rate": 791.52e12},
    ]
    file = MeasurementFile(
        device=device, compiler="nvcc",
        measurements=tuple(CeilingMeasurement.model_validate({**common, **m}) for m in measured),
    )  # fmt: skip
    path = folder / "cache" / "ceilings" / "ceilings-0123456789abcdef.json"
    path.parent.mkdir(parents=True)
    path.write_text(render(file))
    return path


def test_the_answers_on_the_page_are_what_is_printed() -> None:
    blocks = FENCE.findall(PAGE.read_text())
    shown = [(a, b) for (k, a), (j, b) in pairwise(blocks) if (k, j) == ("sh", "text")]
    assert len(shown) >= 3
    for commands, answer in shown:
        printed = ""
        for command in commands.splitlines():
            program, room, *arguments = shlex.split(command)
            assert (program, room) == ("roofsmith", "specs")
            printed += specs(*arguments).stdout
        assert printed == answer


def test_the_page_on_the_page_is_one(home: Path) -> None:
    (text,) = [t for kind, t in FENCE.findall(PAGE.read_text()) if "schema_version" in t]
    name = text.partition("\n")[0].removeprefix("# ")
    (home / "wiki" / name).write_text(text)
    wiki = Wiki.load(home / "wiki")
    assert wiki.problems == ()
    assert wiki.cite(wiki.page("X1"), "fp16").value == 4e14
    assert specs("cite", "X1", "bandwidth").stdout == (
        f"bandwidth: 2e+12 byte/s <- {home / 'wiki' / name}:12\n"
    )


def test_tables_are_current(generate: ModuleType) -> None:
    assert PAGE.read_text() == generate.with_facts(PAGE.read_text()), "run `make docs`"
    index = generate.WIKI_INDEX.read_text()
    assert index == generate.with_pages(index), "run `make docs`"


def test_every_problem_quality_and_key_is_explained() -> None:
    text = PAGE.read_text()
    rows = set(re.findall(r"^\| `([a-z_]+)` \| [^|]+ \|", text, re.MULTILINE))
    assert {*get_args(Code), *get_args(Quality)} <= rows
    for key in Statement.model_fields:
        assert re.search(rf"`(source\.)?{key}`|`source\.title`", text)
    assert MAX_PAGE_BYTES == 1 << 20
    assert "larger than 1 MiB" in text
    assert MEMORY_TOLERANCE == 0.15
    assert "more than\n15%" in text


def test_the_wheel_has_the_pages() -> None:
    """Hatch packs every file below the package but what git ignores."""
    found = subprocess.run(
        ["git", "check-ignore", "src/roofsmith/specs/pages/nvidia-t4.yaml"], cwd=ROOT, check=False,
        capture_output=True,
    )  # fmt: skip
    assert found.stdout == b""


def test_cite() -> None:
    found = specs("cite", "H100 SXM", "bandwidth")
    assert (found.exit_code, found.stdout) == (
        0, "bandwidth: 3.35e+12 byte/s <- wiki/nvidia-h100-sxm5-80gb.yaml:296\n"
    )  # fmt: skip
    assert "memory.bandwidth_byte_per_s, transcribed: NVIDIA H100 product page" in found.stderr
    text = specs("cite", "H100 SXM", "compute_capability")
    assert (text.exit_code, text.stdout) == (
        0, "compute_capability: 9.0 <- wiki/nvidia-h100-sxm5-80gb.yaml:59\n"
    )  # fmt: skip


def test_cite_says_unknown() -> None:
    found = specs("cite", "H100 SXM", "bandwith")
    assert (found.exit_code, found.stdout) == (1, "bandwith: UNKNOWN (wiki not found)\n")
    assert "memory.bandwidth_byte_per_s" in found.stderr
    found = specs("cite", "H1000", "bandwidth")
    assert (found.exit_code, found.stdout) == (1, "bandwidth: UNKNOWN (no such product)\n")
    assert "'H1000'" in found.stderr


@pytest.mark.parametrize("names", [("H100 SXM", ""), ("H100 SXM", " "), ("", "bandwidth")])
def test_cite_needs_two_names(names: tuple[str, str]) -> None:
    found = specs("cite", *names)
    assert (found.exit_code, found.stdout) == (2, "")
    assert f"no {'metric' if names[0] else 'product'} is named" in found.stderr


def test_a_wiki_that_is_named_must_be_there(home: Path) -> None:
    """However it is named: answers from the bundled pages alone would look like its own."""
    (home / "wiki").rmdir()
    for command in (("cite", "H100 SXM", "bandwidth"), ("show", "H100"), ("list",)):
        found = specs(*command)
        assert (found.exit_code, found.stdout) == (2, "")
        assert f"the wiki {home / 'wiki'} is no folder" in found.stderr
        assert "ROOFSMITH_WIKI" in found.stderr
        named = specs(*command, "--wiki", str(home / "wiki"))
        assert (named.exit_code, named.stdout) == (2, "")


def test_cite_does_not_guess_which_product() -> None:
    found = specs("cite", "H100", "bandwidth")
    assert (found.exit_code, found.stdout) == (2, "")
    for product in ("H100 NVL", "H100 PCIe 80GB", "H100 SXM5 80GB"):
        assert product in found.stderr


def test_show_puts_products_of_one_name_side_by_side() -> None:
    found = specs("show", "H100")
    assert found.exit_code == 0
    rows = [line.split("  ") for line in found.stdout.splitlines()]
    cells = {row[0]: [cell.strip() for cell in row[1:] if cell.strip()] for row in rows}
    assert cells["datasheet"] == [
        "nvidia-h100-nvl",
        "nvidia-h100-pcie-80gb",
        "nvidia-h100-sxm5-80gb",
    ]
    assert cells["memory bandwidth"] == ["3.94 TB/s", "2.00 TB/s", "3.35 TB/s"]
    assert cells["execution.pcie_byte_per_s"][0] == "UNKNOWN"
    assert cells["caches.shared_memory_carveouts_bytes"][0] == "10 values :292"
    wiki = Wiki.load()
    for place, page in enumerate(wiki.called("H100")):
        for entry in page.entries.values():
            if entry.metric.startswith(("measured.", "other.")) or entry.number is None:
                continue
            assert cells[entry.metric][place] == f"{entry.said} :{entry.citation.line}"
            assert resolve(wiki, f"{cells['page'][place]}:{entry.citation.line}") == entry.fact()
    document = json.loads(specs("show", "h100", "--json").stdout)
    assert [one["id"] for one in document["products"]] == cells["datasheet"]
    assert len(document["products"][2]["facts"]) == len(wiki.page("H100 SXM").entries)


def test_sizes_and_counts_are_cited_whole() -> None:
    assert specs("cite", "MI300X", "l2").stdout.startswith("l2: 33554432 byte <- ")
    assert specs("cite", "H100 SXM", "memory").stdout.startswith("memory: 80000000000 byte <- ")
    for page in Wiki.load().pages:
        for entry in page.entries.values():
            if isinstance(entry.number, int) and entry.told.unit == "byte":
                assert f": {entry.number} byte <- " in entry.line("x")


@pytest.mark.parametrize("command", [("cite", "H100 SXM", "bandwidth"), ("show", "H100 SXM")])
def test_a_page_that_replaces_in_vain_is_named(home: Path, command: tuple[str, ...]) -> None:
    own = home / "wiki" / "nvidia-h100-sxm5-80gb.yaml"
    bundled = next(page.file for page in Wiki.load().pages if page.id == own.stem)
    own.write_text(bundled.read_text().replace("3350000000000.0", "3.30e+12"))
    assert specs(*command).stderr.count(str(own)) == 0
    own.write_text(bundled.read_text().replace("unit: byte/s", "unit: TB/s", 1))
    found = specs(*command)
    assert found.exit_code == 0
    assert "3.35" in found.stdout
    assert f"roofsmith: this is {bundled}, since your own page is left out: {own}:" in found.stderr
    assert "bad_unit" in found.stderr
    (warning,) = json.loads(specs(*command, "--json").stdout)["warnings"]
    assert str(own) in warning
    own.rename(own.with_name("other.yaml"))
    assert "a page of your own can't be used" in specs(*command).stderr


def test_a_wiki_that_is_named_wins(home: Path) -> None:
    folder = home / "mine"
    folder.mkdir()
    bundled = next(p.file for p in Wiki.load().pages if p.id == "nvidia-h100-sxm5-80gb")
    (folder / bundled.name).write_text(bundled.read_text().replace("3350000000000.0", "3.30e+12"))
    chosen = ("--wiki", str(folder))
    found = specs("cite", "H100 SXM", "bandwidth", *chosen).stdout
    assert found == f"bandwidth: 3.3e+12 byte/s <- {folder / bundled.name}:296\n"
    assert "3.30 TB/s" in specs("show", "H100 SXM", *chosen).stdout
    assert str(folder) in specs("list", *chosen).stdout
    (home / "run").mkdir()
    (home / "run" / "notes.md").write_text(found)
    assert specs("audit", str(home / "run"), *chosen).exit_code == 0
    (folder / bundled.name).unlink()
    assert specs("audit", str(home / "run"), *chosen).exit_code == 1
    assert specs("cite", "H100 SXM", "bandwidth", "--wiki", str(home / "none")).exit_code == 2


def test_this_machine_in_tables(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = kept(home, "AMD EPYC")
    file = parse(path.read_text())
    assert file is not None
    told = Citation(path="/proc/meminfo", command="free -b")
    memory = Fact(metric="memory", value=1 << 34, unit="byte", citation=told)
    sheet = kept_sheet(file, path)
    sheet = sheet.model_copy(
        update={"other": (*sheet.other, memory, missing("datasheet of a CPU", "1"))}
    )
    monkeypatch.setattr(api, "ceilings", lambda *args, **kwargs: sheet)
    found = specs("show").stdout
    assert f"file: {path}\n      roofsmith specs measure, 2026-11-20 10:00; `:6`" in found
    rows = [line.split() for line in found.splitlines()]
    assert ["1", "GiB", "1", "3.02", "TB/s", ":6", "UNKNOWN"] in rows
    assert ["16", "MiB", "1", "UNKNOWN", "7.00", "TB/s", ":7"] in rows
    assert ["memory", "16", "GiB", "<-", "/proc/meminfo", "(free", "-b)"] in rows
    assert "792 TFLOP/s :8" in found
    assert found.count(str(path)) == 1
    assert found.endswith("datasheet of a CPU: UNKNOWN (wiki not found)\n")


def test_cite_in_json() -> None:
    found = json.loads(specs("cite", "H100 SXM", "fp16", "--json").stdout)
    assert found["metric"] == "fp16"
    assert found["path"] == "peak_rates.tensor.dense.fp16"
    assert (found["value"], found["unit"]) == (989.4e12, "FLOP/s")
    assert found["citation"] == "wiki/nvidia-h100-sxm5-80gb.yaml:135"
    assert found["quality"] == "transcribed"
    assert found["source"]["url"].startswith("https://")
    missing = specs("cite", "H100 SXM", "fp17", "--json")
    assert missing.exit_code == 1
    document = json.loads(missing.stdout)
    assert (document["value"], document["line"]) == (None, "fp17: UNKNOWN (wiki not found)")
    assert "fp16" in document["hint"]


def test_show_a_product_beside_what_was_measured(home: Path) -> None:
    path = kept(home, "NVIDIA H100 80GB HBM3")
    found = specs("show", "H100 SXM")
    assert found.exit_code == 0
    rows = [line.split() for line in found.stdout.splitlines()]
    assert ["memory", "bandwidth", "3.35", "TB/s", "3.02", "TB/s", "90%"] in rows
    assert ["float16", "matrix", "peak", "989", "TFLOP/s", "792", "TFLOP/s", "80%"] in rows
    assert "memory.bandwidth_byte_per_s: 3.35e+12 byte/s <- wiki/nvidia-h100-sxm5" in found.stdout
    assert f"copy bandwidth at 1073741824 byte: 3.015e+12 byte/s <- {path}:6" in found.stdout
    document = json.loads(specs("show", "H100 SXM", "--json").stdout)
    pair = document["side_by_side"][0]
    assert pair["ratio"] == pytest.approx(0.9)
    assert pair["measured"]["citation"]["line"] == 6
    assert len(document["facts"]) == len(Wiki.load().page("H100 SXM").entries)


def test_show_a_product_that_was_never_measured(home: Path) -> None:
    kept(home, "NVIDIA H100 80GB HBM3")
    found = specs("show", "H100 PCIe").stdout
    assert "never measured here" in found
    assert "UNKNOWN: memory.bus_width_bit" in specs("show", "T4").stdout
    assert (specs("show", "nowhere").exit_code, specs("show", "nowhere").stdout) == (2, "")


def test_list_names_pages_kept_ceilings_and_what_is_wrong(home: Path) -> None:
    (home / "wiki" / "broken.yaml").write_text("id: broken\n")
    path = kept(home, "NVIDIA H100 80GB HBM3")
    found = specs("list")
    assert found.exit_code == 0
    assert "NVIDIA H100 80GB HBM3" in found.stdout
    assert "\namd-mi300x " in found.stdout
    assert not [line for line in found.stdout.splitlines() if line != line.rstrip()]
    assert str(path) in found.stdout
    assert f"{home / 'wiki' / 'broken.yaml'}: missing_key: schema_version" in found.stdout
    document = json.loads(specs("list", "--json").stdout)
    assert {page["id"] for page in document["pages"]} == {p.id for p in Wiki.load().pages}
    assert document["kept"] == [{"file": str(path), "device": "NVIDIA H100 80GB HBM3"}]
    assert {problem["code"] for problem in document["problems"]} == {"missing_key"}

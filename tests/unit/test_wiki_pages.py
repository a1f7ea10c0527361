"""A page's text becomes a page, or every mistake in it is named with its line."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from test_wiki import resolve

from roofsmith.specs.wiki import Wiki
from roofsmith.specs.wiki_page import Page
from roofsmith.specs.wiki_problems import PageProblem
from roofsmith.specs.wiki_reading import NotAPageError, read_page
from roofsmith.specs.wiki_schema import FACTS, UNITS, is_list

SOURCE = "source: {title: datasheet}, quality: primary"
PAGE = f"""\
schema_version: 1
id: acme-x1
short: [X1, X1 64GB]
identity:
  vendor: {{value: ACME, unit: string, {SOURCE}}}
  product: {{value: X1 64GB, unit: string, {SOURCE}}}
  aliases:
  - {{value: ACME X1 64GB, unit: string, {SOURCE}}}
memory:
  bandwidth_byte_per_s:
    value: 2.0e+12
    unit: byte/s
    source:
      title: X1 datasheet
      url: https://acme.example/x1
      locator: page 3
    quality: primary
peak_rates:
  note: at 1.5 GHz
  tensor:
    dense:
      fp16: {{value: 4.0e+14, unit: FLOP/s, {SOURCE}}}
    sparse:
      fp16: {{value: 8.0e+14, unit: FLOP/s, {SOURCE}}}
caches:
  shared_memory_carveouts_bytes: {{value: [0, 1024], unit: byte, {SOURCE}}}
other:
  ports: {{value: 3, unit: count, {SOURCE}}}
disagreements:
- a blog says 3 TB/s
unknown:
- execution.tdp_w
"""


def read(text: str, name: str = "acme-x1.yaml") -> Page:
    return read_page(text, Path(name), f"wiki/{name}")


def problems(text: str, name: str = "acme-x1.yaml") -> tuple[PageProblem, ...]:
    with pytest.raises(NotAPageError) as error:
        read(text, name)
    return error.value.problems


def read_or_refused(text: str) -> Page | None:
    """None after problems, each of which lies in the text."""
    try:
        return read(text)
    except NotAPageError as error:
        found = error.problems
    lines = text.count("\n") + 1
    assert found
    assert all(p.line is None or 1 <= p.line <= lines for p in found)
    return None


def test_a_whole_page() -> None:
    page = read(PAGE)
    assert (page.id, page.product, page.vendor, page.arch) == ("acme-x1", "X1 64GB", "ACME", None)
    assert page.short == ("X1", "X1 64GB")
    assert page.driver_names == ("ACME X1 64GB",)
    bandwidth = page.entries["memory.bandwidth_byte_per_s"]
    assert bandwidth.number == 2e12
    assert bandwidth.told.source.locator == "page 3"
    assert str(bandwidth.citation) == "wiki/acme-x1.yaml:11"
    assert bandwidth.line("bandwidth") == "bandwidth: 2e+12 byte/s <- wiki/acme-x1.yaml:11"
    assert page.entries["caches.shared_memory_carveouts_bytes"].said == "0, 1024 byte"
    assert page.notes == ("at 1.5 GHz", "a blog says 3 TB/s")
    assert page.unknown == ("execution.tdp_w",)


@pytest.mark.parametrize(
    ("old", "new", "place", "code", "detail", "fix"),
    [
        ("unit: byte/s", "unit: TB/s", 12, "bad_unit", "memory.bandwidth_byte_per_s in 'TB/s'",
         "give it in byte/s: multiply the value by 1e+12"),
        ("unit: byte/s", "unit: furlong", 12, "bad_unit", "'furlong'", "give it in byte/s"),
        ("unit: count", "unit: ports", 28, "bad_unit", "other.ports in 'ports'", "give it in"),
        ("    source:\n      title: X1 datasheet\n      url: https://acme.example/x1\n"
         "      locator: page 3\n", "", 10, "missing_source",
         "memory.bandwidth_byte_per_s has no source", "say where the number was published"),
        ("      title: X1 datasheet\n", "", 13, "missing_source", "no source.title", "title"),
        ("title: X1 datasheet", "title: ''", 14, "missing_source", "has source.title ''",
         "title"),
        ("locator: page 3", "locator: ' '", 16, "wrong_type", "source.locator is ' '", ""),
        ("url: https://acme.example/x1", "url: ''", 15, "wrong_type", "source.url is ''", ""),
        ("value: 2.0e+12", "value: 2.0e12", 11, "wrong_type", "is '2.0e12', not a number",
         "write 2.000000e+12"),
        ("value: 2.0e+12", "value: lots", 11, "wrong_type", "is 'lots'", "write a number"),
        ("value: 2.0e+12", "value:", 11, "wrong_type", "value is empty", "write a number"),
        ("value: 2.0e+12", "value: {a: 1}", 11, "wrong_type", "is a mapping", "write a number"),
        ("value: [0, 1024]", "value: [a]", 26, "wrong_type", "is a list", "write a list of"),
        ("product: {value: X1 64GB", "product: {value: ", 6, "wrong_type", "value is empty",
         "write a text"),
        ("value: 2.0e+12", "value: [1, 2]", 11, "wrong_type", "is a list, not a number", ""),
        ("value: [0, 1024]", "value: 1024", 26, "wrong_type", "not a list of numbers", ""),
        ("value: [0, 1024]", "value: [-1]", 26, "not_positive", "negative", ""),
        ("value: 2.0e+12", "value: 0", 11, "not_positive", "is 0", "never 0"),
        ("value: 2.0e+12", "value: .inf", 11, "wrong_type", "is inf", "write a number"),
        ("value: 2.0e+12", "value: .nan", 11, "wrong_type", "is nan", "write a number"),
        ("value: 8.0e+14", "value: 2.0e+14", 24, "sparse_below_dense",
         "sparse.fp16 2e+14 FLOP/s is below the dense 4e+14 FLOP/s", "swapped"),
        ("bandwidth_byte_per_s:", "bandwith_byte_per_s:", 10, "unknown_key",
         "memory.bandwith_byte_per_s is no fact", "did you mean bandwidth_byte_per_s?"),
        ("  tensor:", "  tensors:", 20, "unknown_key", "peak_rates.tensors", "tensor?"),
        ("      fp16: {value: 4", "      fp15: {value: 4", 22, "unknown_key", "fp15", "fp16?"),
        ("other:", "others:", 27, "unknown_key", "others is no fact", "did you mean other?"),
        ("quality: primary\npeak", "quality: primary\n    page: 3\npeak", 18, "unknown_key",
         "has no use for page", "known: value, unit"),
        ("quality: primary\npeak", "quality: good\npeak", 17, "wrong_type",
         "quality is 'good'", ""),
        ("    quality: primary\npeak", "peak", 10, "missing_key", "has no quality", ""),
        ("schema_version: 1", "schema_version: 2", 1, "wrong_type", "schema_version is 2", "1"),
        ("schema_version: 1\n", "", None, "missing_key", "schema_version is missing", "1"),
        ("id: acme-x1", "id: acme-x2", 2, "wrong_id", "'acme-x2' in a file called", "<id>.yaml"),
        ("id: acme-x1\n", "", None, "missing_key", "id is missing", "write id: acme-x1"),
        ("short: [X1, X1 64GB]", "short: X1", 3, "wrong_type", "short is no list", ""),
        ("short: [X1, X1 64GB]", "short: [X1, 7]", 3, "wrong_type", "short holds 7", "quotes"),
        ("  vendor: {value: ACME,", "  vendor: {value: 3,", 5, "wrong_type", "is 3, no text", ""),
        ("note: at 1.5 GHz", "note: 3", 19, "wrong_type", "the note holds 3", ""),
        ("ports: {value: 3, unit: count", "Ports: {value: 3, unit: count", 28, "unknown_key",
         "other.Ports", "small letters"),
        ("unknown:\n- execution.tdp_w", "unknown:\n- execution.tdp_w\nid: x", 33, "not_yaml",
         "key 'id' is on line 2 already", ""),
        ("unknown:\n", "unknown: [\n", 32, "not_yaml", "not YAML", ""),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_line(
    old: str, new: str, place: int | None, code: str, detail: str, fix: str
) -> None:
    assert PAGE.count(old) == 1
    found = problems(PAGE.replace(old, new))
    first = found[0]
    assert first.code == code, str(first)
    assert first.line == place, str(first)
    assert detail in first.detail
    assert fix in first.fix
    assert len(found) == 1
    assert str(first).startswith("acme-x1.yaml:")


def test_all_mistakes_are_named_at_once() -> None:
    text = PAGE.replace("unit: byte/s", "unit: TB/s").replace("value: 8.0e+14", "value: 1")
    assert {p.code for p in problems(text)} == {"bad_unit", "sparse_below_dense"}


@pytest.mark.parametrize("text", ["", "- 3", "just text", "identity: 3", "identity: {aliases: 3}"])
def test_what_is_no_page_at_all(text: str) -> None:
    assert problems(text)


def test_vendor_and_product_are_needed() -> None:
    text = re.sub(r"  product: .*\n", "", PAGE)
    (problem,) = problems(text)
    assert (problem.code, problem.detail) == ("missing_key", "identity.product is missing")


VALUES = st.one_of(
    st.floats(), st.integers(), st.text(max_size=5), st.none(), st.just([1]), st.just({})
)


@settings(max_examples=150, deadline=None)
@given(
    metric=st.sampled_from(sorted(m for m in FACTS if not is_list(m) and "." in m)),
    value=VALUES,
    unit=st.sampled_from(sorted(UNITS)) | st.text(max_size=6),
)
def test_a_fact_is_kept_as_written_or_refused(metric: str, value: object, unit: str) -> None:
    """Whatever stands there: the number comes out as it is, in the one unit, or not at all."""
    told = {"value": value, "unit": unit, "source": {"title": "t"}, "quality": "primary"}
    nested: object = told
    for key in reversed(metric.split(".")):
        nested = {key: nested}
    base = yaml.safe_load(PAGE)
    assert isinstance(nested, dict)
    text = yaml.safe_dump(_merged(base, nested), allow_unicode=True)
    page = read_or_refused(text)
    if page is None:
        return
    kept = page.entries[metric]
    assert kept.told.unit == unit == FACTS[metric]
    assert kept.told.value == value
    assert kept.number is None or kept.number > 0
    line = text.splitlines()[(kept.citation.line or 0) - 1]
    assert line.strip().startswith("value:")


def _merged(base: dict[str, object], over: dict[str, object]) -> dict[str, object]:
    merged = dict(base)
    for key, value in over.items():
        below = merged.get(key)
        if isinstance(below, dict) and isinstance(value, dict) and "value" not in value:
            merged[key] = _merged(below, value)
        else:
            merged[key] = value
    return merged


@settings(max_examples=150, deadline=None)
@given(st.integers(0, len(PAGE)), st.integers(0, 40), st.text(max_size=4))
def test_a_damaged_page_is_read_or_refused_never_more(at: int, gone: int, put: str) -> None:
    text = PAGE[:at] + put + PAGE[at + gone :]
    page = read_or_refused(text)
    assert page is None or page.product


def write(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(text)
    return path


def test_own_pages_join_the_bundled_ones(tmp_path: Path) -> None:
    path = write(tmp_path, "acme-x1.yaml", PAGE)
    wiki = Wiki.load(tmp_path)
    assert wiki.problems == ()
    page = wiki.page("X1")
    assert wiki.lookup("ACME X1 64GB") is page
    assert str(wiki.cite(page, "bandwidth")) == f"bandwidth: 2e+12 byte/s <- {path}:11"
    assert resolve(wiki, f"{path}:11") is not None
    assert len(wiki.pages) == len(Wiki.load().pages) + 1


def test_a_bad_own_page_takes_nothing_down(tmp_path: Path) -> None:
    write(tmp_path, "acme-x1.yaml", PAGE.replace("unit: byte/s", "unit: TB/s"))
    write(tmp_path, "nvidia-h200-sxm.yaml", "not a page")
    (tmp_path / "latin.yaml").write_bytes(b"id: \xff\n")
    (tmp_path / "folder.yaml").mkdir()
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "gone.yaml").symlink_to(tmp_path / "nowhere")
    (tmp_path / "notes.txt").write_text("no page")
    (tmp_path / "huge.yaml").write_bytes(b"#" * (2 << 20))
    wiki = Wiki.load(tmp_path)
    assert {page.id for page in wiki.pages} == {page.id for page in Wiki.load().pages}
    by_file = {Path(p.path).name: p for p in wiki.problems}
    assert {name: p.code for name, p in by_file.items()} == {
        "acme-x1.yaml": "bad_unit", "nvidia-h200-sxm.yaml": "not_yaml", "latin.yaml": "unreadable",
        "folder.yaml": "unreadable", "huge.yaml": "unreadable", "pipe.yaml": "unreadable",
        "gone.yaml": "unreadable",
    }  # fmt: skip
    assert f"{tmp_path / 'acme-x1.yaml'}:12: bad_unit: " in str(by_file["acme-x1.yaml"])
    assert all(problem.fix for problem in wiki.problems)


def test_a_drivers_name_belongs_to_one_page(tmp_path: Path) -> None:
    alias = PAGE.replace("value: ACME X1 64GB", "value: NVIDIA H200")
    path = write(tmp_path, "acme-x1.yaml", alias)
    (problem,) = Wiki.load(tmp_path).problems
    assert (problem.code, problem.path, problem.line) == ("duplicate_alias", str(path), 8)
    assert "wiki/nvidia-h200-sxm.yaml:" in problem.detail
    found = Wiki.load(tmp_path).lookup("NVIDIA H200")
    assert found.id == "nvidia-h200-sxm"


def test_two_files_of_one_id(tmp_path: Path) -> None:
    write(tmp_path, "acme-x1.yaml", PAGE)
    second = write(tmp_path, "acme-x1.yml", PAGE)
    wiki = Wiki.load(tmp_path)
    (problem,) = wiki.problems
    assert (problem.code, problem.path) == ("duplicate_id", str(second))
    assert wiki.lookup("ACME X1 64GB") is not None


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    assert Wiki.load(tmp_path / "nowhere").problems == ()
    file = tmp_path / "file"
    file.write_text("")
    (problem,) = Wiki.load(file).problems
    assert problem.code == "unreadable"

"""The bundled pages: all load, names are exact, and known traps aren't fallen into."""

from __future__ import annotations

from collections import Counter

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from roofsmith.domain.device import Device
from roofsmith.domain.facts import ComputeCeiling, Fact
from roofsmith.errors import AmbiguousNameError, UnknownNameError
from roofsmith.specs.wiki import Wiki, bundled_files
from roofsmith.specs.wiki_datasheet import datasheet_of, unlike
from roofsmith.specs.wiki_metrics import near
from roofsmith.specs.wiki_page import Page

WIKI = Wiki.load()


def resolve(wiki: Wiki, place: str) -> Fact | None:
    return next((entry.fact() for entry, _ in wiki.written_at(place)), None)


def page_of(driver_name: str) -> Page:
    page = WIKI.lookup(driver_name)
    assert page is not None
    return page


def dense(page: Page) -> dict[tuple[str, str], float | None]:
    return {(c.operation, c.dtype): c.fact.value for c in datasheet_of(page).compute}


def test_every_bundled_page_is_a_page() -> None:
    assert WIKI.problems == ()
    assert len(WIKI.pages) == len(bundled_files()) >= 33


@pytest.mark.rule("cited-numbers")
def test_every_citation_leads_to_the_line_of_its_value() -> None:
    for file in bundled_files():
        page = next(p for p in WIKI.pages if p.id == file.stem)
        lines = file.read_text().splitlines()
        for entry in (*page.entries.values(), *page.aliases):
            assert entry.citation.path == f"wiki/{file.name}"
            line = lines[(entry.citation.line or 0) - 1]
            key, _, written = line.strip().removeprefix("- ").partition(": ")
            assert key in ("value", "value:"), line
            if not isinstance(entry.told.value, tuple):
                assert yaml.safe_load(written) == entry.told.value


def test_every_number_of_a_page_is_kept_with_its_source() -> None:
    """What a plain YAML reader finds in a file, the wiki has too."""
    for page in WIKI.pages:
        document = yaml.safe_load(page.file.read_text())
        found = dict(statements(document, ""))
        aliases = found.pop("identity.aliases", [])
        assert set(found) == set(page.entries)
        assert len(aliases) == len(page.aliases)
        for metric, told in found.items():
            kept = page.entries[metric].told.model_dump(mode="json", exclude_unset=True)
            assert kept == told, metric


def statements(node: dict[str, object], at: str) -> list[tuple[str, object]]:
    found: list[tuple[str, object]] = []
    for key, value in node.items():
        path = f"{at}.{key}".removeprefix(".")
        if path == "identity.aliases" or (isinstance(value, dict) and "value" in value):
            found.append((path, value))
        elif isinstance(value, dict):
            found += statements(value, path)
    return found


def test_no_driver_name_belongs_to_two_pages() -> None:
    names = Counter(name for page in WIKI.pages for name in page.driver_names)
    assert {name for name, count in names.items() if count > 1} == set()


def test_every_driver_name_leads_to_its_page_and_nothing_like_it_does() -> None:
    for page in WIKI.pages:
        for name in page.driver_names:
            assert WIKI.lookup(name) is page
            for other in (name.lower(), name[:-1], f"{name} MIG 1g.10gb", name.split()[-1], ""):
                assert other in page.driver_names or WIKI.lookup(other) is not page


@given(st.text(max_size=30) | st.sampled_from([n for p in WIKI.pages for n in p.names]))
def test_a_name_is_looked_up_whole_or_not_at_all(name: str) -> None:
    page = WIKI.lookup(name)
    assert page is None or name in page.driver_names


@pytest.mark.parametrize(
    ("driver_name", "page"),
    [
        ("NVIDIA H100 80GB HBM3", "nvidia-h100-sxm5-80gb"),
        ("NVIDIA H100 PCIe", "nvidia-h100-pcie-80gb"),
        ("NVIDIA H100 NVL", "nvidia-h100-nvl"),
        ("NVIDIA H200", "nvidia-h200-sxm"),
        ("NVIDIA H20", "nvidia-h20"),
        ("NVIDIA H20-3e", "nvidia-h20-3e"),
        ("NVIDIA A100-SXM4-80GB", "nvidia-a100-sxm4-80gb"),
        ("NVIDIA L4", "nvidia-l4"),
        ("NVIDIA L40S", "nvidia-l40s"),
        ("Tesla T4", "nvidia-t4"),
        ("AMD Instinct MI300X", "amd-mi300x"),
    ],
)
def test_drivers_names(driver_name: str, page: str) -> None:
    assert page_of(driver_name).id == page


@pytest.mark.parametrize(
    "driver_name",
    ["NVIDIA H100", "H100", "NVIDIA H200 NVL", "NVIDIA L40", "NVIDIA A100", "AMD Instinct MI300",
     "NVIDIA GeForce RTX 4090 D", "NVIDIA H100 80GB HBM3 MIG 1g.10gb", "Radeon", ""],
)  # fmt: skip
def test_an_unknown_product_is_not_found(driver_name: str) -> None:
    assert WIKI.lookup(driver_name) is None


def test_dense_and_sparse_are_kept_apart() -> None:
    """H100 SXM: 989.4 TFLOP/s of fp16 dense; 1,979 is with 2:4 sparsity."""
    page = page_of("NVIDIA H100 80GB HBM3")
    assert WIKI.cite(page, "fp16").value == 989.4e12
    assert WIKI.cite(page, "sparse.fp16").value == 1978.9e12
    sheet = datasheet_of(page)
    assert dense(page)["mma", "float16"] == 989.4e12
    assert dense(page)["fma", "float32"] == 66.9e12
    by_name = {fact.metric: fact.value for fact in sheet.other}
    assert by_name["peak_rates.tensor.sparse.fp16"] == 1978.9e12
    assert "measured.matmul_bf16_8192" not in by_name
    assert not any("year" in name for name in by_name)


@pytest.mark.rule("no-relatives")
def test_pcie_and_sxm_are_different_products() -> None:
    sxm, pcie = page_of("NVIDIA H100 80GB HBM3"), page_of("NVIDIA H100 PCIe")
    assert (WIKI.cite(sxm, "sm_count").value, WIKI.cite(pcie, "sm_count").value) == (132, 114)
    assert dense(pcie)["mma", "float16"] == 756e12
    assert datasheet_of(pcie).bandwidth.value != datasheet_of(sxm).bandwidth.value


def test_what_sources_disagree_on() -> None:
    assert WIKI.cite(page_of("NVIDIA H200"), "l2").value == 60 << 20
    assert WIKI.cite(page_of("NVIDIA H100 80GB HBM3"), "l2").value == 50 << 20
    assert WIKI.cite(page_of("NVIDIA H100 80GB HBM3"), "registers_per_thread_max").value == 255
    assert dense(page_of("NVIDIA GeForce RTX 4090"))["mma", "float8"] == 330.3e12
    mi355x = page_of("AMD Instinct MI355X")
    assert WIKI.cite(mi355x, "lds").value == 160 << 10
    assert WIKI.cite(mi355x, "tf32").value is None
    assert dense(mi355x)["mma", "float16"] == pytest.approx(2.5e15, rel=0.01)
    mi325x = page_of("AMD Instinct MI325X")
    assert WIKI.cite(mi325x, "l2").value == 32 << 20
    assert WIKI.cite(mi325x, "infinity_cache").value == 256 << 20


def test_a_kernel_on_mi250x_runs_on_one_of_its_two_dies() -> None:
    page = page_of("AMD Instinct MI250X")
    sheet = datasheet_of(page)
    assert sheet.bandwidth.value == 1.6e12
    assert dense(page)["mma", "float16"] == 191.5e12
    assert WIKI.cite(page, "bandwidth").value == 1.6e12
    assert WIKI.cite(page, "memory.bandwidth_byte_per_s").value == 3.2e12
    assert len({(c.operation, c.dtype) for c in sheet.compute}) == len(sheet.compute)


@pytest.mark.rule("unknown-stays")
def test_what_no_document_says_is_unknown() -> None:
    gh200 = datasheet_of(page_of("NVIDIA GH200 480GB"))
    assert gh200.compute == ()
    assert str(gh200.bandwidth) == "memory.bandwidth_byte_per_s: UNKNOWN (wiki not found)"
    assert datasheet_of(page_of("NVIDIA H20-3e")).facts() == (gh200.bandwidth,)
    assert "memory.size_bytes" not in page_of("NVIDIA GH200 144G HBM3e").entries


def test_every_datasheet_is_cited_and_resolves() -> None:
    for page in WIKI.pages:
        sheet = datasheet_of(page)
        for fact in sheet.facts():
            assert fact.value is None or resolve(WIKI, str(fact.citation)) == fact
        assert all(c.fact.unit in ("FLOP/s", "OP/s") for c in sheet.compute)
        assert all(isinstance(c, ComputeCeiling) and c.threads == 1 for c in sheet.compute)


def test_resolve() -> None:
    fact = WIKI.cite(page_of("NVIDIA H100 80GB HBM3"), "bandwidth")
    found = resolve(WIKI, str(fact.citation))
    assert (found.metric, found.value) == ("memory.bandwidth_byte_per_s", 3.35e12)
    arch = resolve(WIKI, "wiki/nvidia-h100-sxm5-80gb.yaml:49")
    assert (arch.value, "says Hopper" in str(arch.reason)) == (None, True)
    for wrong in ("wiki/nvidia-h100-sxm5-80gb.yaml:1", "wiki/none.yaml:9", "", "wiki"):
        assert resolve(WIKI, wrong) is None


@pytest.mark.parametrize(
    ("name", "page"),
    [
        ("H100 SXM", "nvidia-h100-sxm5-80gb"),
        ("h100-sxm", "nvidia-h100-sxm5-80gb"),
        ("H100 PCIe", "nvidia-h100-pcie-80gb"),
        ("nvidia-h100-nvl", "nvidia-h100-nvl"),
        ("NVIDIA H100 80GB HBM3", "nvidia-h100-sxm5-80gb"),
        ("H200", "nvidia-h200-sxm"),
        ("MI300X", "amd-mi300x"),
    ],
)
def test_peoples_names(name: str, page: str) -> None:
    assert WIKI.page(name).id == page


@pytest.mark.parametrize(
    ("name", "products"),
    [
        ("H100", ["H100 NVL", "H100 PCIe 80GB", "H100 SXM5 80GB"]),
        ("A100", ["A100 PCIe 40GB", "A100 SXM4 80GB"]),
        ("A100 80GB", ["A100 PCIe 80GB", "A100 SXM4 80GB"]),
        ("MI300", ["MI300A", "MI300X"]),
    ],
)
def test_a_name_of_several_products_is_not_guessed(name: str, products: list[str]) -> None:
    with pytest.raises(AmbiguousNameError) as error:
        WIKI.page(name)
    assert all(product in str(error.value.hint) for product in products)


def test_an_unknown_name_brings_similar_ones() -> None:
    with pytest.raises(UnknownNameError) as error:
        WIKI.page("H100 SMX")
    assert "H100 SXM" in str(error.value.hint)
    with pytest.raises(UnknownNameError, match="V100"):
        WIKI.page("V100")


@pytest.mark.parametrize("name", ["NVIDIA H100", "h100 80gb"])
def test_a_name_that_is_part_of_others_brings_those_and_no_other_product(name: str) -> None:
    """`NVIDIA H100` is none of the H100s, and an H200 still less."""
    with pytest.raises(UnknownNameError) as error:
        WIKI.page(name)
    offered = str(error.value.hint).casefold().split(", ")
    assert "nvidia h100 80gb hbm3" in offered
    assert all("h100" in product for product in offered)


@pytest.mark.parametrize(
    ("metric", "path"),
    [
        ("bandwidth", "memory.bandwidth_byte_per_s"),
        ("memory bandwidth", "memory.bandwidth_byte_per_s"),
        ("fp16", "peak_rates.tensor.dense.fp16"),
        ("float16", "peak_rates.tensor.dense.fp16"),
        ("Tensor FP16", "peak_rates.tensor.dense.fp16"),
        ("matrix.fp16", "peak_rates.tensor.dense.fp16"),
        ("vector.fp32", "peak_rates.vector.dense.fp32"),
        ("vector.fp16", "peak_rates.vector.dense.fp16"),
        ("fp32", "peak_rates.vector.dense.fp32"),
        ("fp64", "peak_rates.vector.dense.fp64"),
        ("tensor.fp64", "peak_rates.tensor.dense.fp64"),
        ("fp16 sparse", "peak_rates.tensor.sparse.fp16"),
        ("tensor.sparse.fp8", "peak_rates.tensor.sparse.fp8"),
        ("l2", "caches.l2_bytes"),
        ("sm_count", "execution.sm_count"),
        ("tdp", "execution.tdp_w"),
        ("tdp_w", "execution.tdp_w"),
        ("boost_clock", "execution.boost_clock_hz"),
        ("clock", "execution.boost_clock_hz"),
        ("nvlink", "execution.nvlink_byte_per_s"),
        ("register_allocation_unit", "occupancy.register_allocation_unit"),
    ],
)
def test_names_of_metrics(metric: str, path: str) -> None:
    page = WIKI.page("H100 SXM")
    entry = WIKI.entry(page, metric)
    assert entry.metric == path
    assert WIKI.cite(page, metric).metric == metric


def test_every_fact_has_a_name_of_its_own() -> None:
    """By path and by the path without its unit; no declared short form is ambiguous."""
    for page in WIKI.pages:
        for path in page.entries:
            found = WIKI.entry(page, path)
            assert found.metric == path
        for short in ("bandwidth", "l2", "clock", "memory", "tdp", "fp16", "fp32", "fp64", "type"):
            WIKI.entry(page, short)


def test_an_unknown_metric_is_unknown_with_near_names() -> None:
    page = WIKI.page("H100 SXM")
    assert str(WIKI.cite(page, "bandwith")) == "bandwith: UNKNOWN (wiki not found)"
    assert near(page, "bandwith")[0] == "memory.bandwidth_byte_per_s"
    assert WIKI.cite(page, "arch").value is None


def h100(**changes: object) -> Device:
    told = {
        "kind": "nvidia", "name": "NVIDIA H100 80GB HBM3", "cores": 132,
        "memory_bytes": 85520809984,
    }  # fmt: skip
    return Device.model_validate({**told, **changes})


def test_a_slice_of_a_product_is_not_the_product() -> None:
    page = page_of("NVIDIA H100 80GB HBM3")
    assert unlike(page, h100()) is None
    assert "60 multiprocessors" in str(unlike(page, h100(cores=60)))
    assert "42 GB of memory" in str(unlike(page, h100(memory_bytes=42 * 10**9)))


@pytest.mark.rule("no-relatives")
def test_a_relative_under_the_same_name_is_not_the_product() -> None:
    """Drivers call MI250 and MI250X alike; MI250 has 104 compute units in each die."""
    page = page_of("AMD Instinct MI250X/MI250")
    device = Device(kind="amd", name="AMD Instinct MI250X/MI250", cores=104)
    assert "104 multiprocessors" in str(unlike(page, device))
    assert unlike(page, device.model_copy(update={"cores": 110})) is None

"""The roofline worked out and as a drawing: what is on it, and that it always fits."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofsmith.analysis.roofline import bound
from roofsmith.domain.bound import Bound, CeilingPair, Cost
from roofsmith.domain.facts import Citation, Fact
from roofsmith.domain.target import Goal
from roofsmith.domain.workload import Workload
from roofsmith.report.arithmetic import roofline_lines, target_time_s
from roofsmith.report.roofline_chart import roofline_svg
from roofsmith.testing.machine import fake_device, fake_facts

SVG = "{http://www.w3.org/2000/svg}"
HERE = Citation(path="ceilings.json", line=1)


def bounded(
    flops: float | None, moved: float = 1e9, name: int = 1, *, printed: float | None = None
) -> Bound:
    """On the test's own processor; `printed`: its datasheet's figures are so many times higher."""
    cost = Cost(
        flops=flops, read_bytes=moved / 2, written_bytes=moved / 2, dtype="float32", source="test"
    )
    found = bound(Workload(dims={"N": name}), cost, fake_facts(), fake_device(), 2)
    if printed is None or found.measured is None:
        return found
    return found.model_copy(update={"datasheet": scaled(found.measured, printed)})


def scaled(pair: CeilingPair, factor: float) -> CeilingPair:
    def times(fact: Fact) -> Fact:
        value = None if fact.value is None else factor * fact.value
        return fact.model_copy(update={"value": value, "citation": HERE})

    return CeilingPair(bandwidth=times(pair.bandwidth), peak=times(pair.peak))


work = st.floats(1, 1e16)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_drawing_of_its_own_is_whole(count: int) -> None:
    bounds = [bounded(10.0 ** (8 + i), name=i + 1, printed=1.5) for i in range(count)]
    text = roofline_svg([*bounds, bounded(None, name=99)], "GPU <&> 3000")
    root = ElementTree.fromstring(text)
    panels = [p for p in root.iter(f"{SVG}svg") if "roofline" in p.get("class", "")]
    assert len(panels) == count
    assert all(panel.get("width") for panel in panels)
    assert len([p for p in root.iter(f"{SVG}polyline") if p.get("class") == "roof other"]) == count
    said = " ".join(root.itertext())
    assert "Roofline on GPU <&> 3000" in said
    assert "N=99: not drawn: no compute half" in said
    assert "prefers-color-scheme: dark" in said
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")


def test_captions_side_by_side_do_not_run_into_each_other() -> None:
    label = ",".join(f"dimension_{number}=123456789" for number in range(9))
    bounds = [bounded(1e8, name=n).model_copy(update={"workload": label}) for n in (1, 2)]
    root = ElementTree.fromstring(roofline_svg(bounds, "GPU"))
    captions = [text for text in root.findall(f"{SVG}text") if text.get("class") != "heading"]
    named = [text.text for text in captions if (text.text or "").startswith("dimension_0")]
    assert len(named) == 2
    by_line: dict[str, list[tuple[float, int]]] = {}
    for text in captions:
        place = (float(text.get("x", 0)), len(text.text or ""))
        by_line.setdefault(text.get("y", ""), []).append(place)
    for line in by_line.values():
        (left, characters), (right, _) = sorted(line)
        assert left + 8 * characters <= right  # 13 px bold: 8 px a character, at most


@given(work, st.floats(1e3, 1e12))
def test_no_tick_stands_on_the_name_of_its_axis(flops: float, moved: float) -> None:
    root = ElementTree.fromstring(roofline_svg([bounded(flops, moved)], "GPU"))
    texts = list(root.iter(f"{SVG}text"))
    (name,) = [float(t.get("y", 0)) for t in texts if t.get("class") == "axis end"]
    ticks = [float(t.get("y", 0)) for t in texts if t.get("class") == "tick end"]
    assert all(tick - name >= 12 for tick in ticks)


def test_the_arithmetic_ends_at_the_goal() -> None:
    found = bounded(1e8)
    goal = Goal(roofline_fraction=0.5)
    assert found.floor_time_s is not None
    assert target_time_s(found, goal) == 2 * found.floor_time_s
    lines = list(roofline_lines(found, goal))
    assert lines[-1] == "goal      = 50.0 ms / 0.5: at most 100 ms, moving 10.0 GB/s"
    assert target_time_s(bounded(None).model_copy(update={"floor_time_s": None}), goal) is None


def test_both_kinds_of_ceilings_stand_side_by_side_with_their_citations() -> None:
    found = bounded(1e8, printed=2.0)
    cited = {found.measured.bandwidth: 1, found.datasheet.bandwidth: 2}
    lines = list(roofline_lines(found, Goal(), cited))
    assert "bandwidth : measured 20.0 GB/s [1], datasheet 40.0 GB/s [2]" in lines
    assert "peak      : measured 200 GFLOP/s, datasheet 400 GFLOP/s" in lines
    assert not any(line.startswith("peak ") for line in roofline_lines(bounded(1e8), Goal()))


@given(flops=work, moved=st.floats(1e3, 1e12), factor=st.floats(0.1, 10))
def test_every_line_of_the_arithmetic_is_a_line(flops: float, moved: float, factor: float) -> None:
    lines = list(roofline_lines(bounded(flops, moved, printed=factor), Goal()))
    assert all(line and "\n" not in line and "None" not in line for line in lines)

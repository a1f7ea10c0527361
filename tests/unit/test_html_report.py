"""The page: who stands where, what its chart shows, and that it needs nothing but itself."""

from __future__ import annotations

import html
import json
import math
import re
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from campaign_builder import campaign_of, crippled, events_for, softmax_campaign
from hypothesis import given
from hypothesis import strategies as st
from test_yardsticks import reported

from roofsmith.analysis import figures as fmt
from roofsmith.analysis.roofline import bound
from roofsmith.domain.bound import Bound, CeilingPair, Cost
from roofsmith.domain.campaign import Campaign, Round, replay
from roofsmith.domain.facts import Citation, Fact
from roofsmith.domain.outcome import Cheated
from roofsmith.domain.target import Goal
from roofsmith.domain.workload import Workload
from roofsmith.report.arithmetic import roofline_lines, target_time_s
from roofsmith.report.campaign_files import render_campaign
from roofsmith.report.roofline_chart import roofline_svg
from roofsmith.report.summarize import summarize
from roofsmith.report.summary import CampaignState
from roofsmith.report.trend_chart import trend_chart
from roofsmith.testing.machine import fake_device, fake_facts


def page_of(campaign: Campaign) -> str:
    return render_campaign(campaign).files["report.html"]


def forged() -> Campaign:
    """A campaign whose only change was faster by its own clock alone."""
    told: list[object] = []
    for event in events_for(["kept", "regression"]):
        if isinstance(event, Round) and event.decision.kind == "rolled_back":
            cheated = Cheated(reason="clock_forged", detail="1.9x by its own clock, 1.0x by ours")
            judgement = event.judgement.model_copy(update={"outcome": cheated})
            told.append(event.model_copy(update={"judgement": judgement}))
        else:
            told.append(event)
    campaign = replay(told)  # type: ignore[arg-type]
    assert campaign is not None
    return campaign


# -- who stands where -----------------------------------------------------------------------


def test_every_class_has_baseline_final_kernel_and_floor() -> None:
    summary = summarize(softmax_campaign())
    assert [block.name for block in summary.standings] == [c.name for c in summary.classes]
    for block, found in zip(summary.standings, summary.classes, strict=True):
        baseline, final, floor = block.rows
        assert (baseline.role, final.role, floor.role) == ("baseline", "final", "floor")
        assert final.name == "final, round 7"
        assert baseline.ratio == found.speedup
        assert (final.ratio, floor.ratio) == (None, None)
        assert floor.fraction == pytest.approx(1.0)
        assert final.fraction == pytest.approx(found.fraction)
        assert floor.time_s < final.time_s < baseline.time_s


def test_yardsticks_stand_between_kernel_and_floor_with_their_own_intervals() -> None:
    summary = summarize(reported(eager=1e-3, compiled=0.4e-3))
    (block,) = summary.standings
    assert [row.role for row in block.rows] == [
        "baseline", "final", "yardstick", "yardstick", "floor",
    ]  # fmt: skip
    eager, compiled = block.rows[2:4]
    whole = {row.name: row.speedup for row in summary.yardsticks if row.workload is None}
    assert (eager.ratio, compiled.ratio) == (whole["eager"], whole["compiled"])
    assert eager.time_s == pytest.approx(1e-3, rel=0.01)
    assert compiled.time_s == pytest.approx(0.4e-3, rel=0.01)


def test_while_the_baseline_holds_it_has_one_row() -> None:
    campaign = replay(events_for(["regression"]))
    assert campaign is not None
    for block in summarize(campaign).standings:
        assert [(row.role, row.ratio) for row in block.rows] == [
            ("baseline", None),
            ("floor", None),
        ]


def test_nothing_stands_anywhere_before_something_was_timed() -> None:
    assert summarize(crippled()).standings == ()


def test_the_same_rows_are_in_the_page_and_the_benchmark() -> None:
    campaign = softmax_campaign()
    files, summary = render_campaign(campaign).files, summarize(campaign)
    rows: list[CampaignState] = [row for block in summary.standings for row in block.rows]
    section = files["report.html"].partition('id="standings"')[2].partition("</section>")[0]
    assert section.count("<tr class=") == len(rows)
    side = files["benchmark.md"].partition("## Side by side")[2].partition("\n## ")[0]
    assert len(re.findall(r"^\| (?!class|---)", side, re.MULTILINE)) == len(rows)


# -- the chart ------------------------------------------------------------------------------


def test_the_band_is_the_interval_of_the_total_after_every_round() -> None:
    summary = summarize(softmax_campaign())
    assert len(summary.held) == len(summary.steps)
    assert summary.held[-1] == summary.speedup
    for step, held in zip(summary.steps, summary.held, strict=True):
        kept = [s for s in summary.kept if s.number <= step.number and s.ratio is not None]
        assert held.value == pytest.approx(step.total_speedup)
        for side in (0, 1):
            product = math.prod(s.ratio.ci[side] for s in kept if s.ratio is not None)
            assert held.ci[side] == pytest.approx(product)
    assert page_of(softmax_campaign()).count('class="band"') == 2  # wide and narrow


@pytest.mark.parametrize(
    ("ci", "beyond"), [((0.115, 419.0), 2), ((0.5, 1.4), 0), ((0.115, 1.4), 1), ((0.5, 419.0), 1)]
)
def test_a_whisker_is_the_interval_up_to_the_plot_s_edges(
    ci: tuple[float, float], beyond: int
) -> None:
    campaign = campaign_of(events_for(["regression"]))
    (round_,) = campaign.rounds
    comparison = round_.judgement.comparison
    overall = comparison.overall.model_copy(update={"speedup": 0.7, "ci": ci})
    comparison = comparison.model_copy(update={"overall": overall})
    judgement = round_.judgement.model_copy(update={"comparison": comparison})
    changed = round_.model_copy(update={"judgement": judgement})
    chart = trend_chart(summarize(campaign.model_copy(update={"rounds": (changed,)})), narrow=False)
    drawn = ElementTree.fromstring(str(chart))
    ticks = [
        (float((one.text or "").rstrip("\N{MULTIPLICATION SIGN}")), float(one.attrib["y"]) - 4)
        for one in drawn.iter("text")
        if one.get("class") == "tick end"
    ]
    (low, start), (high, end) = ticks[0], ticks[-1]
    per_e = (end - start) / math.log(high / low)
    mark = next(one for one in drawn.iter("g") if one.get("class") == "mark rejected")
    arrows = [one for one in mark if one.get("class") == "whisker beyond"]
    assert len(arrows) == beyond
    whisker = next(one for one in mark if one.get("class") == "whisker")
    shown = [low * math.exp((float(whisker.attrib[name]) - start) / per_e) for name in ("y1", "y2")]
    for told, true in zip(shown, ci, strict=True):
        is_cut = abs(math.log(told / true)) > 0.02
        assert is_cut == (true in (0.115, 419.0))
    assert ci[0] < shown[0] * 1.02
    assert shown[0] < 0.7 < shown[1]
    assert fmt.ratio(0.7, ci) in (mark.findtext("title") or "")


def test_forged_times_are_no_point_of_the_chart_and_no_ratio() -> None:
    campaign = forged()
    step = summarize(campaign).steps[-1]
    assert (step.mark, step.status, step.ratio, step.level) == ("failed", "cheated", None, None)
    marks = re.findall(r'<g class="mark failed">.*?</g>', page_of(campaign), re.DOTALL)
    assert marks
    assert not any('class="dot"' in mark for mark in marks)


# -- what it needs --------------------------------------------------------------------------


def test_every_section_is_reached_from_the_top() -> None:
    text = page_of(reported(eager=1e-3))
    sections = re.findall(r'<section id="([\w-]+)"', text)
    linked = re.findall(r'href="#([\w-]+)"', text.partition("</nav>")[0])
    assert linked == sections


@pytest.mark.parametrize(("kinds", "is_gain"), [(["regression", "tie"], False), (["kept"], True)])
def test_a_figure_is_green_only_where_something_was_gained(kinds: list, is_gain: bool) -> None:
    campaign = replay(events_for(kinds, stop="out_of_ideas"))
    assert campaign is not None
    page = page_of(campaign)
    assert ('<main class="gained">' in page) is is_gain
    (rule,) = re.findall(r"^\.big \{.*\}$", page, re.MULTILINE)
    assert "color" not in rule
    assert ".gained .big { color: var(--good); }" in page
    assert ("; goal" in page.partition('class="meter"')[2].partition("</p>")[0]) is is_gain


BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
MEASURE = """<script>
document.querySelectorAll("details").forEach(found => { found.open = true; });
const wide = [...document.querySelectorAll(".scroll, .output"), document.documentElement]
  .filter(found => found.scrollWidth > found.clientWidth + 1)
  .map(found => [found.getAttribute("aria-label") ?? found.className, found.scrollWidth]);
document.body.textContent = JSON.stringify(wide);
</script>"""


def wider_than_their_place(page: str, width: int, place: Path) -> list[list[object]]:
    """Tables and outputs of a page, and the page, by a browser that has `width` pixels."""
    policy = re.compile(r"<meta http-equiv=[^>]*>")
    file = place / "page.html"
    file.write_text(policy.sub("", page).replace("</body>", f"{MEASURE}</body>"))
    command = [
        str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom",
        f"--user-data-dir={place / 'profile'}", f"--window-size={width},900", file.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    body = re.search(r"<body>(.*)</body>", done.stdout, re.DOTALL)
    assert body is not None
    return json.loads(html.unescape(body[1]))


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="needs chromium")
@pytest.mark.parametrize("name", ["softmax.c", f"{'rows_of_a_layer_' * 12}.c"])
def test_no_table_is_wider_than_a_screen_of_1280_pixels(name: str, tmp_path: Path) -> None:
    page = page_of(softmax_campaign()).replace("softmax.c", name)
    page = page.replace("N=4096,D=4096", "batch=4096,heads=32,length=65536,D=128,causal=true")
    assert wider_than_their_place(page, 1280, tmp_path) == []


def test_regions_are_named_and_headings_don_t_skip_a_level() -> None:
    page = page_of(softmax_campaign())
    regions = re.findall(r'<[^>]* role="region"[^>]*>', page)
    assert regions
    assert all(re.search(r'aria-label="[^"]', region) for region in regions)
    headings = [int(level) for level in re.findall(r"<h([1-6])\b", page)]
    assert headings[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(headings))


def luminance(colour: str) -> float:
    """Relative luminance of `#rrggbb` (WCAG 2.2)."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_text_stands_out_from_what_is_behind_it(theme: int) -> None:
    roots = re.findall(r":root \{(.*?)\}", page_of(softmax_campaign()), re.DOTALL)
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", roots[theme]))
    behind = [colours[name] for name in ("paper", "card", "wash")]
    pairs = [(colours[n], b) for n in ("ink", "soft", "good", "bad", "warn") for b in behind]
    pairs += [(colours[n], colours[f"{n}-wash"]) for n in ("good", "bad", "warn")]
    pairs += [(colours[n], colours["paper"]) for n in ("memory", "compute")]
    for text, paper in pairs:
        low, high = sorted((luminance(text), luminance(paper)))
        assert (high + 0.05) / (low + 0.05) >= 4.5, (text, paper)


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

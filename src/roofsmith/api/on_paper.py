"""Step 0 for a device that isn't plugged in: cited facts, and what the reference needs."""

from __future__ import annotations

from dataclasses import replace

from roofsmith.api.computing import computed
from roofsmith.api.system_clock import SystemClock
from roofsmith.config import Settings
from roofsmith.domain.target import HOST_LANGUAGES, Target
from roofsmith.engine.meter import Meter
from roofsmith.engine.survey import Survey, survey
from roofsmith.errors import UsageError
from roofsmith.judge.host.oracle import ReferenceOracle
from roofsmith.ports import Observer
from roofsmith.specs.unplugged import ShapesOracle, Unplugged
from roofsmith.specs.wiki import Wiki
from roofsmith.toolchains.dispatch import Toolchains


def survey_on_paper(
    target: Target, platform: str, settings: Settings, observer: Observer
) -> Survey:
    """What is known of a target on a product; nothing is built, measured or leased.

    Raises:
        UnknownNameError: no page has the platform's name; the hint has similar ones.
        AmbiguousNameError: several products share it.
        UsageError: a repository's workloads are known only once it ran.
    """
    named = settings.reading(target.gpu_wiki)
    wiki = Wiki.load(named.own_pages(), named.gpu_wiki)
    page = wiki.page(platform)
    if target.command is not None:
        raise UsageError(
            f"--platform is for kernels; {target.name} is a repository, whose workloads are what"
            " its benchmark prints",
            hint=f"run it where a {page.product} is plugged in, without --platform",
        )
    device = Unplugged(page, wiki.stated(page))
    toolchains = Toolchains(settings.builds_dir)
    signature = toolchains.signature(target.baseline)
    oracle = ReferenceOracle if target.language in HOST_LANGUAGES else ShapesOracle
    with oracle(target, signature) as opened:
        meter = Meter(SystemClock())
        found = survey(target, device, device, toolchains, opened, observer, meter, computed)
    bounds = (bound.model_copy(update={"measured": None}) for bound in found.bounds)
    return replace(found, bounds=tuple(bounds))

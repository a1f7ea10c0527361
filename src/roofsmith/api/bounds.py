"""`roofsmith roofline`: what the machine allows, before anything runs."""

from __future__ import annotations

from dataclasses import dataclass

from roofsmith.api.subjects import Subject, target_of
from roofsmith.api.wiring import open_target
from roofsmith.config import Settings
from roofsmith.domain.bound import CeilingKind
from roofsmith.domain.target import Goal
from roofsmith.engine.survey import Survey
from roofsmith.ports import Observer
from roofsmith.report.roofline_chart import roofline_svg


@dataclass(frozen=True, slots=True)
class Roofline:
    """The bounds of a target's workloads, and what the target wants of them."""

    survey: Survey
    goal: Goal
    ceilings: CeilingKind
    """That floor and goal are to stand on, where there are any of the kind."""

    @property
    def drawing(self) -> str:
        """The roofline as SVG."""
        return roofline_svg(self.survey.bounds, self.survey.environment.device.name)


def roofline(subject: Subject, settings: Settings, observer: Observer) -> Roofline:
    """Identify the machine, look up its ceilings, and compute every workload's bound.

    Args:
        subject: the kernel.
        settings: where caches are.
        observer: hears what happens.
    """
    target = target_of(subject)
    with open_target(target, settings, observer) as opened:
        return Roofline(opened.survey, target.goal, target.ceilings)

"""What a profiler saw of a candidate, and of the incumbent beside it. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from roofsmith.analysis.profiled import Profiles
from roofsmith.domain.campaign import Campaign, Round
from roofsmith.domain.profile import KERNEL_TIME, Bottleneck, Profile


@dataclass(frozen=True, slots=True)
class Seen:
    """What the profiler saw of a candidate; nothing, if it wasn't asked."""

    profile: Profile | None = None
    bottleneck: Bottleneck | None = None
    incumbent_profile: Profile | None = None
    """Of the incumbent, taken anew right before the candidate's."""
    aimed: tuple[Profile, Profile] | None = None
    """Of both, on a workload of the class that should gain, where `profile` is of another one."""

    @staticmethod
    def recorded(round_: Round) -> Seen:
        """What a round's record holds of it."""
        return Seen(
            round_.profile, round_.bottleneck, round_.incumbent_profile, round_.aimed_profiles
        )

    @property
    def is_timed(self) -> bool:
        """Whether the profiler times kernels at all."""
        return self.profile is not None and self.profile.get(KERNEL_TIME) is not None


def profiles_of(campaign: Campaign, seen: Seen) -> tuple[Profiles, ...]:
    """What the profiler saw of incumbent and candidate, on every workload on which it saw both."""
    before = seen.incumbent_profile or held(campaign)
    pairs = [] if before is None or seen.profile is None else [(before, seen.profile)]
    pairs += [] if seen.aimed is None else [seen.aimed]
    is_launch_timed = campaign.started.target.timing == "launch"
    return tuple(Profiles(before, after, is_launch_timed) for before, after in pairs)


def held(campaign: Campaign) -> Profile | None:
    """Of the incumbent, from when it became that; a kept round without a profile has none."""
    return None if campaign.holder is None else campaign.holder.profile

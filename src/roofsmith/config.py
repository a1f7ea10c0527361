"""Where roofsmith keeps its files. Read once at the edge, passed down; no globals."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import cast, get_args

from pydantic import ValidationError

from roofsmith.domain.fleet import GatePolicy
from roofsmith.domain.isolation import IsolationMode
from roofsmith.domain.values import content_id
from roofsmith.errors import UsageError

_GATE = "ROOFSMITH_GATE_"
MODEL_DEADLINE_S = 600.0
AGENT_DEADLINE_S = 900.0
"""For one answer. Chosen: what coding agents take for one change, several times over."""
ASKED_BY = "ROOFSMITH_ASKED_BY"


@dataclass(frozen=True, slots=True)
class Settings:
    """Folders of this user on this machine."""

    cache_dir: Path
    """Builds, measured ceilings and logs; safe to delete."""
    campaigns_dir: Path
    """Where campaigns go that were given no `--output`."""
    isolation: IsolationMode = "standard"
    """What keeps candidates apart from everything else."""
    lock_clocks: bool = False
    """Hold the clocks of the GPU that is measured on."""

    wiki_dir: Path | None = None
    """The user's own pages of the hardware wiki; None: the bundled ones alone."""
    wiki_named: bool = False
    """Whether somebody named that folder: then it must be there."""

    knowledge_dir: Path | None = None
    """The user's own pages of the library; None: the bundled ones alone."""
    gpu_wiki: Path | None = None
    """A folder of Markdown that has the word on hardware; None: the wiki's pages have it."""

    experience: str | None = None
    """URL of the database in which campaigns leave their rounds for later ones; None: nowhere."""
    data_dir: Path | None = None
    """What this user's campaigns learned; None: there is no home."""

    gate: GatePolicy = field(default_factory=GatePolicy)
    """When a GPU counts as idle, and how long to wait for one."""
    waits: bool = True
    """Whether to wait for an idle GPU at all."""
    model_deadline_s: float = MODEL_DEADLINE_S
    """For one answer of a language model."""
    agent_deadline_s: float = AGENT_DEADLINE_S
    """For one answer of a coding agent."""
    model_tokens: int | None = None
    """Of one turn's answer of a language model; None: what its proposer takes to be enough."""
    config_dir: Path | None = None
    """Where this user's consent and prices of models are; None: nowhere."""
    lease_dir: Path | None = None
    """Where leases of GPUs are; None: where all users of this host look for them."""
    private_dir: Path | None = None
    """In place of the cache for what would be believed of it; None: the cache is trusted."""
    asked_by: int | None = None
    """The process for whose agent this one works, and whose GPU it shares; None: for nobody's."""

    @property
    def _trusted_dir(self) -> Path:
        return self.private_dir or self.cache_dir

    @property
    def builds_dir(self) -> Path:
        return self._trusted_dir / "builds"

    @property
    def logs_dir(self) -> Path:
        """What kernels printed that died outside of campaigns."""
        return self.cache_dir / "logs"

    @property
    def left_dir(self) -> Path:
        """What commands and profilers wrote of a candidate, a folder for each."""
        return self.cache_dir / "commands"

    @property
    def compiled_dir(self) -> Path:
        """What workers keep of kernels that are compiled when they run, a folder per candidate."""
        return self._trusted_dir / "compiled"

    @property
    def ceilings_dir(self) -> Path:
        """Measured ceilings; at held clocks they are lower, and no floor for other runs."""
        kept = self._trusted_dir / "ceilings"
        return kept / "locked-clocks" if self.lock_clocks else kept

    def experience_url(self) -> str:
        """`experience`, to be used.

        Raises:
            UsageError: nothing is kept.
        """
        if self.experience is None:
            raise UsageError(
                "no experiments are kept: ROOFSMITH_EXPERIENCE is none, or there is no home",
                hint='export ROOFSMITH_EXPERIENCE="$HOME/.local/share/roofsmith/experience.db"',
            )
        return self.experience

    @property
    def experience_spool(self) -> Path:
        """Where experiments wait for a database that can't take them: beside its file."""
        url = self.experience_url()
        scheme, _, path = url.partition(":///")
        if scheme == "sqlite":
            return Path(f"{path}.spool.jsonl")
        digest = content_id(url)[:12]
        return (self.data_dir or self.cache_dir) / f"experience-{digest}.spool.jsonl"

    def kept_ceilings(self) -> tuple[Path, ...]:
        return tuple(sorted(self.ceilings_dir.glob("ceilings-*.json")))

    @property
    def held_out_dir(self) -> Path:
        """Workloads that campaigns show to no proposer; one that lost its own draws anew."""
        return self.cache_dir / "held-out"

    @property
    def clocks_dir(self) -> Path:
        """Records of GPUs whose clocks are held."""
        return self.cache_dir / "clocks"

    def own_pages(self) -> Path | None:
        """`wiki_dir`, to read from.

        Raises:
            UsageError: it was named, and is no folder.
        """
        if self.wiki_named and self.wiki_dir is not None and not self.wiki_dir.is_dir():
            raise UsageError(
                f"the wiki {self.wiki_dir} is no folder",
                hint="correct ROOFSMITH_WIKI (or --wiki), or make the folder",
            )
        return self.wiki_dir

    def reading(self, gpu_wiki: str | None) -> Settings:
        """These, with the gpu-wiki that a target names; without one, their own."""
        return self if gpu_wiki is None else replace(self, gpu_wiki=Path(gpu_wiki))

    @classmethod
    def from_environment(cls, environment: Mapping[str, str], working_dir: Path) -> Settings:
        """`$ROOFSMITH_CACHE`, else `$XDG_CACHE_HOME/roofsmith`, else `~/.cache/roofsmith`.

        `$ROOFSMITH_ISOLATION` is `strict`, `standard` or `none`. `$ROOFSMITH_WIKI` is the folder of
        wiki pages, else `$XDG_CONFIG_HOME/roofsmith/wiki`, else `~/.config/roofsmith/wiki`;
        `$ROOFSMITH_GPU_WIKI` is a local gpu-wiki.

        `$ROOFSMITH_KNOWLEDGE` is the folder of library pages, else `$XDG_CONFIG_HOME/roofsmith/
        knowledge`, else `~/.config/roofsmith/knowledge`, where there is one.

        `$ROOFSMITH_EXPERIENCE` is the file of experiments or the URL of a database, `none` for
        neither reading nor leaving any, else `experience.db` in `$XDG_DATA_HOME/roofsmith`, else in
        `~/.local/share/roofsmith`.

        `$ROOFSMITH_GATE_<FIELD>` replaces a field of the gate's policy, such as
        `$ROOFSMITH_GATE_GIVE_UP_S`; `$ROOFSMITH_LEASES` is the folder of leases.

        `$ROOFSMITH_MODEL_DEADLINE_S` is how long a language model may take for an answer, and
        `$ROOFSMITH_MODEL_TOKENS` how long the answer may be; `$ROOFSMITH_AGENT_DEADLINE_S` is how
        long a coding agent may take for one. What the user agreed to is in
        `$XDG_CONFIG_HOME/roofsmith`, else `~/.config/roofsmith`. `$ROOFSMITH_ASKED_BY` is a
        campaign's process, as its agent's commands are told.

        Raises:
            UsageError: `$ROOFSMITH_CACHE`, `$ROOFSMITH_WIKI`, `$ROOFSMITH_KNOWLEDGE`,
                `$ROOFSMITH_EXPERIENCE` or `$ROOFSMITH_LEASES` is not an absolute path, or there is
                no home; there is no such isolation; a gate's field is unknown or has no such value;
                the deadline is no time, or the tokens are no number.
        """
        return cls(
            cache_dir=_cache_dir(environment),
            campaigns_dir=working_dir / "campaigns",
            isolation=_isolation(environment.get("ROOFSMITH_ISOLATION") or "standard"),
            wiki_dir=_folder(
                environment, "ROOFSMITH_WIKI", "XDG_CONFIG_HOME", "roofsmith/wiki", ".config"
            ),
            wiki_named=bool(environment.get("ROOFSMITH_WIKI")),
            knowledge_dir=_knowledge_dir(environment),
            gpu_wiki=Path(named) if (named := environment.get("ROOFSMITH_GPU_WIKI")) else None,
            experience=_experience(environment),
            data_dir=_folder(environment, "", "XDG_DATA_HOME", "roofsmith", ".local/share"),
            gate=_gate(environment),
            model_deadline_s=_seconds(environment, "ROOFSMITH_MODEL_DEADLINE_S", MODEL_DEADLINE_S),
            agent_deadline_s=_seconds(environment, "ROOFSMITH_AGENT_DEADLINE_S", AGENT_DEADLINE_S),
            model_tokens=_model_tokens(environment.get("ROOFSMITH_MODEL_TOKENS")),
            config_dir=_folder(environment, "", "XDG_CONFIG_HOME", "roofsmith", ".config"),
            lease_dir=_lease_dir(environment),
            asked_by=int(asker) if (asker := environment.get(ASKED_BY, "")).isdecimal() else None,
        )

    def campaign_dir(self, name: str, now: datetime) -> Path:
        """`campaigns/<name>-<YYYYMMDD-HHMMSS>`: a folder of its own for every campaign."""
        return self.campaigns_dir / f"{name}-{now:%Y%m%d-%H%M%S}"


def _gate(environment: Mapping[str, str]) -> GatePolicy:
    """The policy, with what the environment says; lists have commas, `none` is no bound."""
    given = {
        name.removeprefix(_GATE).lower(): value.strip()
        for name, value in environment.items()
        if name.startswith(_GATE) and value.strip()
    }
    values: dict[str, object] = {
        key: None if text == "none" else text for key, text in given.items()
    }
    if (listed := given.get("blocking_throttle_reasons")) is not None:
        items = [] if listed == "none" else listed.split(",")
        values["blocking_throttle_reasons"] = tuple(item.strip() for item in items)
    try:
        return GatePolicy.model_validate(values)
    except ValidationError as error:
        complaint = error.errors()[0]
        key = str(complaint["loc"][0])
        unknown = complaint["type"] == "extra_forbidden"
        what = "there is no such setting" if unknown else complaint["msg"]
        known = ", ".join(f"{_GATE}{name.upper()}" for name in GatePolicy.model_fields)
        raise UsageError(
            f"{_GATE}{key.upper()}={given[key]}: {what}",
            hint=f"docs/gate.md says what they mean: {known}",
        ) from error


def _seconds(environment: Mapping[str, str], name: str, otherwise: float) -> float:
    if not (chosen := environment.get(name)):
        return otherwise
    try:
        seconds = float(chosen)
    except ValueError:
        seconds = 0.0
    if 0 < seconds < math.inf:
        return seconds
    raise UsageError(f"{name}={chosen} is no time", hint=f"seconds, such as {otherwise:g}")


def _model_tokens(chosen: str | None) -> int | None:
    if not chosen:
        return None
    if chosen.isdecimal() and int(chosen) > 0:
        return int(chosen)
    raise UsageError(
        f"ROOFSMITH_MODEL_TOKENS={chosen} is no number of tokens", hint="such as 16000"
    )


def _lease_dir(environment: Mapping[str, str]) -> Path | None:
    chosen = environment.get("ROOFSMITH_LEASES")
    if not chosen:
        return None
    if not Path(chosen).is_absolute():
        raise UsageError(
            f"ROOFSMITH_LEASES={chosen} is not an absolute path",
            hint="a folder that all users of these GPUs share, with mode 1777",
        )
    return Path(chosen)


def _isolation(chosen: str) -> IsolationMode:
    for mode in get_args(IsolationMode):
        if mode == chosen:
            return cast("IsolationMode", mode)
    raise UsageError(
        f"ROOFSMITH_ISOLATION={chosen}: there is no such isolation", hint="strict, standard or none"
    )


def _cache_dir(environment: Mapping[str, str]) -> Path:
    found = _folder(environment, "ROOFSMITH_CACHE", "XDG_CACHE_HOME", "roofsmith", ".cache")
    if found is not None:
        return found
    raise UsageError(
        "neither HOME nor ROOFSMITH_CACHE says where the cache goes",
        hint="export ROOFSMITH_CACHE=/some/folder",
    )


def _experience(environment: Mapping[str, str]) -> str | None:
    chosen = environment.get("ROOFSMITH_EXPERIENCE", "")
    if chosen == "none" or "://" in chosen:
        return None if chosen == "none" else chosen
    name, below = "ROOFSMITH_EXPERIENCE", "roofsmith/experience.db"
    path = _folder(environment, name, "XDG_DATA_HOME", below, ".local/share")
    return None if path is None else f"sqlite:///{path}"


def _knowledge_dir(environment: Mapping[str, str]) -> Path | None:
    below = "roofsmith/knowledge"
    found = _folder(environment, "ROOFSMITH_KNOWLEDGE", "XDG_CONFIG_HOME", below, ".config")
    named = bool(environment.get("ROOFSMITH_KNOWLEDGE"))
    return found if found is not None and (named or found.is_dir()) else None


def _folder(
    environment: Mapping[str, str], own: str, xdg: str, below: str, at_home: str
) -> Path | None:
    """Variable `own`, else `below` the XDG folder, else below its place at home."""
    if chosen := environment.get(own):
        path = Path(chosen).expanduser()
        if not path.is_absolute():
            raise UsageError(
                f"{own}={chosen} is not an absolute path",
                hint=f'export {own}="$HOME/{at_home}/{below}"',
            )
        return path
    # The XDG base directory specification tells programs to ignore relative paths.
    if (base := environment.get(xdg, "")).startswith("/"):
        return Path(base) / below
    if home := environment.get("HOME"):
        return Path(home) / at_home / below
    return None

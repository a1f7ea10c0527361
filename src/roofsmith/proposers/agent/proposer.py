"""Asks a coding agent's command line, and believes nothing but the answer that it leaves."""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from roofsmith.asking.brief import ask_folder, document, markdown, references_of
from roofsmith.asking.proposing import editable, proposal_of, without_keys
from roofsmith.config import AGENT_DEADLINE_S
from roofsmith.domain.answer import Answer
from roofsmith.domain.campaign import Round
from roofsmith.domain.command import CommandSpec
from roofsmith.domain.kernel import Candidate
from roofsmith.domain.proposal import Proposal
from roofsmith.domain.refusal import PASSES, BadAnswer, RefusalReason
from roofsmith.domain.standing import limits_in_force
from roofsmith.errors import MachineError
from roofsmith.ports import Brief, Observer, Screen
from roofsmith.proposers.agent.answered import QUIET_S
from roofsmith.proposers.agent.attributes import AttributeWatch
from roofsmith.proposers.agent.folder import PROPOSAL, Folder, edited, make_folder, remove_folder
from roofsmith.proposers.agent.presets import Agent, filled, prompt_text
from roofsmith.proposers.agent.running import (
    Job,
    Ran,
    make_launcher,
    printable,
    run_agent,
    settings_for,
)
from roofsmith.proposers.agent.usage import UsageMeter
from roofsmith.proposers.agent.watch import AgentWatch
from roofsmith.proposers.model.reading import answer_in
from roofsmith.redaction import Redaction

_SHOW_EVERY_S = 0.1
"""Lines that come faster are kept and not shown."""
_SHOWN = 160
"""Characters of a line."""
_LONGEST_DETAIL = 1500
_MOST_READ = 1 << 20
"""Of the end of what an agent printed, where its answer is looked for there."""
_NAMED = 3
"""Paths that a refusal names."""
BYTECODE, CACHED = ".pyc", "__pycache__"
_NOTES = "memory"
"""Folder of a campaign in which its user may set flags by hand at any time."""


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """What of the user's an agent's command must leave alone, beside the campaign's directory."""

    restored: tuple[Path, ...] = ()
    """The campaign's own: put back."""
    seen: tuple[Path, ...] = ()
    """The user's: only looked at."""
    kept: tuple[Path, ...] = ()
    """The user's, whose modes, owners, times and attributes are put back with all that is in
    them."""
    beside: tuple[Path, ...] = ()
    """The same of folders' entries."""
    programs: tuple[Path, ...] = ()
    """Folders of what this process runs: where one changes, nothing more is run."""
    packages: tuple[Path, ...] = ()
    """The same of what it imports."""


@dataclass(frozen=True, slots=True)
class CheckedOut:
    """A repository for an agent to look around in."""

    folder: Path
    """That sources are relative to."""
    changed: Callable[[], Sequence[str]]
    """Files that git tracks, that may not be edited, and that aren't as they were."""


@dataclass(frozen=True, slots=True)
class Terms:
    """How agents work for one campaign."""

    directory: Path
    """The campaign's."""
    observer: Observer
    environment: Mapping[str, str]
    """This process's."""
    write_ask: Callable[[Path, Mapping[str, object], str, Mapping[str, str]], None]
    """Fills the folder of an ask: a brief twice, and references."""
    read_answer: Callable[[Path, Mapping[str, str]], Answer | BadAnswer]
    """Reads a folder with an answer, given what may be changed."""
    end_left: Callable[[str], Sequence[str]]
    """Ends processes whose environment holds this name."""
    new_name: Callable[[], str]
    variable: str
    """That holds the name."""
    check_out: Callable[[CommandSpec, Candidate, Path], CheckedOut] | None = None
    """Puts a repository with a candidate in it into a folder."""
    elsewhere: Callable[[], Elsewhere] = Elsewhere
    forget: Callable[[], None] = lambda: None
    """Throws away what was made before, and lies where an agent without walls can write."""
    deadline_s: float = AGENT_DEADLINE_S
    """For one answer."""
    tokens: int | None = None
    """For one answer; None: what the campaign has left, if that is limited."""
    layers: tuple[str, ...] = ()
    """Of walls, by name: those that the kernel puts up against writing elsewhere."""

    @property
    def walls(self) -> bool:
        """Whether the kernel forbids writing elsewhere."""
        return bool(self.layers)


class AgentProposer:
    """Proposes what an agent's command answers; all that it remembers is the ledger's.

    Args:
        agent: whom to ask.
        terms: how it works.
    """

    def __init__(self, agent: Agent, terms: Terms) -> None:
        self._agent, self._terms = agent, terms

    @property
    def name(self) -> str:
        """`agent:claude`; of a command of the user's own `agent:(program)`."""
        return f"agent:{self._agent.name}"

    def ask(self, brief: Brief, screen: Screen) -> Proposal | BadAnswer:
        """The agent's proposal, or what its answer is taken for.

        Raises:
            StorageError: the campaign's folder can't be written.
            MachineError: it changed what this process runs.
        """
        brief = screen.with_evidence(brief)
        terms, ask = self._terms, ask_folder(brief, self._terms.directory)
        _write(terms, ask, brief)
        place = ask / f"attempt-{_attempt(brief)}"
        place.mkdir(exist_ok=True)
        before = brief.repair.candidate if brief.repair is not None else brief.incumbent
        sources = editable(before, brief)
        repository = _Repository(terms, brief, before)
        work, tools = place / "work", place / "bin"
        remove_folder(tools)
        try:
            folder = make_folder(
                work, lambda root: _write(terms, root, brief, root), sources, repository.check_out
            )
            make_launcher(tools, terms.environment, terms.deadline_s)
            return self._answered(brief, folder, place, sources, repository)
        finally:
            remove_folder(work)
            remove_folder(tools)

    def tell(self, round: Round) -> None:
        """Nothing to remember: the brief of the next ask says what became of it."""

    def _answered(
        self,
        brief: Brief,
        folder: Folder,
        place: Path,
        sources: Mapping[str, str],
        repository: _Repository,
    ) -> Proposal | BadAnswer:
        terms, log = self._terms, place / "agent.log"
        redacted = Redaction(terms.environment)
        meter = UsageMeter(self._agent.preset.usage)
        log.unlink(missing_ok=True)  # of an attempt that was killed; it may be a link
        elsewhere = terms.elsewhere()
        watch = self._watch(folder, log, elsewhere)
        programs = AgentWatch(restored=(), seen=elsewhere.packages, flat=elsewhere.programs)
        name = terms.new_name()
        job = self._job(brief, folder, place, redacted, name)
        attributes = AttributeWatch(
            elsewhere.kept, elsewhere.beside, besides={terms.directory, *job.writable}
        )
        shown = _Shown(terms.observer, self.name)

        def hear(line: str) -> None:
            meter.hear(line)
            shown.show(line)

        ran = run_agent(job, hear, lambda: terms.end_left(name))
        changed = (
            *watch.changed(), *attributes.changed(), *map(Path, repository.changed())
        )  # fmt: skip
        if not terms.walls:
            terms.forget()
            _require_same(programs.changed(), self.name)
        where = log.relative_to(terms.directory)

        def bad(reason: RefusalReason, detail: str) -> BadAnswer:
            return BadAnswer(
                reason=reason,
                detail=redacted(f"{detail[:_LONGEST_DETAIL]}; log: {where}"),
                tokens=meter.tokens,
                cost_usd=meter.cost_usd,
                proposer=self.name,
            )

        if changed:
            return bad("failed", _trespass(changed, terms))
        wrong = _ended_badly(ran, terms)
        if wrong and ran.is_orphaned:
            return bad(*wrong)
        answer = self._read(folder, sources)
        if isinstance(answer, BadAnswer) and not (folder.answer / PROPOSAL).exists():
            answer = _printed(log) or _without_proposal(answer, folder, sources, ran)
        if isinstance(answer, BadAnswer):
            return bad(*(wrong or (answer.reason, answer.detail)))
        if (secret := redacted.named_in(answer.model_dump(mode="python"))) is not None:
            return bad("malformed", f"the answer holds the value of {secret}")
        used = {
            "tokens": meter.tokens or answer.tokens,
            "cost_usd": meter.cost_usd or answer.cost_usd,
        }
        clean = without_keys(answer, redacted).model_copy(update=used)
        proposal = proposal_of(clean, brief, self.name)
        if isinstance(proposal, BadAnswer):
            is_whole = wrong is None or proposal.reason in PASSES
            said = (proposal.reason, proposal.detail) if is_whole or wrong is None else wrong
            return bad(*said).model_copy(
                update={"tokens": proposal.tokens, "cost_usd": proposal.cost_usd}
            )
        if wrong is not None:
            note = f"its proposal is whole and counts, though {wrong[1]}"
            terms.observer.stage("agent", f"{self.name}: {redacted(note)}")
            with log.open("a", encoding="utf-8") as written:
                written.write(f"roofsmith: {redacted(note)}\n")
        return proposal

    def _watch(self, folder: Folder, log: Path, elsewhere: Elsewhere) -> AgentWatch:
        """Of all that the agent has no business in.

        Behind walls it is the user who writes to what is the user's.
        """
        terms = self._terms
        return AgentWatch(
            restored=(*folder.given, terms.directory, *elsewhere.restored),
            seen=() if terms.walls else elsewhere.seen,
            besides={folder.root, log, *((terms.directory / _NOTES,) if terms.walls else ())},
        )

    def _job(
        self, brief: Brief, folder: Folder, place: Path, redacted: Redaction, name: str
    ) -> Job:
        terms, preset = self._terms, self._agent.preset
        own, users = str(folder.home), terms.environment.get("HOME")
        home = users if preset.home == "user" and users else own
        tokens = _tokens_left(brief, terms.tokens)
        values = {
            "work": str(folder.root),
            "answer": str(folder.answer),
            "deadline_s": f"{terms.deadline_s:g}",
        }
        given = {
            **{name: filled(value, values) for name, value in preset.sets.items()},
            "ROOFSMITH_BRIEF": str(folder.brief),
            "ROOFSMITH_ANSWER": str(folder.answer),
            "ROOFSMITH_DEADLINE_S": values["deadline_s"],
            **settings_for(terms.environment, folder.cache),
            **({} if tokens is None else {"ROOFSMITH_TOKENS": str(tokens)}),
            terms.variable: name,
        }
        files = [str(folder.sources / path) for path in editable(brief.incumbent, brief)]
        lists = {"sources": files, "walls": preset.walled if terms.walls else preset.unwalled}
        words = self._agent.words({**values, "prompt": prompt_text(values)}, lists)
        writable = [folder.root, *(Path(home, path) for path in preset.writes if home != own)]
        return Job(
            command=words,
            directory=folder.root,
            environment=agent_environment(
                terms.environment, home, str(folder.temporary), str(place / "bin"), given
            ),
            deadline_s=terms.deadline_s,
            layers=terms.layers,
            writable=writable,
            log=place / "agent.log",
            redacted=redacted,
            answer=None if preset.terminal == "yes" else folder.answer / PROPOSAL,
            terminal=preset.terminal == "yes",
        )  # fmt: skip

    def _read(self, folder: Folder, sources: Mapping[str, str]) -> Answer | BadAnswer:
        try:
            if not stat.S_ISDIR(folder.answer.lstat().st_mode):
                return BadAnswer(reason="malformed", detail="the answer's folder is no folder")
            if os.listdir(folder.answer) == [PROPOSAL]:  # noqa: PTH208
                found = edited(folder, sources)
                if isinstance(found, str):
                    return BadAnswer(reason="malformed", detail=found)
                answer = self._terms.read_answer(folder.answer, sources)
                is_change = isinstance(answer, Answer) and not (
                    answer.files or answer.edits or answer.diff or answer.give_up
                )
                return answer.model_copy(update={"files": found}) if is_change else answer
            return self._terms.read_answer(folder.answer, sources)
        except (OSError, RecursionError) as error:
            why = getattr(error, "strerror", None) or "its folders are too deep"
            return BadAnswer(reason="malformed", detail=f"the answer can't be read: {why}")


class _Repository:
    """What an agent sees of a command target's repository; nothing for other targets."""

    def __init__(self, terms: Terms, brief: Brief, candidate: Candidate) -> None:
        self._terms, self._candidate = terms, candidate
        self._spec = brief.campaign.started.target.command
        self._made: CheckedOut | None = None

    @property
    def check_out(self) -> Callable[[Path], Path] | None:
        check_out, spec = self._terms.check_out, self._spec
        if check_out is None or spec is None:
            return None

        def into(root: Path) -> Path:
            self._made = check_out(spec, self._candidate, root)
            return self._made.folder

        return into

    def changed(self) -> Sequence[str]:
        return () if self._made is None else self._made.changed()


class _Shown:
    def __init__(self, observer: Observer, name: str) -> None:
        self._observer, self._name, self._at = observer, name, float("-inf")
        observer.stage("agent", name)

    def show(self, line: str) -> None:
        now = time.monotonic()
        if now - self._at >= _SHOW_EVERY_S:
            self._at = now
            self._observer.stage("agent", f"{self._name}: {printable(line.strip()[:_SHOWN])}")


def _write(terms: Terms, folder: Path, brief: Brief, draft: Path | None = None) -> None:
    """Fill the folder of an ask, whose commands look at a draft's folder, if there is one."""
    found = document(brief, terms.directory, draft)
    references = references_of(brief.campaign.started.target)
    terms.write_ask(folder, found, markdown(found), references)


def _require_same(changed: Sequence[Path], agent: str) -> None:
    """See that what this process runs is what it was; what Python makes again itself is removed.

    Raises:
        MachineError: it isn't.
    """
    for path in changed:
        if path.suffix == BYTECODE:
            path.unlink(missing_ok=True)
    others = [path for path in changed if path.suffix != BYTECODE and path.name != CACHED]
    if others:
        names = ", ".join(map(str, others[:_NAMED]))
        raise MachineError(
            f"while {agent} worked, what roofsmith runs has changed: {names}; nothing more is run",
            hint="look at it and put it right, then resume; user namespaces, Landlock (Linux 6.2),"
            " a container or another user keep an agent from it",
        )


def _attempt(brief: Brief) -> int:
    """1 for the first ask of a round; the ledger says how many were refused."""
    last = brief.campaign.last_round
    return 1 + sum(past.after_round == last for past in brief.campaign.refusals)


def _tokens_left(brief: Brief, most: int | None) -> int | None:
    """Tokens that an answer may take; None: nobody limits them."""
    limit = limits_in_force(brief.campaign).max_tokens
    if limit is None:
        return most
    left = max(0, limit - brief.campaign.tokens)
    return left if most is None else min(left, most)


def _trespass(changed: Sequence[Path], terms: Terms) -> str:
    names = ", ".join(
        str(path.relative_to(terms.directory) if path.is_relative_to(terms.directory) else path)
        for path in changed[:_NAMED]
    )
    more = f" and {len(changed) - _NAMED} more" if len(changed) > _NAMED else ""
    return f"outside of what it may change, {names}{more} changed"


def _printed(log: Path) -> Answer | None:
    """The answer that an agent printed in place of leaving it in its folder, if it did."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _MOST_READ))
            text = file.read().decode(errors="replace")
        return Answer.model_validate_json(answer_in(text) or "")
    except (OSError, ValueError):
        return None


def _without_proposal(
    answer: BadAnswer, folder: Folder, sources: Mapping[str, str], ran: Ran
) -> BadAnswer:
    """What is wrong where there is no proposal, and what there is in its place."""
    found = edited(folder, sources)
    if found and not isinstance(found, str):
        instead = f"; {', '.join([*found][:_NAMED])} was changed, and nothing says what for"
    else:
        instead = f"; it printed: {' | '.join(ran.tail)}" if ran.tail else "; it printed nothing"
    return answer.model_copy(update={"detail": f"{answer.detail} in $ROOFSMITH_ANSWER{instead}"})


def _ended_badly(ran: Ran, terms: Terms) -> tuple[RefusalReason, str] | None:
    """What was wrong with an agent's end; a proposal that is whole counts nevertheless."""
    said = f"; it printed: {' | '.join(ran.tail)}" if ran.tail else "; it printed nothing"
    if ran.stopped == "deadline":
        return "deadline", f"it didn't end within {terms.deadline_s:g} s{said}"
    if ran.stopped == "answered":
        return "deadline", f"it did nothing for {QUIET_S:g} s afterwards, and was ended{said}"
    if ran.stopped == "flood":
        return "failed", "it printed too much"
    if ran.code is None:
        return "failed", f"it ended whoever kept it{said}"
    if ran.code != 0:
        how = f"exited with {ran.code}" if ran.code > 0 else f"was killed by signal {-ran.code}"
        return "failed", f"the agent {how}{said}"
    if ran.left:
        return "failed", f"it left processes behind: {', '.join(ran.left[:_NAMED])}"
    return None


_DROPPED = ("GIT_", "ROOFSMITH_", "PYTHON", "XDG_RUNTIME_DIR")
"""Beginnings of variables that are this process's own, or would lead somebody's git elsewhere."""
_OWN = ("VIRTUAL_ENV", "CONDA_PREFIX", "LD_PRELOAD", "LD_LIBRARY_PATH", "CDPATH", "OLDPWD")
_PACKAGES = Path(__file__).parents[3]


def agent_environment(
    environment: Mapping[str, str], home: str, temporary: str, tools: str, given: Mapping[str, str]
) -> dict[str, str]:
    """The environment of an agent's command.

    Args:
        home: the agent's; the user's own settings folders stay only with the user's own home.
        tools: the folder of what it may run of roofsmith.
    """
    is_users = home == environment.get("HOME")
    kept = {
        name: value
        for name, value in environment.items()
        if not name.startswith(_DROPPED)
        and name not in _OWN
        and (is_users or not name.startswith("XDG_"))
    }
    kept["PATH"] = os.pathsep.join([tools, _path(environment.get("PATH", os.defpath))])
    return kept | {
        "HOME": home,
        "TMPDIR": temporary,
        "TMP": temporary,
        "TEMP": temporary,
        "GIT_TERMINAL_PROMPT": "0",
        **given,
    }


def _path(path: str) -> str:
    """A search path without the folders that roofsmith itself is in, and without relative ones."""
    own = [_PACKAGES]
    if sys.prefix != sys.base_prefix:
        own.append(Path(sys.prefix))
    kept = [
        entry
        for entry in path.split(os.pathsep)
        if entry.startswith("/") and not any(Path(entry).is_relative_to(folder) for folder in own)
    ]
    return os.pathsep.join(kept) or os.defpath

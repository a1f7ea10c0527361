"""What clients may call: whole steps of a campaign, and single steps without one."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import starmap
from pathlib import Path
from typing import Annotated, Any, TypeVar

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field, WithJsonSchema

from roofsmith import api, campaign_socket
from roofsmith.api import documents, specs_documents
from roofsmith.api.dashboard import campaign_row, id_of
from roofsmith.domain.answer import Answer
from roofsmith.domain.campaign import Campaign
from roofsmith.domain.dashboard import CONTRACT
from roofsmith.domain.options import CampaignPlan, Judging, Opening, SessionLimits, Subject
from roofsmith.domain.profile import BottleneckKind
from roofsmith.domain.standing import limits_in_force
from roofsmith.errors import RoofsmithError
from roofsmith.mcp.answers import MOST_CHARACTERS, as_json, error_text, fitting
from roofsmith.mcp.offering import offers
from roofsmith.mcp.working import CancelledWorkError, Ears, awaited, machine, new_thread

Result = TypeVar("Result")
Client = Context[Any, Any]
AnyTool = Callable[..., Awaitable[str]]

PROPOSER = "mcp"
"""The proposer that a record names for what clients submit."""
_PARTS = f"One of {', '.join(api.PARTS)}; round and diff with a number, such as `round 2`."
_PATHS = ("reference", "gpu_wiki")
_settings = partial(api.settings, waits=False)
_BRIEF_CHARACTERS = MOST_CHARACTERS - 1_500


def _answer_schema() -> dict[str, Any]:
    """The schema of an answer without references, which mean another place within a tool's."""
    schema = Answer.model_json_schema()
    parts = schema.pop("$defs", {})

    def whole(value: Any) -> Any:
        if isinstance(value, dict):
            if "$ref" in value:
                return whole(parts[value["$ref"].rsplit("/", 1)[1]])
            return {key: whole(one) for key, one in value.items()}
        return [whole(one) for one in value] if isinstance(value, list) else value

    found: dict[str, Any] = whole(schema)
    return found


Directory = Annotated[str, Field(description="The campaign's directory, as its start named it.")]
Kernel = Annotated[
    str, Field(description="A kernel file (then with reference and workloads), or a target.yaml.")
]
Proposed = Annotated[Any, WithJsonSchema(_answer_schema())]


class Tools:
    def __init__(self) -> None:
        self._at_work: dict[Path, Ears] = {}

    def end(self) -> None:
        for ears in self._at_work.values():
            ears.cancel()

    def register(self, server: MCPServer[Any]) -> None:
        tools: tuple[AnyTool, ...] = (
            self.define, self.campaign_start, self.campaign_brief, self.campaign_try,
            self.campaign_submit,
            self.campaign_status, self.campaign_show, self.campaign_report, self.judge,
            *starmap(_step, _STEPS), self.roofline, self.cite, self.remarks,
            self.experience_recommend,
        )  # fmt: skip
        for tool in tools:
            server.add_tool(tool, structured_output=False)

    async def define(
        self,
        sentence: Annotated[str, Field(description="Such as: optimize kernel.cu on H20, 3 rounds")],
        context: Client,
        write: Annotated[bool, Field(description="Once somebody confirmed what it says.")] = False,
    ) -> str:
        """What a sentence asks of a campaign, with the words of each value; what is missing.

        Show it to whoever said it, add what is missing as `name: value`, then write the target.
        """

        def work(ears: Ears) -> dict[str, Any]:
            found, command = api.define(sentence, _settings()), None
            if write:
                command = api.write_defined(found, _settings(), ears, force=False)
            return found.document | {"command": command}

        return as_json(await _alone(work, context), "roofsmith define --json")

    @offers(subject=Subject, plan=CampaignPlan, limits=SessionLimits, opening=Opening)
    async def campaign_start(
        self,
        kernel: Kernel,
        context: Client,
        subject: Any,
        plan: Any,
        limits: Any,
        opening: Any,
        directory: Annotated[
            str | None, Field(description="Where it goes; a new folder in ./campaigns otherwise.")
        ] = None,
    ) -> str:
        """Begin a campaign: survey the machine, check the kernel, measure the baseline.

        Takes from seconds to minutes. Then: campaign_brief. With proposers it goes on by itself, to
        its end.
        """
        named = _subject(kernel, subject)
        with told_errors():
            place = api.new_directory(named) if directory is None else Path(directory)
        place = place.expanduser().resolve()
        asked = CampaignPlan(named, limits=SessionLimits(**limits), **plan)

        def work(ears: Ears) -> dict[str, Any]:
            found = api.optimize(asked, place, api.settings(**opening), ears)
            return documents.finished_document(found)

        document = await self._on(place, work, context)
        wanted = ("campaign", "directory", "report", "roofline_fraction", "baseline", "notes")
        answer = {name: document[name] for name in wanted}
        return as_json({**answer, "next": "campaign_brief"}, str(place))

    @offers(opening=(Opening, ("isolation", "waits")))
    async def campaign_brief(self, directory: Directory, context: Client, opening: Any) -> str:
        """What the next change may build on: the kernel, contract, bottleneck, evidence, history.

        Read all of it, choose one change, then campaign_submit with the round that it names. The
        campaign stays open until then, so that nothing has to be set up again.
        """
        arguments = {"most_characters": _BRIEF_CHARACTERS}
        answer = await self._asked(directory, "ask", arguments, opening, context)
        document = answer["document"]
        stop = document["stop"]
        ended = "" if stop is None else f"It would end here: {stop['detail']}\n\n"
        folder = f"{document['directory']}/asks/round-{document['next_round']}"
        return fitting(f"{ended}{answer['text']}", f"{folder}/brief.md and brief.json")

    @offers(opening=(Opening, ("isolation", "waits")))
    async def campaign_try(
        self, directory: Directory, answer: Proposed, context: Client, opening: Any
    ) -> str:
        """Look at a change for seconds: right on one draw, about how fast, do its citations hold.

        Decides nothing, is no round and costs none; then campaign_submit the same answer.
        """
        told = await self._asked(directory, "try", {"answered": _text(answer)}, opening, context)
        return as_json(told["document"], f"{directory}/logs/looks.jsonl")

    @offers(limits=SessionLimits, opening=(Opening, ("isolation", "waits")))
    async def campaign_submit(
        self, directory: Directory, answer: Proposed, context: Client, limits: Any, opening: Any
    ) -> str:
        """Have one change judged: built, checked, timed against the incumbent, kept or rolled back.

        The answer names the round of the brief that it answers. Where it can't be judged, `refused`
        says why; that is recorded, and the same round may be answered again.
        """
        text = _text(answer)
        read = api.parse_answer(text)
        if isinstance(read, Answer) and read.round is None:
            raise ToolError(
                "the answer names no round\ntry: `round` is a number in the brief; another client"
                " may have been judged since"
            )

        arguments = {"answered": text, "limits": limits, "proposer": PROPOSER}
        told = await self._asked(directory, "submit", arguments, opening, context)
        standing = {"kept": told["is_kept"], "total_speedup": told["total_speedup"]}
        return as_json({**told["document"], **standing}, f"{directory}/rounds")

    async def campaign_status(self, directory: Directory) -> str:
        """Where a campaign is, without holding or changing it; also while a call works on it."""
        found, place = self._read(directory), Path(directory).expanduser().resolve()
        held, ears = campaign_socket.status(place), self._at_work.get(place)
        rounds = [
            {
                "round": r.round,
                "change": r.hypothesis.statement,
                "proposer": r.proposer,
                "decision": r.decision.kind,
                "rule": r.decision.rule,
            }
            for r in found.rounds
        ]
        stopped, works = found.stopped, held is not None or ears is not None
        row = campaign_row(found, id_of(place), place, works=works)
        document = {
            "schema_version": CONTRACT,
            "row": row.model_dump(mode="json"),
            "campaign": found.started.campaign,
            "rounds": rounds,
            "kept": len(found.kept),
            "refused": len(found.refusals),
            "total_speedup": found.total_speedup,
            "stopped": None if stopped is None else stopped.model_dump(include={"code", "detail"}),
            "limits": limits_in_force(found).model_dump(mode="json"),
            "held_open": held is not None,
            "running": ears.said if ears is not None else (held or {}).get("running"),
        }
        return as_json(document, f"{directory}/logs/optimize.md")

    async def campaign_show(
        self, directory: Directory, what: Annotated[str, Field(description=_PARTS)]
    ) -> str:
        """One part of a campaign whole: a round, its diff, all counters of a kernel, a listing."""
        with told_errors():
            shown = api.show_part(Path(directory).expanduser(), [what])
        return fitting(shown.visible, f"roofsmith campaign show {directory} {what}")

    async def campaign_report(self, directory: Directory, context: Client) -> str:
        """The final report as Markdown: what was reached, kept, turned down and learned."""
        self._read(directory)

        def work(_: Ears) -> Path:
            return api.render_report(Path(directory).expanduser()).directory

        place = await _alone(work, context)
        report = place / "final_report.md"
        return fitting(report.read_text(encoding="utf-8"), f"{report} and {place}/report.html")

    @offers(subject=Subject, judging=Judging, opening=Opening)
    async def judge(
        self,
        candidate: Annotated[str, Field(description="The kernel file to judge.")],
        against: Annotated[str, Field(description="The kernel that it has to beat, or a target.")],
        context: Client,
        subject: Any,
        judging: Any,
        opening: Any,
    ) -> str:
        """Judge a kernel against another, without a campaign: correct, and provably faster?"""
        named, how = _subject(against, subject), Judging(**judging)

        def work(ears: Ears) -> dict[str, Any]:
            settings = api.settings(**opening)
            found = api.judge(_path(candidate), named, how, settings, ears)
            return documents.judgement_document(found)

        return as_json(await _alone(work, context), f"roofsmith kernel judge {candidate} --json")

    @offers(subject=Subject, opening=(Opening, ("waits",)))
    async def roofline(
        self,
        kernel: Kernel,
        context: Client,
        subject: Any,
        opening: Any,
        platform: Annotated[
            str | None,
            Field(description="A product that needn't be here, such as H20; else this machine."),
        ] = None,
    ) -> str:
        """The least time that a machine allows and the goal, per workload, with citations."""

        def work(ears: Ears) -> dict[str, Any]:
            settings = api.settings(**opening)
            found = api.roofline(_subject(kernel, subject), settings, ears, platform)
            return documents.roofline_document(found)

        return as_json(await _alone(work, context), f"roofsmith kernel roofline {kernel} --json")

    async def cite(
        self,
        product: Annotated[str, Field(description="Such as `H100 SXM`.")],
        metric: Annotated[str, Field(description="Such as `bandwidth`.")],
    ) -> str:
        """One fact of a hardware product with its citation, or that the wiki doesn't say."""
        with told_errors():
            found = api.cite(product, metric, api.settings())
            return as_json(specs_documents.cited_document(found), "roofsmith specs show PRODUCT")

    async def remarks(
        self, kernel: Annotated[str, Field(description="A kernel's source file.")]
    ) -> str:
        """What a kernel's source does that the judge watches for; nothing is built or run."""
        with told_errors():
            found = [_dump(remark) for remark in api.remarks(_path(kernel))]
            return as_json({"remarks": found}, "docs/source.md lists what they mean")

    async def experience_recommend(
        self,
        operator: Annotated[str, Field(description="Family, such as softmax, or a name.")],
        backend: Annotated[str, Field(description="c, cpp, cuda, hip, triton, torch.")],
        chip: Annotated[str | None, Field(description="Such as sm_90, or a device.")] = None,
        bottleneck: Annotated[
            BottleneckKind | None, Field(description="Of the kernel as it is now.")
        ] = None,
        dtype: Annotated[str | None, Field(description="Such as float32.")] = None,
        shape: Annotated[str | None, Field(description="Such as N=4096,D=128.")] = None,
        counters: Annotated[
            dict[str, float] | None, Field(description="Measured ones, by name.")
        ] = None,
    ) -> str:
        """What worked and what failed in like situations, with the rounds that show it.

        Guidance: nothing is decided on it, and it holds here only once it is measured.
        """

        from roofsmith.api import experience

        asked = (operator, backend, chip, bottleneck, dtype, shape, counters)
        with told_errors():
            here = experience.situation(*asked)
            found = experience.recommend(experience.database(_settings()), here)
        document = {
            "worked": [_dump(one) for one in found if one.worked],
            "failed": [_dump(one) for one in found if not one.worked],
        }
        return as_json(document, "roofsmith experience recommend --json")

    async def _asked(
        self,
        directory: str,
        command: str,
        arguments: dict[str, Any],
        opening: dict[str, Any],
        context: Client,
    ) -> dict[str, Any]:
        """What an open campaign answers; a client's wait is over when it is cancelled."""
        self._read(directory)
        place = Path(directory).expanduser().resolve()
        request = {
            "command": command, "arguments": arguments, "opened": opening, "is_live": True,
        }  # fmt: skip

        def work(ears: Ears) -> dict[str, Any]:
            answer = campaign_socket.exchanged(place, request, ears.hear)
            return api.answered_here(place, request, ears) if answer is None else answer

        return await self._on(place, work, context)

    async def _on(self, place: Path, work: Callable[[Ears], Result], context: Client) -> Result:
        """The result of work on a campaign, of which others may ask how far it is."""

        def known(ears: Ears) -> Result:
            self._at_work[place] = ears
            try:
                return work(ears)
            finally:
                self._at_work.pop(place, None)

        return await _alone(known, context)

    def _read(self, directory: str) -> Campaign:
        with told_errors():
            return api.read_campaign(Path(directory).expanduser())


def _step(name: str, about: str, take: Step) -> AnyTool:
    async def step(kernel: Kernel, context: Client, subject: Any, opening: Any) -> str:
        named = _subject(kernel, subject)
        found = await _alone(lambda ears: take(named, api.settings(**opening), ears), context)
        return as_json(found, f"roofsmith kernel {name} {kernel} --json")

    step.__name__, step.__doc__ = name, about
    return offers(subject=Subject, opening=Opening)(step)


Step = Callable[[Subject, Any, Ears], dict[str, Any]]
_STEPS: tuple[tuple[str, str, Step], ...] = (
    (
        "check",
        "Build a kernel and check its outputs against the reference; nothing is timed.",
        lambda of, how, ears: documents.measured_document(api.check(of, how, ears)),
    ),
    (
        "profile",
        "Count what a kernel does on each workload, with the best tool this machine allows.",
        lambda of, how, ears: {"profiles": [_dump(one) for one in api.profile(of, how, ears)]},
    ),
)


@contextmanager
def told_errors() -> Iterator[None]:
    """Have the client's model read an error of ours; others stay what they are.

    Raises:
        ToolError: with its message and hint.
    """
    try:
        yield
    except RoofsmithError as error:
        raise ToolError(error_text(error)) from error
    except CancelledWorkError as error:
        raise ToolError("cancelled; what was recorded is kept") from error


async def _alone(work: Callable[[Ears], Result], context: Client) -> Result:
    """The result of work on a thread that ends with it."""
    ears, thread = Ears(), new_thread("step")

    def run() -> Result:
        with machine(ears):
            return work(ears)

    async def report(count: float, said: str) -> None:
        await context.report_progress(count, None, said)

    future = thread.submit(run)
    thread.shutdown(wait=False)
    with told_errors():
        return await awaited(future, ears, report)


def _subject(kernel: str, said: dict[str, Any]) -> Subject:
    paths = {name: None if (text := said[name]) is None else _path(str(text)) for name in _PATHS}
    return Subject(_path(kernel), **{**said, **paths})


def _text(given: Any) -> str:
    return given if isinstance(given, str) else json.dumps(given)


def _path(text: str) -> Path:
    return Path(text).expanduser()


def _dump(value: Any) -> Any:
    return None if value is None else value.model_dump(mode="json")

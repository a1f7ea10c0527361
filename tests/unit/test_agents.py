"""A coding agent's command line proposes; whatever it does costs a record, and nothing else."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from agent_programs import GOOD, LAYERS, PRELUDE, Bench, Make, runs
from waiting import wait_until

from roofsmith.analysis.spending import spendings
from roofsmith.api import agents
from roofsmith.api.agents import Workplace
from roofsmith.api.wiring import make_proposer, proposers_of, spelled
from roofsmith.config import Settings
from roofsmith.domain.campaign import Campaign, Round
from roofsmith.domain.outcome import Incorrect
from roofsmith.domain.refusal import Refusal
from roofsmith.engine.verify import verify
from roofsmith.errors import UsageError
from roofsmith.landlock import LANDLOCK
from roofsmith.namespaces import MOUNT
from roofsmith.ports import Brief
from roofsmith.proposers.agent import answered, running
from roofsmith.proposers.agent.presets import Preset, agent_of, presets, prompt_text
from roofsmith.proposers.agent.proposer import AgentProposer, Elsewhere, agent_environment
from roofsmith.proposers.agent.usage import UsageMeter, UsageRule
from roofsmith.proposers.agent.watch import AgentWatch
from roofsmith.store.lineage_setup import open_lineage
from roofsmith.testing.engine import fake_target
from roofsmith.testing.observer import SilentObserver
from roofsmith.testing.proposer import ProposerConformance, brief_for

pytestmark = pytest.mark.slow

KEY = "sk-test-0123456789abcdef"
needs_walls = pytest.mark.skipif(not LAYERS, reason="this kernel has no walls")


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def bench(script: str, **more: object) -> Bench:
        return Bench(tmp_path, script, **more)  # type: ignore[arg-type]

    return bench


def refused(campaign: Campaign) -> Refusal:
    (only,) = campaign.proposed
    assert isinstance(only, Refusal)
    return only


@pytest.mark.parametrize("change", [
    "change(brief['round']); propose()",
    "(work / 'sources' / path).write_text(f\"/* {brief['round']} */\\n\" + text); propose()",
    "propose(files={path: f\"/* {brief['round']} */\\n\" + text})",
])  # fmt: skip
def test_a_good_agent_is_kept(make: Make, change: str) -> None:
    bench = make(change)
    world = bench.world(rounds=2)
    campaign = bench.run(world)
    assert [round_.decision.kind for round_ in campaign.rounds] == ["kept", "kept"]
    assert {round_.proposer for round_ in campaign.rounds} == {"agent:(test)"}
    assert campaign.rounds[0].hypothesis.evidence
    assert verify(world.records) == ()
    assert sorted(path.name for path in bench.campaign.glob("asks/round-*/attempt-*/*")) == [
        "agent.log", "agent.log",
    ]  # fmt: skip


def test_giving_up_is_recorded_and_ends_the_campaign(make: Make) -> None:
    campaign = make("propose(give_up='nothing left')").run()
    [given_up] = campaign.refusals
    assert given_up.reason == "gave_up"
    assert campaign.rounds == ()
    assert campaign.stopped.code == "out_of_ideas"


WRONG = {
    "lazy": ("pass", "malformed"),
    "failing": ("change(1); sys.exit(3)", "failed"),
    "half": ("change(1); (answer / 'proposal.json').write_text('{\"stat'); sys.exit(3)", "failed"),
    "crashing": ("os.kill(os.getpid(), signal.SIGSEGV)", "failed"),
    "lying": ("change(1); propose(evidence=['E99'])", "uncited"),
    "unchanged": ("propose()", "malformed"),
    "prose": ("(answer / 'proposal.json').write_text('I would vectorise it')", "malformed"),
    "binary": ("(answer / path).write_bytes(b'\\x7fELF\\xff\\xfe'); propose()", "malformed"),
    "giant": ("(answer / path).write_text('x' * (5 << 20)); propose()", "malformed"),
    "link": ("(answer / path).symlink_to('/etc/passwd'); propose()", "malformed"),
    "linked answer": ("answer.rmdir(); answer.symlink_to('/etc')", "malformed"),
    "linked source": (
        "p = work / 'sources' / path; p.unlink(); p.symlink_to('/etc/passwd'); propose()",
        "malformed",
    ),
    "pipe": ("os.mkfifo(answer / 'proposal.json')", "malformed"),
    "climbing": ("propose(files={'../../ledger.jsonl': ''})", "malformed"),
    "many": ("[(answer / str(n)).touch() for n in range(1_000)]; propose()", "malformed"),
    "deep": (
        """
        os.chdir(answer)
        for _ in range(1200):
            os.mkdir("deep")
            os.chdir("deep")
        (answer / path).write_text(text)
        propose()
        """,
        "malformed",
    ),
    "elsewhere": ("(work / 'brief.md').chmod(0o644); (work / 'brief.md').write_text('')", "failed"),
    "reference": (
        "r = next((work / 'reference').iterdir()); r.chmod(0o644); r.write_text('y = 0')",
        "failed",
    ),
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_bad_agent_costs_a_record(make: Make, kind: str) -> None:
    script, reason = WRONG[kind]
    bench = make(script)
    world = bench.world()
    refusal = refused(bench.run(world))
    assert refusal.reason == reason
    assert verify(world.records) == ()
    assert f"{bench.campaign.name}/asks" not in refusal.detail
    assert "asks/round-2/attempt-1/agent.log" in refusal.detail
    assert not list(bench.campaign.glob("asks/*/*/work"))


ENDS = {
    "hangs": "signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)",
    "leaves": "subprocess.Popen(['sleep', '77'], stdout=subprocess.DEVNULL)",
    "fails": "sys.exit(3)",
    "dies": "os.kill(os.getpid(), signal.SIGKILL)",
    "reads": "sys.stdin.read()",
}


@pytest.mark.parametrize("kind", ENDS)
def test_a_whole_proposal_counts_however_its_agent_ends(make: Make, kind: str) -> None:
    bench = make(f"change(2); propose(); {ENDS[kind]}", terms={"deadline_s": 3.0})
    campaign = bench.run()
    assert [round_.decision.kind for round_ in campaign.rounds] == ["kept"]
    noted = "its proposal is whole" in "".join(bench.observer.shown)
    assert noted == (kind != "reads")


@pytest.mark.parametrize("kind", ["hangs", "works on"])
def test_nobody_waits_for_who_has_answered_and_does_nothing(
    make: Make, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """One that works on isn't cut off: it may write a better answer yet."""
    monkeypatch.setattr(answered, "QUIET_S", 1.0)
    monkeypatch.setattr(answered, "LOOK_S", 0.2)
    then = "time.sleep(600)" if kind == "hangs" else "any(iter(int, 1))"
    bench = make(f"change(2); propose(); {then}", terms={"deadline_s": 3.0})
    campaign = bench.run()
    assert [round_.decision.kind for round_ in campaign.rounds] == ["kept"]
    shown = "".join(bench.observer.shown)
    assert ("was ended" in shown) == (kind == "hangs")
    assert ("didn't end within" in shown) == (kind != "hangs")


def test_an_answer_that_is_printed_and_not_left_counts(make: Make) -> None:
    script = (
        "said = {'statement': 'a comment more', 'rationale': 'a test', 'files': {path: '/* 2 */\\n'"
        " + text}, 'evidence': list(brief['evidence'])[:1]};"
        " print('Here it is:\\n```json\\n' + json.dumps(said, indent=1) + '\\n```')"
    )
    campaign = make(script).run()
    assert [round_.decision.kind for round_ in campaign.rounds] == ["kept"]


def test_a_change_without_a_proposal_is_named(make: Make) -> None:
    refusal = refused(make("f = work / 'sources' / path; f.write_text('/* 2 */' + text)").run())
    assert refusal.reason == "malformed"
    assert "proposal.json" in refusal.detail
    assert "was changed" in refusal.detail


def test_a_silent_agent_is_said_to_have_been_silent(make: Make) -> None:
    refusal = refused(make("time.sleep(600)", terms={"deadline_s": 1.0}).run())
    assert refusal.reason == "deadline"
    assert "1 s; it printed nothing" in refusal.detail


def test_a_flood_ends_and_its_log_is_bounded(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "MAX_OUTPUT_BYTES", 1 << 20)
    monkeypatch.setattr(running, "_KEPT_BYTES", 1 << 16)
    bench = make("line = 'x' * 999\nwhile True:\n    print(line, flush=True)\n")
    assert refused(bench.run()).reason == "failed"
    (log,) = bench.campaign.rglob("agent.log")
    assert log.stat().st_size < 1 << 18


@pytest.mark.parametrize("environment", ["None", "{}"])
def test_a_daemon_is_found_and_ended(make: Make, environment: str) -> None:
    bench = make(f"""
        change(2); propose()
        child = subprocess.Popen(["sleep", "77"], start_new_session=True, env={environment},
                                 stdout=subprocess.DEVNULL)
        print(child.pid, flush=True)
    """)
    assert bench.run().rounds
    (log,) = bench.campaign.rglob("agent.log")
    assert not runs(int(log.read_text().splitlines()[0]))


def test_who_kills_its_keeper_leaves_nothing(make: Make) -> None:
    bench = make(
        """
        change(1); propose()
        print(subprocess.Popen(["sleep", "77"], start_new_session=True).pid, flush=True)
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(60)
        """,
        terms={"layers": ()},
    )
    assert refused(bench.run()).reason == "failed"
    (log,) = bench.campaign.rglob("agent.log")
    assert not runs(int(log.read_text()))


HOSTILE = {
    "ledger": "(campaign / 'ledger.jsonl').write_text('forged')",
    "other round": "(campaign / 'asks/round-1/brief.md').write_text('obey')",
    "own ask": "(work.parents[1] / 'brief.json').write_text('{}')",
    "new file": "(campaign / 'rounds').mkdir(); (campaign / 'rounds/x').write_text('')",
    "removed": "(campaign / 'ledger.jsonl').unlink()",
    "mode": "(campaign / 'ledger.jsonl').chmod(0o666)",
    "link": "os.link(campaign / 'ledger.jsonl', work / 'ledger')",
    "swapped": """
        (campaign / 'asks/round-1/brief.md').unlink()
        (campaign / 'asks/round-1').rmdir()
        (campaign / 'asks/round-1').symlink_to('/tmp')
    """,
}


def tree(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "round-2" not in path.parts
    }


@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.parametrize("layers", [LAYERS, (LANDLOCK,), ()], ids="+".join)
def test_what_is_written_elsewhere_is_undone(
    make: Make, kind: str, layers: tuple[str, ...]
) -> None:
    attack = "\n".join(f"        {line.strip()}" for line in HOSTILE[kind].strip().splitlines())
    bench = make(
        f"""
        try:
            pass
{attack.replace("        ", "            ")}
        except OSError:
            print("it was forbidden")
        change(1); propose()
        """,
        terms={"layers": layers},
    )
    world = bench.world()
    (bench.campaign / "ledger.jsonl").write_text("records")
    (bench.campaign / "asks/round-1").mkdir(parents=True)
    (bench.campaign / "asks/round-1/brief.md").write_text("brief")
    before = tree(bench.campaign)
    campaign = bench.run(world)
    assert tree(bench.campaign) == before
    assert (bench.campaign / "ledger.jsonl").stat().st_mode & 0o022 == 0
    if MOUNT in layers or (layers and kind != "mode"):  # of which Landlock knows nothing
        (log,) = bench.campaign.rglob("agent.log")
        assert "it was forbidden" in log.read_text()
        assert isinstance(campaign.proposed[0], Round)
    else:
        assert refused(campaign).reason == "failed"


def test_a_commit_elsewhere_is_found_without_walls(make: Make, tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@y", "-C", str(checkout)]
    subprocess.run(["git", "init", "-q", str(checkout)], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "one"], check=True)
    bench = make(
        f"subprocess.run({[*git, 'commit', '-q', '--allow-empty', '-m', 'two']!r}); "
        "change(1); propose()",
        terms={
            "layers": (),
            "elsewhere": lambda: Elsewhere(seen=(checkout / ".git/refs", checkout / ".git/HEAD")),
        },
    )
    assert refused(bench.run()).reason == "failed"
    log = subprocess.run([*git, "log", "--format=%s"], check=True, capture_output=True, text=True)
    assert log.stdout.split() == ["two", "one"]


@needs_walls
def test_walls_hold_a_repository_of_the_users_and_their_home(make: Make, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    bench = make(f"""
        for place in ("mine", ".cache"):
            try:
                (type(work)({str(tmp_path)!r}) / place).write_text("gone")
            except OSError:
                pass
        change(brief["round"]); propose()
    """)
    assert isinstance(bench.run().proposed[0], Round)
    assert (tmp_path / "mine").read_text() == "mine"
    assert not (tmp_path / ".cache").exists()


@needs_walls
def test_notes_that_the_user_writes_meanwhile_are_no_trespass(make: Make) -> None:
    bench = make("time.sleep(1); " + GOOD)
    (bench.campaign / "memory").mkdir(parents=True)
    note = bench.campaign / "memory/v1.json"
    user = subprocess.Popen(["/bin/sh", "-c", f"sleep 0.5; echo mine > {note}"])
    assert isinstance(bench.run().proposed[0], Round)
    user.wait()
    assert note.read_text() == "mine\n"


def test_a_key_is_nowhere(make: Make) -> None:
    for script in (
        f"print('using {KEY}'); sys.exit('bad key {KEY}')",
        f"print('{KEY}' * 100_000, end='')",
        f"change(1); propose(statement='it is {KEY}')",
        f"(answer / path).write_text('/* {KEY} */'); propose()",
        "print(os.environ['MY_API_KEY']); propose(evidence=[os.environ['MY_API_KEY']])",
        f"(answer / '{KEY}').write_text(''); propose()",
    ):
        bench = make(script, secrets={"MY_API_KEY": KEY})
        world = bench.world()
        bench.run(world)
        assert KEY not in "".join(bench.observer.shown)
        assert KEY not in "".join(record.model_dump_json() for record in world.records)
        for path in bench.campaign.rglob("*"):
            assert not path.is_file() or KEY not in path.read_text()


def test_what_an_agent_finds_in_its_environment(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", "/somewhere")
    bench = make("print(json.dumps(dict(os.environ))); sys.exit(1)",
                 secrets={"ROOFSMITH_CACHE": "/cache", "PYTHONPATH": "/p", "GIT_DIR": "/x",
                          "XDG_CACHE_HOME": "/c"})  # fmt: skip
    bench.run(bench.world(max_tokens=5000))
    (log,) = bench.campaign.rglob("agent.log")
    found = json.loads(log.read_text())
    folder = str(log.parent / "work")
    assert all(found[name].startswith(folder) for name in ("HOME", "TMPDIR", "ROOFSMITH_ANSWER"))
    assert found["ROOFSMITH_TOKENS"] == "5000"
    assert found["ROOFSMITH_DEADLINE_S"] == "20"
    assert found["ROOFSMITH_CACHE"].startswith(folder)
    assert not {"PYTHONPATH", "GIT_DIR", "XDG_CACHE_HOME"} & found.keys()


def test_own_folders_are_not_on_the_path() -> None:
    given = {"PATH": f"{sys.prefix}/bin:/usr/bin:relative:", "HOME": "/h"}
    found = agent_environment(given, "/own", "/tmp/own", "/tools", {})
    assert found["PATH"].split(":") == ["/tools", "/usr/bin"]


def test_an_agent_ends_with_who_asked_it(make: Make, tmp_path: Path) -> None:
    bench = make("print(os.getpid(), flush=True); time.sleep(99)")
    pid = os.fork()
    if pid == 0:
        bench.run()
        os._exit(0)
    works = (tmp_path / "campaign").rglob
    wait_until(lambda: any(_at_work_in(answer.parent) for answer in works("work/answer")))
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    (answer,) = works("work/answer")
    wait_until(lambda: not _at_work_in(answer.parent))


def _at_work_in(folder: Path) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (path / "cwd").readlink() == folder:
                found.append(path.name)
    return found


def test_tokens_and_money_count_as_the_agent_says(make: Make) -> None:
    rule = UsageRule(where={"type": "result"}, tokens=("usage.in", "usage.out"), cost_usd="cost")
    preset = Preset(command=("agent",), usage=rule)
    said = "print(json.dumps({'type': 'result', 'cost': 0.5, 'usage': {'in': 70, 'out': 7}})); "
    campaign = make(said + GOOD, preset=preset).run()
    failed = make(said + "sys.exit(1)", preset=preset).run()
    assert [past.tokens for past in (campaign.proposed[0], refused(failed))] == [77, 77]
    assert (campaign.cost_usd, failed.cost_usd) == (0.5, 0.5 * len(failed.refusals))


def test_a_result_line_may_be_as_long_as_it_likes(make: Make) -> None:
    rule = UsageRule(where={"type": "result"}, tokens=("used",), cost_usd="cost")
    said = {"type": "result", "used": 77, "cost": 0.5}
    script = f"print(json.dumps({{'text': 'x' * (3 << 20), **{said}}})); {GOOD}"
    bench = make(script, preset=Preset(command=("agent",), usage=rule))
    campaign = bench.run(bench.world(max_cost_usd=9.0, rounds=2))
    assert (campaign.rounds[0].tokens, campaign.rounds[0].cost_usd) == (77, 0.5)
    assert campaign.stopped.code == "max_iterations"


def test_what_an_answer_took_is_unknown_where_nobody_says_it(make: Make) -> None:
    bench = make("change(brief['round']); propose()")
    campaign = bench.run(bench.world(max_cost_usd=9.0, rounds=2))
    assert len(campaign.rounds) == 1
    assert campaign.stopped.code == "cost"
    assert "UNKNOWN" in campaign.stopped.detail
    assert "roofsmith resume" in campaign.stopped.detail
    (spending,) = spendings(campaign)
    assert (spending.tokens, spending.cost_usd) == (None, None)


@pytest.mark.parametrize(("name", "lines", "tokens", "cost"), [
    ("claude", ['{"type":"result","total_cost_usd":0.25,"usage":{"input_tokens":10,'
                '"cache_read_input_tokens":5,"output_tokens":2}}'], 17, 0.25),
    ("codex", ['{"type":"turn.completed","usage":{"input_tokens":10,"output_tokens":2}}'] * 2,
     24, 0),
    ("gemini", ['{"type":"result","stats":{"total_tokens":31}}'], 31, 0),
    ("opencode", ['{"type":"step_finish","part":{"cost":0.5,"tokens":{"input":3,"output":4}}}'] * 2,
     14, 1.0),
    ("mini", ["mini-swe-agent (step 1, $0.25):", "mini-swe-agent (step 2, $0.5):"], 0, 0.5),
    ("aider", ["Tokens: 12k sent, 133 received. Cost: $0.04 message, $0.10 session."], 12133, 0.04),
    ("claude", ["{", "[]", '{"type":"result","usage":7}', '{"type":' * 5000], 0, 0),
])  # fmt: skip
def test_what_is_read_from_outputs(name: str, lines: list[str], tokens: int, cost: float) -> None:
    meter = UsageMeter(presets()[name].usage)
    for line in lines:
        meter.hear(line)
    assert meter.tokens == tokens
    assert meter.cost_usd == pytest.approx(cost)


def test_every_preset_is_whole() -> None:
    assert {"claude", "codex", "gemini", "qwen", "opencode", "aider", "mini", "human"} <= set(
        presets()
    )
    for name, preset in presets().items():
        assert preset.login, name
        assert preset.source, name
        assert name == "human" or any("{prompt}" in word for word in preset.command), name
    assert "{" not in prompt_text({"work": "/w", "answer": "/a", "deadline_s": "9"})


def test_who_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Workplace(tmp_path, SilentObserver())
    for name in ("claude", "mine.sh"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    found = make_proposer("recipes,agent:mine.sh --with a,b,agent:claude,sweep", place=place)
    assert found.name == "recipes+agent:(mine.sh)+agent:claude+sweep"
    settings = Settings(tmp_path, tmp_path)
    names = spelled("auto,agent:mine.sh --with auto,agent:claude,recipes", settings)
    auto = make_proposer(names, place=place)
    assert auto.name == "recipes+sweep+agent:(mine.sh)+agent:claude"
    with pytest.raises(UsageError, match=r"mine\.sh"):
        make_proposer("recipes,agent:mine.sh 1,agent:mine.sh 2", place=place)
    assert proposers_of(["recipes", "agent:claude"]) == "recipes,agent:claude"
    with pytest.raises(UsageError):
        proposers_of(["agent:(mine.sh)"])
    own = agent_of("claude --model x {prompt}", os.environ)
    assert own.preset.usage == presets()["claude"].usage
    assert own.words({"prompt": "do {it}"}, {})[1:] == ("--model", "x", "do {it}")


@pytest.mark.parametrize("name", ["", "codex", "no-such-program --flag", "'unbalanced"])
def test_who_isn_t_there_is_said_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("PATH", "/usr/nowhere")
    with pytest.raises(UsageError):
        make_proposer(f"agent:{name}", place=Workplace(tmp_path, SilentObserver()))


@pytest.mark.parametrize("setting", [
    "ROOFSMITH_AGENT_TOKENS=0", "ROOFSMITH_AGENT_HOME=yours", "ROOFSMITH_AGENT_WALLS=paper",
])  # fmt: skip
def test_settings_are_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    monkeypatch.setenv(*setting.split("=", 1))
    with pytest.raises(UsageError):
        make_proposer("agent:true", place=Workplace(tmp_path, SilentObserver()))


def test_a_watch_sees_what_a_forged_time_hides(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("one")
    before = file.stat()
    watch = AgentWatch(restored=[tmp_path])
    file.write_text("two")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert watch.changed() == (file,)
    assert file.read_text() == "one"


class TestConformance(ProposerConformance):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self._place = tmp_path

    def proposer(self) -> AgentProposer:
        return Bench(
            self._place,
            """
            if brief["round"] > 4:
                propose(give_up="enough")
            else:
                change(brief["round"])
                propose()
            """,
        ).proposer()

    def brief(self) -> Brief:
        return brief_for(fake_target().baseline)


def test_a_repair_starts_from_what_was_wrong(make: Make) -> None:
    bench = make("""
        marker = "repaired" if brief["repair"] else "wrong"
        source = work / "sources" / path
        source.write_text(f"/* {marker} */" + source.read_text())
        propose(repair=bool(brief["repair"]))
    """)
    world = bench.world()
    target = world.target
    wrong = target.baseline.with_kernel_text(f"/* wrong */{target.kernel.text}")
    right = wrong.with_kernel_text(f"/* repaired */{wrong.kernel.text}")
    outcome = Incorrect(reason="wrong_result", detail="off")
    world.kernels.add(wrong, outcome=outcome)
    world.kernels.add(right, time_s=5e-4)
    campaign = bench.run(world)
    assert [round_.decision.kind for round_ in campaign.rounds] == ["rolled_back", "kept"]
    assert campaign.incumbent == right
    assert verify(world.records) == ()


def test_a_person_s_editor_is_asked(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = make(f"{GOOD}; sys.exit(sys.argv[1] != str(answer / 'proposal.json'))")
    world = bench.world()
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", shlex.join([sys.executable, str(tmp_path / "agent.py")]))
    world.proposer = make_proposer("agent:human", place=Workplace(bench.campaign, bench.observer))
    (round_,) = bench.run(world).rounds
    assert round_.proposer == "agent:human"


@needs_walls
@pytest.mark.parametrize("mounts", [True, False])
def test_modes_of_the_users_checkout_are_kept(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mounts: bool
) -> None:
    """By a mount namespace, or else by being looked at."""
    if not mounts:
        monkeypatch.setattr(agents, "probe", lambda: {MOUNT: "none here", LANDLOCK: None})
    elif MOUNT not in LAYERS:
        pytest.skip("no mount namespaces here")
    checkout, bench = tmp_path / "checkout", make("")
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@y", "-C", str(checkout)]
    subprocess.run(["git", "init", "-q", str(checkout)], check=True)
    world = bench.world()
    kernel, deep, beside = (
        checkout / world.target.kernel.path, checkout / "a/b", tmp_path / "beside",
    )  # fmt: skip
    kernel.write_text(world.target.kernel.text)
    deep.parent.mkdir()
    for file in (deep, beside):
        file.write_text("")
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "one"], check=True)
    open_lineage(bench.campaign, "test", world.target.baseline, kernel)
    script = tmp_path / "agent.py"
    attack = f"""
for place in {[str(path) for path in (kernel, deep, deep.parent, beside)]}:
    try:
        os.chmod(place, 0o700)
        os.utime(place, (1, 1))
    except OSError:
        print("it was forbidden")
"""
    script.write_text(f"{PRELUDE}\n{attack}\n{GOOD}")
    place = Workplace(bench.campaign, bench.observer)
    world.proposer = make_proposer(
        f"agent:{shlex.join([sys.executable, str(script)])}", place=place
    )
    before = [(path.stat().st_mode, path.stat().st_mtime) for path in (kernel, deep, beside)]
    campaign = bench.run(world)
    after = [(path.stat().st_mode, path.stat().st_mtime) for path in (kernel, deep, beside)]
    assert after == before
    if mounts:
        (log,) = bench.campaign.rglob("agent.log")
        assert log.read_text() == "it was forbidden\n" * 4
        assert isinstance(campaign.proposed[0], Round)
    else:
        assert str(kernel) in refused(campaign).detail


def test_the_wired_agent_works_beside_a_real_branch(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without walls, a commit on the campaign's own branch is taken back."""
    checkout = tmp_path / "checkout"
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@y", "-C", str(checkout)]
    subprocess.run(["git", "init", "-q", str(checkout)], check=True)
    bench = make("")
    world = bench.world()
    kernel = checkout / world.target.kernel.path
    kernel.write_text(world.target.kernel.text)
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "one"], check=True)
    lineage = open_lineage(bench.campaign, "test", world.target.baseline, kernel)
    assert lineage.branch is not None
    tip = [*git, "rev-parse", lineage.branch]
    before = subprocess.run(tip, check=True, capture_output=True).stdout
    worktree = bench.campaign / "worktree"
    script = tmp_path / "agent.py"
    moving = ["git", "-c", "user.name=x", "-c", "user.email=x@y", "-C", str(worktree)]
    attack = f"subprocess.run({[*moving, 'commit', '-q', '--allow-empty', '-m', 'mine']!r}); {GOOD}"
    script.write_text(f"{PRELUDE}\n{attack}")
    monkeypatch.setenv("ROOFSMITH_AGENT_WALLS", "none")
    monkeypatch.setattr(agents, "_packages", lambda _: ())  # thousands of files: test_walls.py
    place = Workplace(bench.campaign, bench.observer)
    command = shlex.join([sys.executable, str(script)])
    world.proposer = make_proposer(f"agent:{command}", place=place)
    assert refused(bench.run(world)).reason == "failed"
    assert subprocess.run(tip, check=True, capture_output=True).stdout == before
    state = subprocess.run(
        ["git", "-C", str(worktree), "status", "--porcelain"], check=True, capture_output=True
    )
    assert state.stdout == b""

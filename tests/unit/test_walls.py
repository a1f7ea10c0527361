"""What an agent may use, and what nobody believes after an agent without walls has worked."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent_programs import GOOD, PRELUDE, Bench, runs
from repository_bench import KERNEL, ROWS, git, make_repository, needs_git, run, without_ceilings

from roofsmith.api import agents
from roofsmith.api.agents import Workplace, distrusting
from roofsmith.api.wiring import make_proposer
from roofsmith.config import Settings
from roofsmith.domain.campaign import Campaign, Round
from roofsmith.domain.kernel import Built, Candidate, SourceFile
from roofsmith.domain.refusal import Refusal
from roofsmith.domain.values import content_id
from roofsmith.errors import MachineError
from roofsmith.repository.checkouts import GitCheckouts
from roofsmith.toolchains.c import CToolchain

pytestmark = pytest.mark.slow

SOFTMAX = Path(__file__).parents[2] / "examples" / "softmax"
SLOW, FAST = (
    Candidate(
        language="c",
        sources=(SourceFile(path="k.c", text=f"void solve(int* a, int N) {{ a[N] = {n}; }}"),),
    )
    for n in (1, 2)
)


# -- what an agent may use -------------------------------------------------------------------


def test_an_agent_looks_at_its_draft_with_the_briefs_commands(tmp_path: Path) -> None:
    """The brief is a fake world's: its commands are pointed at a kernel that can be run."""
    bench = Bench(tmp_path, f"""
        import shutil
        kernel, reference = work / "sources/kernel.c", work / "sources/reference.py"
        shutil.copy({str(SOFTMAX / "kernel.c")!r}, kernel)
        shutil.copy({str(SOFTMAX / "reference.py")!r}, reference)
        for look in ("check", "bench", "profile", "listing"):
            assert str(work / "sources" / path) in brief["commands"][look]
        held = ["--ref", reference, "--workload", "N=8,D=64", "--threads", "1"]
        subprocess.run(["roofsmith", "check", kernel, *held], check=True)
        assert list((work / "cache/builds").glob("*/kernel.so"))
        {GOOD}
    """, terms={"deadline_s": 300.0})  # fmt: skip
    (only,) = bench.run().proposed
    assert isinstance(only, Round), only.detail


@needs_git
@pytest.mark.parametrize(("change", "kept"), [
    ("(work / 'sources/new.txt').write_text('mine')", True),
    ("(work / 'sources/data/readme').write_text('other')", False),
])  # fmt: skip
def test_an_agent_sees_a_repository_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str, kept: bool
) -> None:
    without_ceilings(monkeypatch, tmp_path / "cache")
    monkeypatch.setattr("roofsmith.api.doctor.DEADLINE_S", 300.0)
    monkeypatch.chdir(tmp_path)
    make_repository(tmp_path / "repo")
    script = tmp_path / "agent.py"
    faster = ROWS.replace("40.0", "30.0")
    script.write_text(f"""{PRELUDE}
assert (work / "sources/bench.sh").is_file()
subprocess.run(["sh", "bench.sh"], cwd=work / "sources", check=True)
(work / "sources" / path).write_text({faster!r})
{change}
propose()
""")
    command = shlex.join([sys.executable, str(script)])
    code, out, err = run(
        "optimize", "repo", "--proposer", f"agent:{command}", "--max-iterations", "1",
        "--output", "run", "--json",
    )  # fmt: skip
    assert code == 0, err
    assert [r["decision"] for r in json.loads(out)["rounds"]] == (["kept"] if kept else [])
    assert run("resume", "run", "--proposer", "recipes")[0] == 0
    if kept:
        assert git(tmp_path / "repo", "show", "optimize/run:" + KERNEL) == faster


# -- what nobody believes --------------------------------------------------------------------


class Unwalled:
    """A campaign whose agents may write everywhere."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self._patch = folder, monkeypatch
        (folder / "bin").mkdir()
        (folder / "packages").mkdir()
        monkeypatch.setenv("HOME", str(folder))
        monkeypatch.setenv("ROOFSMITH_AGENT_WALLS", "none")
        monkeypatch.setattr(agents, "_packages", lambda _: (folder / "packages",))
        self.bench = Bench(folder, "")
        self.settings = Settings(folder / "cache", folder / "campaigns")

    def asked(self, script: str, private: Path | None = None) -> Campaign:
        """What became of one answer."""
        world = self.bench.world()
        program = self.folder / "hostile.py"
        program.write_text(
            f"{PRELUDE}\nhome = pathlib.Path({str(self.folder)!r})\n{script}\n{GOOD}"
        )
        place = Workplace(self.bench.campaign, self.bench.observer, private)
        command = shlex.join([sys.executable, "-S", str(program)])
        self._patch.setenv("PATH", f"{self.folder / 'bin'}:/usr/bin:/bin")
        world.proposer = make_proposer(f"agent:{command}", place=place)
        return self.bench.run(world)


@pytest.fixture
def unwalled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Unwalled:
    return Unwalled(tmp_path, monkeypatch)


@pytest.fixture
def trusted(unwalled: Unwalled) -> Iterator[Settings]:
    with distrusting(unwalled.settings, "recipes,agent:x") as settings:
        yield settings


def built(candidate: Candidate, settings: Settings) -> Built:
    found = CToolchain(settings.builds_dir).build(candidate)
    assert isinstance(found, Built)
    return found


def test_a_library_in_anothers_place_is_never_loaded(unwalled: Unwalled, trusted: Settings) -> None:
    """With a record that fits it, in the user's cache and in this process's own."""
    for settings in (unwalled.settings, trusted):
        for candidate in (SLOW, FAST):
            built(candidate, settings)
    honest, other = built(SLOW, trusted), built(FAST, trusted)
    toolchain = CToolchain(trusted.builds_dir)
    (only,) = unwalled.asked(
        f"""
import shutil
for cache in home.rglob("builds"):
    shutil.copytree(cache / {other.library.parent.name!r}, cache / {honest.library.parent.name!r},
                    dirs_exist_ok=True)
""",
        trusted.private_dir,
    ).proposed
    assert isinstance(only, Round)
    again = toolchain.build(SLOW)
    assert isinstance(again, Built)
    assert content_id(again.library.read_bytes()) == honest.library_sha256
    assert honest.library_sha256 != other.library_sha256
    assert unwalled.settings.builds_dir not in again.library.parents


def test_nothing_private_is_left(unwalled: Unwalled) -> None:
    with distrusting(unwalled.settings, "agent:x") as settings:
        assert settings.private_dir in (settings.builds_dir.parent, settings.ceilings_dir.parent)
        pid = os.fork()
        if pid == 0:
            with distrusting(unwalled.settings, "agent:x"):
                os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(pid, 0)
    with distrusting(unwalled.settings, "agent:x"):
        assert len(list(unwalled.settings.cache_dir.iterdir())) == 1
    assert list(unwalled.settings.cache_dir.iterdir()) == []
    with distrusting(unwalled.settings, "recipes,model:x") as settings:
        assert settings == unwalled.settings


@pytest.mark.parametrize("attack", [
    "(home / 'bin/gcc').write_text('#!/bin/sh')",
    "(home / 'packages/sitecustomize.py').write_text('evil')",
    "(home / 'bin/there').unlink()",
])  # fmt: skip
def test_where_programs_change_nothing_more_is_run(unwalled: Unwalled, attack: str) -> None:
    (unwalled.folder / "bin/there").touch()
    with pytest.raises(MachineError):
        unwalled.asked(attack)


def test_bytecode_and_settings_are_put_right(unwalled: Unwalled) -> None:
    (unwalled.folder / ".gitconfig").write_text("[user]\n\tname = me\n")
    campaign = unwalled.asked("""
cached = home / "packages/__pycache__/x.cpython-312.pyc"
cached.parent.mkdir()
cached.write_text("evil")
(home / ".gitconfig").write_text("[core]\\n\\tattributesFile = /evil")
(home / ".config/git").mkdir(parents=True)
(home / ".config/git/config").write_text("[core]\\n\\tattributesFile = /evil")
""")
    (only,) = campaign.proposed
    assert isinstance(only, Refusal)
    assert (unwalled.folder / ".gitconfig").read_text() == "[user]\n\tname = me\n"
    assert not (unwalled.folder / ".config/git").exists()
    assert not list(unwalled.folder.glob("packages/*/*"))


@needs_git
def test_a_checkout_that_was_thrown_away_is_made_again(
    unwalled: Unwalled, trusted: Settings
) -> None:
    from roofsmith.targets.file import load_target

    make_repository(unwalled.folder / "repo")
    target = load_target(unwalled.folder / "repo")
    assert target.command is not None
    assert trusted.private_dir is not None
    checkouts = GitCheckouts(target.command, trusted.private_dir / "all")
    folder, _ = checkouts.make(target.baseline)
    unwalled.asked(f"pathlib.Path({str(folder)!r}, 'bench.sh').write_text('exit 1')",
                   trusted.private_dir)  # fmt: skip
    again, times = checkouts.make(target.baseline)
    assert (again, times) == (folder, 2)
    assert checkouts.changed(target.baseline.id) == ()


def test_who_kills_the_keeper_and_hides_is_ended(unwalled: Unwalled) -> None:
    (only,) = unwalled.asked("""
print(subprocess.Popen(["sleep", "77"], start_new_session=True, env={}).pid, flush=True)
os.kill(os.getppid(), signal.SIGKILL)
time.sleep(60)
""").proposed
    assert isinstance(only, Refusal)
    (log,) = unwalled.bench.campaign.rglob("agent.log")
    assert not runs(int(log.read_text()))

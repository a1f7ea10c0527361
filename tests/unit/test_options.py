"""What may be said of a kernel is the same everywhere: commands, tools, and what a brief prints."""

from __future__ import annotations

import asyncio
import json
import shlex
import shutil
from pathlib import Path

import pytest
import typer.main
from test_app import require_quiet
from typer.testing import CliRunner

from roofsmith.cli.root import cli
from roofsmith.domain.options import (
    CampaignPlan,
    Judging,
    Opening,
    SessionLimits,
    Subject,
    offered,
)

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
KERNEL = """\
static float twice(float v) { return 2 * v; }
void scale_all(const float *x, float *y, int n)
{
    for (int i = 0; i < n; i++)
        y[i] = twice(x[i]);
}
"""
REFERENCE = """\
import numpy as np

def setup(n, seed=0):
    x = np.random.default_rng(seed).standard_normal(n, dtype=np.float32)
    return {"inputs": {"x": x, "y": np.empty_like(x), "n": n}, "outputs": ["y"]}

def reference(x, y, n):
    y[:] = 2 * x
"""
GROUPS = {
    "optimize": (Subject, CampaignPlan, SessionLimits, Opening),
    "kernel judge": (Subject, Judging, Opening),
    "kernel check": (Subject,),
    "init": (Subject,),
    "tell": (SessionLimits,),
}
TOOLS = {"optimize": "campaign_start", "tell": "campaign_submit"}


@pytest.fixture
def here(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROOFSMITH_CACHE", str(cache))
    (tmp_path / "kernel.c").write_text(KERNEL)
    (tmp_path / "reference.py").write_text(REFERENCE)
    return tmp_path


def roofsmith(*words: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(cli, words)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.stdout, done.stderr


@pytest.mark.parametrize("command", GROUPS)
def test_commands_and_tools_have_the_same_options(command: str) -> None:
    wanted = {one.name for group in GROUPS[command] for one in offered(group)}
    known = typer.main.get_command(cli)
    for word in command.split():
        known = known.commands[word]  # type: ignore[attr-defined]
    assert wanted <= {parameter.name for parameter in known.params}
    if command == "init":
        return
    pytest.importorskip("mcp", reason="the package mcp is not installed")
    from roofsmith.mcp.serving import ToolServer
    from roofsmith.mcp.tools import Tools

    server = ToolServer(name="roofsmith")
    Tools().register(server)
    tools = {tool.name: tool for tool in asyncio.run(server.list_tools())}
    tool = tools[TOOLS.get(command, command.split()[-1])]
    assert wanted <= set(tool.input_schema["properties"])
    with pytest.raises(Exception, match="no argument workload\n"):
        asyncio.run(server.call_tool(tool.name, {"workload": "n=4"}))


@needs_gcc
def test_the_only_function_is_the_kernel(here: Path) -> None:
    words = ("--ref", "reference.py", "-w", "n=4096", "--threads", "1", "--flags", "-O2")
    assert roofsmith("init", "kernel.c", *words)[0] == 0
    text = (here / "target.yaml").read_text()
    assert "entry: scale_all" in text
    assert "threads: 1" in text
    assert "flags: [-O2]" in text
    assert roofsmith("check", "target.yaml")[0] == 0


@needs_gcc
@pytest.mark.slow
def test_every_command_of_a_brief_runs_as_printed(here: Path) -> None:
    other = KERNEL + "void other(float *x, int n) { x[0] = n; }\n"
    (here / "kernel.c").write_text(other)
    words = ("--ref", "reference.py", "-w", "n=4096", "--threads", "1")
    code, _, err = roofsmith("init", "kernel.c", *words)
    assert code == 2
    assert "--entry NAME" in err
    begin = ("kernel.c", *words, "--entry", "scale_all", "--proposer", "none", "-o", "run")
    code, _, err = roofsmith("optimize", *begin)
    require_quiet(err)
    assert code == 0, err
    code, out, err = roofsmith("ask", "run")
    assert code == 0, err
    commands = json.loads(out)["commands"]
    assert set(commands) == {"tell", "try", "check", "bench", "profile", "listing", "show"}
    answer = {"round": 2, "give_up": "nothing to gain"}
    for name in sorted(commands, key=lambda name: name == "tell"):
        typed = shlex.split(commands[name])
        text = json.dumps(answer)
        if name == "try":
            typed[-1] = "run/asks/round-2/sources/kernel.c"
        (here / "proposal.json").write_text(text)
        code, out, err = roofsmith(*typed[1:])
        assert code == 0, (name, out, err)

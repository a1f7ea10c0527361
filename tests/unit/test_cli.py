"""The command line: what people type, what they get back, what they are told when it is wrong."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest
import typer
from repository_bench import run as roofsmith
from repository_bench import without_ceilings
from test_app import REFERENCE
from typer.testing import CliRunner

from roofsmith import api
from roofsmith.cli import campaigns
from roofsmith.cli.root import cli
from roofsmith.errors import StorageError

KERNEL = """\
void solve(const float *x, float *y, int n)
{
    for (int i = 0; i < n; i++)
        y[i] = 2.0f * x[i];
}
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory with a kernel and a reference, and a cache of its own."""
    monkeypatch.setattr("roofsmith.api.doctor.DEADLINE_S", 300.0)  # this machine may be busy
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROOFSMITH_CACHE", str(tmp_path / "cache"))
    (tmp_path / "scale.c").write_text(KERNEL)
    (tmp_path / "reference.py").write_text(REFERENCE)
    return tmp_path


def refused(*arguments: str) -> str:
    """The message of a command that is wrong; nothing may be on stdout."""
    code, out, err = roofsmith(*arguments)
    assert code == 2, err
    assert out == ""
    assert "Traceback" not in err
    return " ".join(err.split())


SHELL = f"{shlex.quote(sys.executable)} -c 'from roofsmith.cli import main; main()'"


@pytest.mark.slow
def test_a_stdout_that_takes_nothing_or_lacks_letters_ends_in_no_traceback() -> None:
    def run(rest: str) -> tuple[int, str, str]:
        done = subprocess.run(
            ["sh", "-c", f"{SHELL} specs list {rest}"], capture_output=True, text=True, check=False
        )
        assert "Traceback" not in done.stderr
        return done.returncode, done.stdout, done.stderr

    assert run(">/dev/full") == (2, "", "roofsmith: stdout is full: no space left where it goes\n")
    assert run("--json >/dev/full")[0] == 2
    assert run(">&-") == (0, "", "")


def test_an_encoding_that_lacks_a_letter_gets_its_number() -> None:
    asked = "from roofsmith.cli.output import print_lines, sound_output\n"
    code = f"{asked}with sound_output(): print_lines(['3 \\u00b5s'])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        env={"PYTHONIOENCODING": "ascii", "PATH": os.environ["PATH"]},
    )  # fmt: skip
    assert done.stdout == "3 \\xb5s\n"


# -- the root -------------------------------------------------------------------------------


def test_version() -> None:
    code, out, _ = roofsmith("--version")
    assert code == 0
    assert out.startswith("roofsmith 0.")


def test_help_needs_none_of_the_heavy_packages() -> None:
    heavy = ("numpy", "pydantic", "tree_sitter", "jinja2", "yaml", "sqlalchemy")
    code = f"import sys, roofsmith.cli; print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=600
    )
    assert done.stdout.strip() == "[]"


def test_an_unknown_command_is_a_usage_error() -> None:
    code, _, err = roofsmith("optimise", "x")
    assert code == 2
    assert "optimise" in err


def test_debug_shows_where_an_error_came_from(here: Path) -> None:
    result = CliRunner().invoke(cli, ["--debug", "check", "missing.yaml"])
    assert result.exception is not None
    assert not isinstance(result.exception, SystemExit | typer.Exit)


# -- wrong input ----------------------------------------------------------------------------

SUBJECT = ("--ref", "reference.py", "--workload", "n=4096")


@pytest.mark.parametrize(
    "words", [("bench", "scale.c", "--timing", "foo"), ("listing", "scale.c", "--kind", "foo")]
)
def test_a_word_that_is_none_of_those_that_may_be(here: Path, words: tuple[str, ...]) -> None:
    said = refused(*words)
    assert f"Invalid value for '{words[2]}': 'foo' is not one of" in said


@pytest.mark.parametrize(
    ("name", "text", "flag", "usual"),
    [
        ("k.cu", KERNEL, "-arch=sm_90", "the usual flags are -O3 -lineinfo"),
        ("k.cu", KERNEL, "-march=native", "the usual flags are -O3 -lineinfo"),
        ("k.hip", KERNEL, "-march=native", "the usual flags are -O3"),
        ("k.cu", KERNEL, "-I/home/me/cutlass/include", "CUTLASS is found by CUTLASS_PATH"),
        ("k.c", KERNEL, "-fplugin=x", "the usual flags are -O3 -march=native"),
        ("k.py", "import triton\ndef run_kernel(x, y): ...\n", "-O3", "leave --flags out"),
    ],
)
def test_a_flag_is_refused_before_a_gpu_is_looked_for(
    here: Path, name: str, text: str, flag: str, usual: str
) -> None:
    (here / name).write_text(text)
    for command in ("check", "profile", "judge"):
        against = ("--against", "scale.c") if command == "judge" else ()
        said = refused(command, name, *against, *SUBJECT, f"--flags={flag}")
        assert flag in said
        assert usual in said


def test_a_flag_of_the_incumbent_is_refused_as_well(here: Path) -> None:
    words = ("judge", "scale.c", "--against", "scale.c", *SUBJECT, "--against-flags=-fplugin=x")
    assert "`-fplugin=x`" in refused(*words)


def test_what_the_host_calls_directly_is_not_launched(here: Path) -> None:
    said = refused("bench", "scale.c", *SUBJECT, "--timing", "launch")
    assert "scale.c is c, which is called directly try: leave it out" in said


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
@pytest.mark.slow
def test_how_a_kernel_failed_is_said_once(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_ceilings(monkeypatch, here / "cache")
    (here / "scale.c").write_text(KERNEL.replace("y[i] =", "z[i] ="))
    code, out, _ = roofsmith("check", "scale.c", *SUBJECT)
    assert code == 1
    assert out.splitlines()[0] == "build failed (compile_error)"
    assert out.count("build failed") == 1


def test_a_target_that_is_not_there(here: Path) -> None:
    assert "missing.yaml" in refused("optimize", "missing.yaml")


def test_a_kernel_needs_a_reference(here: Path) -> None:
    assert "--ref is needed" in refused("check", "scale.c", "--workload", "n=8")


def test_a_kernel_needs_a_workload(here: Path) -> None:
    assert "--workload is needed" in refused("check", "scale.c", "--ref", "reference.py")


def test_a_workload_that_makes_no_sense(here: Path) -> None:
    assert "whole number" in refused("check", "scale.c", *SUBJECT[:3], "n=many")


@pytest.mark.parametrize(
    ("workloads", "name", "said"),
    [
        ("[{n: 0}]", "ok", "target.yaml:3: workloads[0]: dimension n=0 must be at least 1"),
        ("[]", "ok", "target.yaml:3: workloads is empty; at least one is needed"),
        ("[{n: 8}]", "../up", "name '../up': only letters, digits, _ . and - are allowed"),
    ],
)
def test_what_is_wrong_is_said_once(here: Path, workloads: str, name: str, said: str) -> None:
    text = f"kernel: scale.c\nreference: reference.py\nworkloads: {workloads}\nname: {name}\n"
    (here / "target.yaml").write_text(text)
    message = refused("optimize", "target.yaml")
    assert said in message
    assert message.count("target.yaml:") == 1


def test_more_threads_than_processors_are_refused(here: Path) -> None:
    arguments = ("check", "scale.c", "--ref", "reference.py", "--workload", "n=8")
    assert "9999 threads" in refused(*arguments, "--threads", "9999")
    assert "9999 threads" in refused("specs", "measure", "--threads", "9999")


@pytest.mark.parametrize("hint", ["free some space", None])
def test_a_full_disk_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hint: str | None
) -> None:
    def full(observer: object) -> NoReturn:
        raise StorageError("can't write report.html: No space left on device", hint=hint)

    monkeypatch.setattr(api, "has_campaign", lambda directory: True)
    with pytest.raises(StorageError) as error:
        campaigns._run(full, tmp_path / "my run", as_json=False)
    expected = f"{hint or 'make room'}; then `roofsmith resume '{tmp_path}/my run'`"
    assert (error.value.hint or "").startswith(expected)


def test_a_full_disk_without_a_campaign_has_nothing_to_resume(tmp_path: Path) -> None:
    def full(observer: object) -> NoReturn:
        raise StorageError("can't write", hint="free some space")

    with pytest.raises(StorageError) as error:
        campaigns._run(full, tmp_path / "run", as_json=False)
    assert error.value.hint == "free some space"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.slow
def test_an_interrupt_of_a_finalizer_is_not_lost(number: signal.Signals) -> None:
    code = """
import os, time
from roofsmith.cli.signals import end_like_ctrl_c, exit_status

class Slow:
    def __del__(self):
        os.kill(os.getpid(), NUMBER)
        time.sleep(1)

end_like_ctrl_c()
try:
    Slow()
    time.sleep(300)
except KeyboardInterrupt as end:
    print(end, exit_status(end))
""".replace("NUMBER", str(int(number)))
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=600
    )
    assert (done.returncode, done.stderr) == (0, "")
    said = [] if number is signal.SIGINT else ["ended", "by", number.name]
    assert done.stdout.split() == [*said, str(128 + number)]


def test_an_option_that_goes_with_kernels_only(here: Path) -> None:
    assert "goes with a kernel" in refused("check", "target.yaml", "--ref", "reference.py")
    said = refused("check", "kernel.ptx", "--ref", "reference.py")
    assert "kernel.ptx doesn't end as one" in said
    assert ".cu" in said


def test_a_file_that_is_neither_target_nor_kernel(here: Path) -> None:
    (here / "notes.txt").write_text("hello")
    assert "notes.txt" in refused("check", "notes.txt")


def test_a_proposer_that_nobody_knows(here: Path) -> None:
    roofsmith("init", "scale.c", "--ref", "reference.py", "--workload", "n=4096")
    assert "'oracle'" in refused("optimize", "target.yaml", "--proposer", "oracle")


def test_a_limit_out_of_range(here: Path) -> None:
    roofsmith("init", "scale.c", "--ref", "reference.py", "--workload", "n=4096")
    assert "budget_s" in refused("optimize", "target.yaml", "--budget-s", "-5")


@pytest.mark.parametrize("command", ["resume", "ask", "report", "verify"])
def test_a_directory_without_a_campaign(here: Path, command: str) -> None:
    assert "no campaign" in refused(command, str(here))


def test_an_output_directory_that_holds_something_else(here: Path) -> None:
    roofsmith("init", "scale.c", "--ref", "reference.py", "--workload", "n=4096")
    assert "isn't empty" in refused("optimize", "target.yaml", "--output", str(here))
    assert (here / "scale.c").read_text() == KERNEL


@pytest.mark.rule("one-entry")
def test_a_kernel_without_solve(here: Path) -> None:
    text = "void run(float *y, int n) { y[0] = n; }\nvoid go(float *y, int n) { y[1] = n; }\n"
    (here / "other.c").write_text(text)
    message = refused("check", "other.c", "--ref", "reference.py", "--workload", "n=8")
    assert "solve" in message
    assert "other.c" in message


# -- init, doctor ---------------------------------------------------------------------------


def test_init_replaces_nothing_unasked(here: Path) -> None:
    arguments = ("init", "scale.c", "--ref", "reference.py", "--workload", "n=4096")
    assert roofsmith(*arguments)[0] == 0
    (here / "target.yaml").write_text("# mine\n")
    assert "--force" in refused(*arguments)
    assert (here / "target.yaml").read_text() == "# mine\n"
    assert roofsmith(*arguments, "--force")[0] == 0


def test_init_needs_a_workload(here: Path) -> None:
    assert "at least one workload" in refused("init", "scale.c", "--ref", "reference.py")


def test_init_finds_dimensions_that_the_reference_lacks(here: Path) -> None:
    message = refused("init", "scale.c", "--ref", "reference.py", "--workload", "rows=8")
    assert "rows" in message
    assert not (here / "target.yaml").exists()


def test_doctor_lists_checks_with_fixes(here: Path) -> None:
    code, out, _ = roofsmith("doctor", "scale.c", "--json", "--output", "env_check.md")
    document = json.loads(out)
    names = {check["name"] for check in document["checks"]}
    assert {"C", "git", "perf", "cache", "campaigns", "OpenMP"} <= names
    assert code == (0 if document["ready"] else 1)
    assert "| campaigns |" in (here / "env_check.md").read_text()


WITH_KERNEL = ("--ref", "reference.py", "--workload", "n=64")


@pytest.mark.parametrize(
    "command",
    [
        ("roofline", "scale.c"), ("check", "scale.c"), ("bench", "scale.c"), ("profile", "scale.c"),
        ("listing", "scale.c"), ("classify", "scale.c"), ("init", "scale.c"),
        ("judge", "scale.c", "--against", "scale.c"),
    ],
    ids=lambda command: command[0],
)  # fmt: skip
def test_an_unknown_family_is_refused_also_where_the_reference_counts_by_itself(
    here: Path, command: tuple[str, ...]
) -> None:
    message = refused(*command, *WITH_KERNEL, "--family", "bogus")
    assert "'bogus' (known: attention" in message
    assert "give the reference a flops(**dims)" in message
    assert not (here / "target.yaml").exists()


def test_an_unknown_family_of_a_target_or_a_repository_is_refused(here: Path) -> None:
    (here / "target.yaml").write_text(
        "kernel: scale.c\nreference: reference.py\nworkloads: [n=64]\n"
    )
    assert "'bogus' (known:" in refused("roofline", ".", "--family", "bogus")
    told = ("--repo", ".", "--editable", "scale.c", "--benchmark", "true", "--family", "bogus")
    (here / "target.yaml").unlink()
    subprocess.run(["git", "init", "-q", "."], check=True)
    git = ["git", "-c", "user.name=u", "-c", "user.email=u@h"]
    subprocess.run([*git, "add", "scale.c"], check=True)
    subprocess.run([*git, "commit", "-qm", "a kernel"], check=True)
    assert "'bogus' (known:" in refused("init", *told)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--json", "doctor"), ("nothing", "--json"), ("specs", "nothing", "--json"),
        ("doctor", "--bogus", "--json"), ("judge", "scale.c", "--json"),
        ("optimize", "scale.c", "--budget-s", "soon", "--json"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_for_a_program_what_cant_be_parsed_is_an_object_as_well(arguments: tuple[str, ...]) -> None:
    code, out, _ = roofsmith(*arguments)
    assert (code, json.loads(out)["error"]["kind"]) == (2, "UsageError")


def test_a_kernel_that_isnt_there_comes_before_what_it_would_need(here: Path) -> None:
    assert "none.c doesn't exist" in refused("optimize", "none.c")


def test_flags_whose_quotes_dont_close_are_refused(here: Path) -> None:
    assert "--flags" in refused("optimize", "scale.c", *WITH_KERNEL, "--flags", "-O2 'x")


def test_remarks_name_the_line_and_build_nothing(tmp_path: Path) -> None:
    kernel = tmp_path / "k.c"
    kernel.write_text("void solve(float *y)\n{\n    static int n;\n    y[0] = ++n, missing();\n}\n")
    code, out, _ = roofsmith("remarks", str(kernel), "--json")
    assert code == 0
    found = [(remark["name"], remark["line"]) for remark in json.loads(out)["remarks"]]
    assert found == [("state", 3), ("counts_calls", 4)]
    assert roofsmith("remarks", str(tmp_path / "none.c"))[0] == 2


def test_a_pytorch_file_without_pytorch_is_told_what_to_install(tmp_path: Path) -> None:
    blocked = tmp_path / "blocked" / "torch.py"
    blocked.parent.mkdir()
    blocked.write_text("raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')\n")
    (tmp_path / "model.py").write_text("import torch\ndef double(x):\n    return 2 * x\n")
    path = os.pathsep.join([str(blocked.parent), str(Path(api.__file__).parent.parent.parent)])
    command = ["init", "--from-pytorch", "model.py", "--framework", "c"]
    made = subprocess.run(
        [sys.executable, "-m", "roofsmith", *command],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": path},
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert made.returncode == 2
    assert "pip install torch" in made.stderr
    assert "Traceback" not in made.stderr

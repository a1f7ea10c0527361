"""Steps of training with real kernels, in worker processes."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from test_overfitting_corpus import CORPUS, candidate_of, header
from tool_stand_ins import built_file

from kinds import another
from roofsmith.domain.command import CommandSpec
from roofsmith.domain.kernel import Built, Candidate, Signature, SourceFile
from roofsmith.domain.outcome import Crashed, Incorrect
from roofsmith.domain.proposal import Hypothesis
from roofsmith.domain.target import Target
from roofsmith.domain.transfer import Trace
from roofsmith.domain.workload import Workload
from roofsmith.judge.gpu.forking import ForkServer
from roofsmith.judge.gpu.process import server_environment
from roofsmith.judge.host.oracle import ReferenceOracle, ReferenceProcess
from roofsmith.overfitting.hints import audit
from roofsmith.overfitting.rule import check_of, refusal
from roofsmith.overfitting.trace.command import CommandTracer
from roofsmith.overfitting.trace.marks import MARK, marked
from roofsmith.overfitting.trace.processes import StepsReference
from roofsmith.overfitting.trace.tracer import FEWEST_STEPS, STEPS, TIMED_STEPS, StepTracer
from roofsmith.toolchains import CToolchain

pytestmark = pytest.mark.slow

DIMS = {"linear": {"M": 16, "K": 32, "N": 24}, "grouped": {"T": 128, "K": 16, "N": 8, "G": 4}}
torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is missing")

LINEAR = """
import numpy as np

def setup(M, K, N, seed):
    rng = np.random.default_rng(seed)
    x, w = (rng.standard_normal(s, dtype=np.float32) for s in ((M, K), (K, N)))
    out = np.empty((M, N), np.float32)
    return {"inputs": {"x": x, "w": w, "out": out, "M": M, "K": K, "N": N}, "outputs": ["out"]}

def reference(x, w, out, M, K, N):
    out[...] = x @ w
"""
ROW_SUMS = """
import numpy as np

def setup(M, K, seed):
    rng = np.random.default_rng(seed)
    x, w = rng.random((M, K), np.float32), np.ones(M, np.float32)
    return {"inputs": {"x": x, "w": w, "out": np.empty(M, np.float32), "M": M, "K": K},
            "outputs": ["out"]}

def reference(x, w, out, M, K):
    out[...] = x.sum(axis=1) * w
"""
GROUPED = """
import numpy as np

def setup(M, G, K, N, seed):
    rng = np.random.default_rng(seed)
    x, w = (rng.standard_normal(s, dtype=np.float32) for s in ((M, K), (G, K, N)))
    sizes, out = np.full(G, M // G, np.int32), np.empty((M, N), np.float32)
    values = {"x": x, "w": w, "group_sizes": sizes, "out": out, "M": M, "G": G, "K": K, "N": N}
    return {"inputs": values, "outputs": ["out"]}

def reference(x, w, group_sizes, out, M, G, K, N):
    begin = 0
    for group, size in enumerate(group_sizes):
        out[begin : begin + size] = x[begin : begin + size] @ w[group]
        begin += size
"""


class Lent:
    """An operator's reference, in a process that imports PyTorch once for all who trace with it."""

    is_alive = True

    def __init__(self, reference: StepsReference) -> None:
        self.described = reference.described
        self._reference = reference

    def rest(self) -> None:
        """It makes nothing ahead."""

    def ask(self, op: str, message: dict[str, Any], fds: tuple[int, ...] = ()) -> dict[str, Any]:
        """As the judge's: steps are among what it is asked."""
        step = dict(message["step"])
        return self._reference.ask(step.pop("op"), step, fds)


LENT: dict[str, Lent] = {}


@pytest.fixture(scope="module", autouse=True)
def _references() -> Iterator[None]:
    with ExitStack() as stack:
        for operator in DIMS:
            signature = Signature(entry="run_kernel", parameters=())
            path = CORPUS / "operators" / f"{operator}.py"
            target = target_of(operator, candidate_of(path))
            LENT[operator] = Lent(stack.enter_context(StepsReference(target, signature, "cpu")))
        yield


def target_of(operator: str, candidate: Candidate) -> Target:
    text = (CORPUS / "operators" / f"{operator}.py").read_text()
    return Target(
        name="corpus", language="torch", kernel=candidate.kernel,
        reference=SourceFile(path="reference.py", text=text),
        workloads=(Workload(dims=DIMS[operator]),), entry="run_kernel",
    )  # fmt: skip


def module_trace(path: Path, fork_server: ForkServer | None = None) -> Trace:
    """Steps on the host's processors with a module of the corpus."""
    operator, candidate = header(path, "operator"), candidate_of(path)
    target = target_of(operator, candidate)
    signature = Signature(entry="run_kernel", parameters=())
    built = built_file(path, "torch", candidate.id, signature)
    lent = cast(ReferenceProcess, LENT[operator])
    found = StepTracer(target, signature, threads=1, fork_server=fork_server, oracle=lent).trace(
        built, target.workloads[0], audit(candidate, None, target.reference).kept_values
    )
    assert isinstance(found, Trace), found
    return found


def library_trace(candidate: Candidate, reference: str, dims: dict[str, int], where: Path) -> Trace:
    """The same with C or C++."""
    target = Target(
        name="corpus", language=candidate.language, kernel=candidate.kernel,
        reference=SourceFile(path="reference.py", text=reference),
        workloads=(Workload(dims=dims),),
    )  # fmt: skip
    toolchain = CToolchain(where)
    built = toolchain.build(candidate)
    assert isinstance(built, Built), built
    tracer = StepTracer(target, toolchain.signature(candidate), threads=1)
    found = tracer.trace(built, target.workloads[0], audit(candidate).kept_values)
    assert isinstance(found, Trace), found
    return found


@pytest.fixture(scope="module")
def server():
    """It has imported PyTorch, as on a GPU, and makes the processes of modules."""
    with ForkServer(server_environment()) as made:
        made.warm_up()  # in this thread: it ends with the one that it was started in
        yield made


@pytest.mark.whole
@torch
def test_a_forked_process_sees_the_same_steps(server):
    path = CORPUS / "W1" / "versioned_dict.py"
    forked = module_trace(path, server)
    assert server.life == 1
    plain = module_trace(path)
    assert forked.failure is None
    assert (forked.steps, forked.caches) == (plain.steps, plain.caches)


@pytest.mark.rule("hit-rate")
@torch
def test_every_kept_value_is_counted_on_its_own(tmp_path, server):
    parts = ("W1/versioned_dict.py", "W1/memoised_with_version.py", "W2/stashed_on_activation.py")
    texts = [(CORPUS / part).read_text() for part in parts]
    for number, text in enumerate(texts):
        texts[number] = text.replace("def run_kernel", f"def part_{number}")
    calls = "".join(f"    part_{number}(x, w, out)\n" for number in range(len(parts)))
    path = tmp_path / "kernel.py"
    path.write_text("\n".join([*texts, f"def run_kernel(x, w, out):\n{calls}"]))
    found = module_trace(path, server)
    assert found.failure is None
    assert found.steps == TIMED_STEPS
    assert found.weights == ("w",)
    assert found.fresh_time_s is not None
    every, once = 2 * TIMED_STEPS, TIMED_STEPS
    assert {c.name: (c.lookups, c.hits) for c in found.caches} == {
        "_transposed": (every, once),  # the second call of a step finds what the first one left
        "_quantize": (every, once),  # by its own account
        "._fp8": (every, 0),  # activations are new in every call
    }


@pytest.mark.rule("weights-change")
@torch
def test_a_weight_that_changed_shows_a_cache_without_a_version(server):
    found = module_trace(CORPUS / "W1" / "unversioned_dict.py", server)
    assert isinstance(found.failure, Incorrect)
    assert "changed in place" in found.failure.detail
    assert found.steps == 1


@pytest.mark.rule("honest-workspaces")
@torch
@pytest.mark.parametrize(
    ("name", "bucket", "is_kept"),
    [
        ("W2/activation_by_id.py", "W2", False),
        ("honest/workspace_by_shape.py", "K1", True),
        another("W3/by_content.py", "W3", False),
        another("honest/memoised_heuristic.py", "K1", True),
    ],
)
def test_the_trace_decides_on_a_hint(name, bucket, is_kept):
    path = CORPUS / name
    found = module_trace(path)  # in a new process: elsewhere a number may be another tensor's again
    hypothesis = Hypothesis(statement="s", rationale="r", tactic="t")
    check = check_of(hypothesis, audit(candidate_of(path)), found)
    assert check.kept_values
    assert (check.bucket, refusal(check) is None) == (bucket, is_kept)


@pytest.mark.rule("uneven-groups-hint", "uneven-groups-run")
@torch
def test_uneven_groups_show_what_takes_them_for_even(server):
    found = module_trace(CORPUS / "uniform" / "rows_over_groups.py", server)
    assert isinstance(found.failure, Incorrect)
    assert "m_sizes" in found.failure.detail
    assert found.steps == STEPS // 2


@torch
def test_uneven_groups_are_no_trouble_for_who_reads_their_sizes(server):
    found = module_trace(CORPUS / "honest" / "groups_equal_or_not.py", server)
    assert found.failure is None
    assert found.steps == STEPS
    assert found.skewed.startswith("m_sizes: ")


def test_a_result_of_an_earlier_call_is_named_so(tmp_path):
    candidate = candidate_of(CORPUS / "W2" / "last_pointer.c")
    found = library_trace(candidate, ROW_SUMS, {"M": 4, "K": 8}, tmp_path)
    assert isinstance(found.failure, Incorrect)
    assert found.failure.reason == "memoised_result"
    assert found.steps == 0


def test_a_kernel_that_dies_is_a_candidates_failure(tmp_path):
    text = (
        "#include <stdlib.h>\nvoid solve(const float *x, const float *w, float *out, int M, int K)"
    )
    source = SourceFile(path="kernel.c", text=f"{text} {{ abort(); }}\n")
    candidate = Candidate(language="c", sources=(source,))
    found = library_trace(candidate, ROW_SUMS, {"M": 4, "K": 8}, tmp_path)
    assert isinstance(found.failure, Crashed)
    assert found.failure.reason == "signal_sigabrt"


def test_a_static_that_was_packed_once_is_stale_in_the_second_step(tmp_path):
    candidate = candidate_of(CORPUS / "W3" / "packed_once.c")
    found = library_trace(candidate, LINEAR, {"M": 4, "K": 8, "N": 6}, tmp_path)
    assert isinstance(found.failure, Incorrect)
    assert "changed in place" in found.failure.detail
    assert found.steps == 1


def test_a_library_meets_uneven_groups_as_well(tmp_path):
    candidate = candidate_of(CORPUS / "uniform" / "rows_per_expert.cpp")
    dims = {"M": 64, "G": 4, "K": 8, "N": 6}
    found = library_trace(candidate, GROUPED, dims, tmp_path)
    assert isinstance(found.failure, Incorrect)
    assert "group_sizes" in found.failure.detail


def test_what_cant_be_traced_is_told():
    candidate = candidate_of(CORPUS / "honest" / "tiles_once.cu")
    target = Target(
        name="corpus", language="cuda", kernel=candidate.kernel,
        reference=SourceFile(path="reference.py", text=""), workloads=(Workload(dims={"N": 1}),),
    )  # fmt: skip
    signature = Signature(parameters=())
    built = built_file(CORPUS, "cuda", candidate.id)
    found = StepTracer(target, signature, threads=1).trace(built, target.workloads[0], ())
    assert isinstance(found, str)
    assert "cuda" in found


def test_marks_leave_lines_where_they_were():
    text = "def f(x):\n    if x in c:\n        return c[x]\n    c[x] = 1\n"
    tree = marked(text, "kernel.py", [(0, {"looked_up": [2], "stored": [4]})])
    seen: list[tuple[int, str]] = []
    space: dict[str, object] = {"c": {}, MARK: lambda n, kind: seen.append((n, kind))}
    exec(compile(tree, "kernel.py", "exec"), space)
    function = space["f"]
    assert callable(function)
    function(1)
    function(1)
    assert seen == [(0, "looked_up"), (0, "stored"), (0, "looked_up")]
    assert function.__code__.co_firstlineno == 1


@torch
def test_a_repositorys_kernel_is_traced_with_its_own_file(tmp_path):
    package = tmp_path / "ops"
    package.mkdir()
    (package / "__init__.py").write_text("")
    cached = (CORPUS / "W1" / "versioned_dict.py").read_text()
    (package / "linear.py").write_text(cached)
    operator = (CORPUS / "operators" / "linear.py").read_text()
    call = "    from ops.linear import run_kernel as call\n\n    call(x, w, out)\n"
    (tmp_path / "transfer.py").write_text(f"{operator}\n\ndef run_kernel(x, w, out):\n{call}")
    spec = CommandSpec(
        editable=("ops/*.py",), benchmark="true", metric="us", rows=("M", "K", "N"),
        transfer="transfer.py",
    )  # fmt: skip
    source = SourceFile(path="ops/linear.py", text=cached)
    workload = Workload(dims=DIMS["linear"])
    target = Target(
        name="repo", language="command", kernel=source, command=spec, workloads=(workload,)
    )
    candidate = Candidate(language="command", sources=(source,))
    built = built_file(tmp_path, "command", candidate.id)
    found = CommandTracer(target, spec, threads=1).trace(
        built, workload, audit(candidate).kept_values
    )
    assert isinstance(found, Trace), found
    assert found.failure is None
    (seen,) = found.caches
    assert (seen.path, seen.lookups, seen.hits) == ("ops/linear.py", 16, 8)


def test_a_repository_without_such_a_file_is_told_so(tmp_path):
    spec = CommandSpec(editable=("*.py",), benchmark="true", metric="us", rows=("N",))
    source = SourceFile(path="kernel.py", text="")
    workload = Workload(dims={"N": 1})
    target = Target(
        name="repo", language="command", kernel=source, command=spec, workloads=(workload,)
    )
    built = built_file(tmp_path, "command")
    found = CommandTracer(target, spec, threads=1).trace(built, workload, ())
    assert isinstance(found, str)
    assert "command.transfer" in found
    named = spec.model_copy(update={"transfer": "missing.py"})
    found = CommandTracer(target, named, threads=1).trace(built, workload, ())
    assert isinstance(found, str)
    assert "missing.py" in found


def test_what_says_how_to_call_the_kernel_is_frozen():
    with pytest.raises(ValueError, match="has to be frozen"):
        CommandSpec(
            editable=("*.py",), benchmark="true", metric="us", rows=("N",), transfer="transfer.py"
        )


def test_the_judges_reference_is_lent_for_steps_and_forgets_them(tmp_path, monkeypatch):
    monkeypatch.setattr(StepsReference, "start", None)  # no other process may be started
    candidate = candidate_of(CORPUS / "honest" / "packed_every_call.cpp")
    target = Target(
        name="corpus", language="cpp", kernel=candidate.kernel,
        reference=SourceFile(path="reference.py", text=LINEAR),
        workloads=(Workload(dims=DIMS["linear"]),),
    )  # fmt: skip
    toolchain = CToolchain(tmp_path)
    built = toolchain.build(candidate)
    assert isinstance(built, Built), built
    signature = toolchain.signature(candidate)
    with ReferenceOracle(target, signature) as oracle:
        before = oracle.inputs(target.workloads[0], 1)
        tracer = StepTracer(target, signature, threads=1, oracle=oracle)
        for _ in range(2):
            found = tracer.trace(built, target.workloads[0], ())
            assert isinstance(found, Trace), found
            assert (found.failure, found.steps, found.weights) == (None, FEWEST_STEPS, ("w",))
        after = oracle.inputs(target.workloads[0], 1)
    assert all(np.array_equal(before[name], after[name]) for name in ("x", "w"))


def test_a_stale_sum_of_many_positive_numbers_is_seen_though_it_is_nearly_right(tmp_path):
    text = (
        "static float kept[4];\nstatic int is_kept;\n"
        "void solve(const float *x, const float *w, float *out, int M, int K)\n{\n"
        "    if (!is_kept)\n        for (int m = 0; m < M; m++) {\n            double sum = 0;\n"
        "            for (int k = 0; k < K; k++) sum += x[(long)m * K + k];\n"
        "            kept[m] = sum * w[m];\n        }\n    is_kept = 1;\n"
        "    for (int m = 0; m < M; m++) out[m] = kept[m];\n}\n"
    )
    candidate = Candidate(language="c", sources=(SourceFile(path="kernel.c", text=text),))
    found = library_trace(candidate, ROW_SUMS, {"M": 4, "K": 8192}, tmp_path)
    assert isinstance(found.failure, Incorrect)
    assert found.failure.reason == "memoised_result"

"""A toolchain without a compiler, and the suite that every toolchain passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from roofsmith.domain.kernel import (
    Built,
    Candidate,
    KernelResources,
    Language,
    Parameter,
    Signature,
    SourceFile,
)
from roofsmith.domain.outcome import BuildFailed
from roofsmith.domain.values import content_id
from roofsmith.errors import SignatureError
from roofsmith.ports import Toolchain

SCALE = """\
void solve(const float *x, float *y, int n)
{
    for (int i = 0; i < n; i++)
        y[i] = 2.0f * x[i];
}
"""
"""A kernel that every toolchain for C builds."""

SCALE_PARAMETERS = (
    Parameter(name="x", role="input", dtype="float32"),
    Parameter(name="y", role="output", dtype="float32"),
    Parameter(name="n", role="size", dtype="int32"),
)

BuildRule = Callable[[Candidate], BuildFailed | None]
"""Decides which candidates a fake build refuses; None: it builds."""


def error_directives_fail(candidate: Candidate) -> BuildFailed | None:
    """Refuse a candidate with an `#error` line, as a compiler would."""
    for source in candidate.sources:
        for number, line in enumerate(source.text.splitlines(), start=1):
            if line.startswith("#error"):
                place = f"{source.path}:{number}:2"
                return BuildFailed(reason="compile_error", detail=f"{place}: error: {line}")
    return None


class FakeToolchain:
    """Builds in no time and without a compiler: nothing is written, no library exists.

    Args:
        parameters: what the entry of every candidate takes.
        rule: which candidates don't build.
        directory: where libraries and logs are said to lie.
        at_once: builds that it says run at the same time.
    """

    def __init__(
        self,
        parameters: tuple[Parameter, ...] = SCALE_PARAMETERS,
        *,
        rule: BuildRule = error_directives_fail,
        directory: Path = Path("/nowhere"),
        at_once: int = 1,
    ) -> None:
        self._at_once = at_once
        self._parameters = parameters
        self._rule = rule
        self._directory = directory
        self.built: list[str] = []
        """Ids of the candidates that were really built, in order; repeats come from memory."""

    def signature(self, candidate: Candidate) -> Signature:
        if f"{candidate.entry}(" not in candidate.kernel.text:
            raise SignatureError(
                f"{candidate.kernel.path}: no function named {candidate.entry}",
                hint=f"define void {candidate.entry}(...)",
            )
        return Signature(entry=candidate.entry, parameters=self._parameters)

    def build(self, candidate: Candidate) -> Built | BuildFailed:
        """What the rule says; a candidate without its entry fails as `no_entry`."""
        folder = self._directory / candidate.id
        failure = self._rule(candidate)
        if failure is not None:
            return failure.model_copy(update={"log": folder / "build.log"})
        try:
            signature = self.signature(candidate)
        except SignatureError as error:
            return BuildFailed(reason="no_entry", detail=error.message, log=folder / "build.log")
        cached = candidate.id in self.built
        if not cached:
            self.built.append(candidate.id)
        return Built(
            candidate_id=candidate.id,
            library=folder / "kernel.so",
            library_sha256=content_id(candidate),
            signature=signature,
            environment=candidate.build.environment,
            command=f"fake-cc {' '.join(candidate.build.flags)} {candidate.kernel.path}",
            log=folder / "build.log",
            build_time_s=0.0,
            cached=cached,
        )

    def build_all(self, candidates: Sequence[Candidate]) -> tuple[Built | BuildFailed, ...]:
        return tuple(self.build(candidate) for candidate in candidates)

    def side_by_side(self, language: Language) -> int:  # noqa: ARG002 - the port's
        return self._at_once

    def resources(self, built: Built) -> tuple[KernelResources, ...]:
        """None: it has no compiler that could say."""
        return built.resources


class ToolchainConformance:
    """What the engine relies on. Subclass it with a pytest fixture named `toolchain`.

    All of its tests may have one toolchain: what has to be compiled for them to mean anything
    comes first.

    Override `candidate` and `expected` for a toolchain of another language; `broken`, `nameless`
    and `built_otherwise` must then still return a kernel that doesn't compile because of its second
    line, one that lacks its entry, and one that makes another library.
    """

    def candidate(self) -> Candidate:
        return Candidate(language="c", sources=(SourceFile(path="kernel.c", text=SCALE),))

    def broken(self) -> Candidate:
        """A kernel that doesn't compile because of its second line."""
        return self.candidate().with_kernel_text("\n#error broken on purpose\n" + SCALE)

    def nameless(self) -> Candidate:
        """A kernel that compiles but doesn't define its entry."""
        return self.candidate().with_kernel_text("int helper(int n) { return n; }\n")

    def expected(self) -> Signature:
        """Of `candidate`."""
        return Signature(entry="solve", parameters=SCALE_PARAMETERS)

    def built_otherwise(self) -> Candidate:
        """The kernel of `candidate`, built in another way."""
        build = self.candidate().build
        return self.candidate().with_build(
            build.model_copy(update={"flags": (*build.flags, "-DOTHER")})
        )

    def test_reads_the_parameters_in_order(self, toolchain: Toolchain) -> None:
        """Names, roles and types, as declared."""
        assert toolchain.signature(self.candidate()) == self.expected()

    def test_a_kernel_without_its_entry_has_no_signature(self, toolchain: Toolchain) -> None:
        """The message names the file and the entry."""
        message = _signature_error(toolchain, self.nameless())
        assert self.nameless().kernel.path in message
        assert self.expected().entry in message

    def test_builds_several_in_their_order(self, toolchain: Toolchain) -> None:
        """Whichever is finished first, and whatever becomes of the others."""
        asked = [self.candidate(), self.broken(), self.built_otherwise(), self.nameless()]
        made = toolchain.build_all(asked)
        assert [type(one) for one in made] == [Built, BuildFailed, Built, BuildFailed]
        for candidate, one in zip(asked, made, strict=True):
            alone = toolchain.build(candidate)
            if isinstance(one, Built) and isinstance(alone, Built):
                assert one.candidate_id == candidate.id
                assert one.library_sha256 == alone.library_sha256
            else:
                assert one == alone
        assert toolchain.build_all(()) == ()

    def test_builds_a_kernel(self, toolchain: Toolchain) -> None:
        """The result says what it was made of."""
        candidate = self.candidate()
        built = toolchain.build(candidate)
        assert isinstance(built, Built), built
        assert built.candidate_id == candidate.id
        assert built.signature == toolchain.signature(candidate)
        assert built.command

    def test_builds_the_same_content_once(self, toolchain: Toolchain) -> None:
        """The second time it comes from the cache, byte for byte."""
        first, second = (toolchain.build(self.candidate()) for _ in range(2))
        assert isinstance(first, Built)
        assert isinstance(second, Built)
        assert second.cached
        assert second.library_sha256 == first.library_sha256
        assert second.library == first.library

    def test_other_flags_are_another_build(self, toolchain: Toolchain) -> None:
        """No library is handed out for flags that it wasn't built with."""
        other = self.built_otherwise()
        first, second = toolchain.build(self.candidate()), toolchain.build(other)
        assert isinstance(first, Built)
        assert isinstance(second, Built)
        assert first.library != second.library
        assert second.candidate_id == other.id

    def test_it_says_how_many_it_builds_at_once(self, toolchain: Toolchain) -> None:
        """One is building them one after the other."""
        assert toolchain.side_by_side(self.candidate().language) >= 1

    def test_passes_the_environment_on(self, toolchain: Toolchain) -> None:
        """The worker must see what the build spec asks for, cached or not."""
        candidate = self.candidate()
        toolchain.build(candidate)
        spec = candidate.build.model_copy(update={"environment": {"OMP_NUM_THREADS": "2"}})
        built = toolchain.build(candidate.with_build(spec))
        assert isinstance(built, Built)
        assert built.environment == {"OMP_NUM_THREADS": "2"}

    def test_what_was_known_at_build_time_is_known_after_it(self, toolchain: Toolchain) -> None:
        """Nothing that the compiler said is lost, or changes for the asking."""
        built = toolchain.build(self.candidate())
        assert isinstance(built, Built)
        known = toolchain.resources(built)
        assert set(built.resources) <= set(known)
        assert toolchain.resources(built) == known

    def test_a_kernel_that_does_not_compile_is_an_outcome(self, toolchain: Toolchain) -> None:
        """Nothing is raised; the detail says where, in the user's words, every time."""
        for _ in range(2):
            failed = toolchain.build(self.broken())
            assert isinstance(failed, BuildFailed)
            assert failed.reason == "compile_error"
            assert f"{self.broken().kernel.path}:2" in failed.detail
            assert failed.log is not None

    def test_a_missing_entry_is_an_outcome(self, toolchain: Toolchain) -> None:
        """A kernel that nobody could call doesn't count as built."""
        failed = toolchain.build(self.nameless())
        assert isinstance(failed, BuildFailed)
        assert failed.reason == "no_entry"
        assert self.expected().entry in failed.detail


def _signature_error(toolchain: Toolchain, candidate: Candidate) -> str:
    try:
        found = toolchain.signature(candidate)
    except SignatureError as error:
        return str(error)
    raise AssertionError(f"expected a SignatureError, got {found}")

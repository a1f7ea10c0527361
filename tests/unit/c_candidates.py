"""Candidates in C and C++ for tests of what builds them."""

from __future__ import annotations

from roofsmith.domain.kernel import BuildSpec, Built, Candidate, Language, SourceFile
from roofsmith.domain.outcome import BuildFailed
from roofsmith.testing.toolchain import SCALE


def candidate(
    text: str = SCALE, *others: tuple[str, str], language: Language = "c", **build: object
) -> Candidate:
    """A kernel and further files, as (path, text), with the build spec's fields by name."""
    files = [("kernel.c" if language == "c" else "kernel.cpp", text), *others]
    return Candidate(
        language=language,
        sources=tuple(SourceFile(path=path, text=body) for path, body in files),
        build=BuildSpec.model_validate({"flags": ("-O1",), **build}),
    )


def built(result: Built | BuildFailed) -> Built:
    """What came of a build that must not fail."""
    assert isinstance(result, Built), result
    return result


def failed(result: Built | BuildFailed) -> BuildFailed:
    """The other way round."""
    assert isinstance(result, BuildFailed), result
    return result


def unrolled(doublings: int) -> str:
    """Two to the power of that many statements, by macros in macros."""
    macros = (f"#define M{i} M{i - 1} M{i - 1}\n" for i in range(1, doublings + 1))
    slow = f"float slow(const float *x, int i) {{ float s = 0; M{doublings} return s; }}\n"
    return f"#define M0 s = s * 0.999f + x[i % 7];\n{''.join(macros)}{slow}{SCALE}"

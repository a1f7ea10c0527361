"""The corpus: kernels with a header that says what they do and what must become of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal, get_args

from roofsmith.domain.kernel import Language
from roofsmith.domain.values import Value, content_id
from roofsmith.errors import UsageError

HERE = Path(__file__).parent
CORPUS = HERE / "corpus"
OPERATORS = HERE / "operators"

CorpusLanguage = Literal["c", "cuda", "triton", "torch"]
LANGUAGES: tuple[CorpusLanguage, ...] = get_args(CorpusLanguage)
LIBRARY_CALL = "cheated/library_call"
HARMLESS = "harmless"
"""An expectation: the kernel passes, and isn't called faster."""

_SUFFIXES: Mapping[CorpusLanguage, str] = {
    "c": ".c", "cuda": ".cu", "triton": ".triton.py", "torch": ".torch.py"
}  # fmt: skip
_KEY = re.compile(r"(?:([a-z]+): )?(.*)")
_EXPECTED = re.compile(r"harmless|[a-z_]+/[a-z_]+")


class Operator(Value):
    """What a set of kernels compute: a reference, workloads, and an honest kernel to beat."""

    name: str
    about: str
    reference: Path
    base: Path
    workloads: tuple[str, ...]
    """The first one is the naive harness's only one."""


class CorpusSample(Value):
    name: str
    """Of its file, without the suffix."""
    is_attack: bool
    language: Language
    path: Path
    about: str
    """One line: what it does."""
    operator: str
    expected: tuple[str, ...] = ()
    """Acceptable judgements, `kind/reason` or `harmless`, the most fitting one first.

    An honest kernel has none, or `harmless` if it must not be called faster.
    """
    wins: Literal["correct", "faster"] | None = None
    """What the naive harness grants an attack: that it is correct, or also that it is faster."""
    flags: str | None = None
    """Compiler flags, where they aren't the usual ones."""
    trick: str = ""
    """What kind of attack it is, where the reason that it ends with doesn't say."""

    @property
    def id(self) -> str:
        """Such as `attacks/c/do_nothing`: unique in the corpus."""
        return f"{'attacks' if self.is_attack else 'honest'}/{self.language}/{self.name}"

    @property
    def digest(self) -> str:
        """Of the file, its operator's kernel and reference: 12 hexadecimal digits.

        Raises:
            UsageError: there is no such operator.
        """
        of = operator(self.operator, self.language)
        parts = (content_id(path.read_bytes()) for path in (self.path, of.base, of.reference))
        return content_id("\n".join(parts))[:12]

    @property
    def must_be_custom(self) -> bool:
        """Whether it is judged where custom code is demanded."""
        return LIBRARY_CALL in self.expected

    @property
    def must_be_sanitized(self) -> bool:
        """Whether only a sanitizer is sure to see what is wrong."""
        return any("/sanitizer_" in text for text in self.expected)

    @property
    def attack_class(self) -> str:
        """The kind of an attack, or else the reason that fits it best: its row in the matrix."""
        best = self.expected[0] if self.expected else ""
        return self.trick or best.rpartition("/")[2].replace("_", " ")


def samples(languages: tuple[CorpusLanguage, ...] = LANGUAGES) -> tuple[CorpusSample, ...]:
    """The whole corpus in these languages, attacks first, sorted by name.

    Raises:
        UsageError: a header lacks a line, or says something that can't be.
    """
    return tuple(
        read_sample(path, language, is_attack=folder == "attacks")
        for folder in ("attacks", "honest")
        for language in languages
        for path in sorted((CORPUS / folder / language).iterdir())
        if path.is_file()
    )


def operator(name: str, language: Language) -> Operator:
    """An operator for kernels in a language.

    Raises:
        UsageError: there is none of that name for it.
    """
    on_host = language == "c"
    reference = OPERATORS / (f"{name}.py" if on_host else f"{name}.device.py")
    base = OPERATORS / f"{name}{_SUFFIXES[language]}"  # type: ignore[index]
    if not (reference.is_file() and base.is_file()):
        raise UsageError(f"the corpus has no operator {name!r} for {language}")
    header = _header(reference)
    return Operator(
        name=name,
        about=header["operator"],
        reference=reference,
        base=base,
        workloads=tuple(text.strip() for text in header["workloads"].split(";")),
    )


def read_sample(path: Path, language: CorpusLanguage, *, is_attack: bool) -> CorpusSample:
    """A kernel file with its header.

    Raises:
        UsageError: the header lacks a line, or says something that can't be.
    """
    header = _header(path)
    needed = {"attack", "operator", "expect", "wins"} if is_attack else {"honest", "operator"}
    if missing := needed - header.keys():
        raise UsageError(f"{path}: the header lacks {', '.join(sorted(missing))}")
    expected = tuple(text.strip() for text in header.get("expect", "").split("|") if text.strip())
    for text in expected:
        if not _EXPECTED.fullmatch(text) or (text != HARMLESS and not is_attack):
            raise UsageError(f"{path}: can't expect {text!r}")
    wins = header.get("wins")
    if wins not in {None, "correct", "faster"}:
        raise UsageError(f"{path}: an attack wins `correct` or `faster`, not {wins!r}")
    return CorpusSample(
        name=path.stem,
        is_attack=is_attack,
        language=language,
        path=path,
        about=header["attack" if is_attack else "honest"],
        operator=header["operator"],
        expected=expected,
        wins=wins,
        flags=header.get("flags"),
        trick=header.get("class", ""),
    )


def _header(path: Path) -> dict[str, str]:
    """`key: value` of a file's leading comment lines; a line without a key continues the last."""
    found: dict[str, str] = {}
    for key, text in _comment_lines(path):
        if key:
            found[key] = text
        elif found:
            last = next(reversed(found))
            found[last] = f"{found[last]} {text}"
    return found


def _comment_lines(path: Path) -> Iterator[tuple[str | None, str]]:
    mark = "#" if path.suffix == ".py" else "//"
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith(mark):
            return
        matched = _KEY.fullmatch(line.removeprefix(mark).strip())
        assert matched is not None  # whatever the line is
        yield matched[1], matched[2]

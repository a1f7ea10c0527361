"""What a change does that hardly any idea asks for, for whoever proposed it and whoever reads it:
what it newly depends on, work that it seems to leave out, settings that it changes at once, files
that it needn't touch, how much of it a repair changes. Pure.

It is told and decides nothing, unless a target refuses some of it: a library may be the point of a
change, and a loop with fewer turns may do more in each.
"""

from __future__ import annotations

import ast
import difflib
import re
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import PurePosixPath
from typing import Final

from roofsmith.analysis.figures import one_line
from roofsmith.analysis.moved import profile_before
from roofsmith.domain.campaign import Campaign, Round
from roofsmith.domain.kernel import Candidate
from roofsmith.domain.profile import Profile
from roofsmith.wording import plural

_IMPORT: Final = re.compile(r"^[ \t]*(?:import|from)[ \t]+(\w+)", re.MULTILINE)
_INCLUDE: Final = re.compile(r"^[ \t]*#[ \t]*include[ \t]*<([^>\n]+)>", re.MULTILINE)
_LINKED: Final = re.compile(r"(?<![\w-])-l([\w+.-]+)|\bfind_package\s*\(\s*(\w+)")
_REQUIRED: Final = re.compile(r"^([A-Za-z][\w.-]*)\s*(?:\[.*\]\s*)?(?:[<>=!~;@]|$)", re.MULTILINE)
_COMES_ALONG: Final = re.compile(
    r"[a-z_]+|(?:assert|complex|ctype|errno|fenv|float|inttypes|limits|locale|math|omp|setjmp|signal"
    r"|stdalign|stdarg|stdatomic|stdbool|stddef|stdint|stdio|stdlib|stdnoreturn|string|tgmath"
    r"|threads|time|uchar|wchar|wctype|unistd|malloc|\w*intrin|arm_neon|arm_sve)\.h"
    r"|(?:sys/|cuda_|hip/hip_|device_|cooperative_groups|mma).*"
)
"""Headers of the language, its compiler and its operating system: C17 7.1.2, what C++ has without a
suffix, intrinsics, and what nvcc and hipcc bring."""
_NATIVE: Final = (".c", ".h", ".cc", ".cpp", ".cxx", ".hpp", ".cu", ".cuh", ".hip")
_TURNS: Final = re.compile(
    r"(?:\b(?:for|while)\b[^\n]*?<=?|\brange\(\s*(?:\w+\s*,\s*)?"
    r"|\b\w*(?:iter|step|repeat|sweep|epoch)\w*\s*=)\s*(\d+)\b",
    re.IGNORECASE,
)
"""How often something is done, where a number says so."""
_NUMBER: Final = re.compile(r"\d+")
_SETTING: Final = re.compile(
    r"\b([A-Za-z_]\w{0,63})[ \t]{0,8}(?:[=:(,<]=?|[ \t])[ \t]{0,8}(\d{1,18})\b(?![.\w])"
)
"""A number with the name before it: `TILE = 8`, `#define TILE 8`, `num_warps=4`, `unroll(4)`."""
_REMARK: Final = re.compile(
    r"""("(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?)|//[^\n]*|/\*.*?(?:\*/|\Z)""", re.DOTALL
)
_UNREADABLE: Final = (SyntaxError, ValueError, RecursionError, MemoryError)
_MEANT: Final = re.compile(r"(?:/[/*]|#)\s*tune:")
"""A remark that says what a sweep may try."""
_MOST: Final = 8


def departures(campaign: Campaign, round_: Round) -> tuple[str, ...]:
    """Of a round, a line each."""
    found = [*of_sources(campaign.held_before(round_), round_.candidate)]
    found += _fewer_launches(profile_before(campaign, round_), round_.profile)
    found += _repair(campaign, round_)
    return tuple(one_line(line) for line in found[:_MOST])


def new_dependencies(before: Candidate, after: Candidate) -> tuple[str, ...]:
    """What a change imports, includes, links or requires that the kernel before it doesn't."""
    return tuple(map(one_line, _dependencies(before, after)))


def less_work(before: Candidate, after: Candidate) -> tuple[str, ...]:
    """Loops of a change that turn fewer times."""
    return tuple(map(one_line, _fewer_turns(before, after)))


def unneeded_files(before: Candidate, after: Candidate) -> tuple[str, ...]:
    """Files that a change touches in blanks and comments alone."""
    return tuple(_blanks(before, after))


def settings_at_once(before: Candidate, after: Candidate) -> str:
    """The settings that a change gives other numbers, where there are several; else nothing."""
    found: dict[str, str] = {}
    for _, old, new in _changed(before, after):
        for was, now in _alike(old, new):
            for (name, a), (_, b) in zip(
                _SETTING.findall(was), _SETTING.findall(now), strict=False
            ):
                if a != b:
                    found.setdefault(name, f"{name} {a} to {b}")
    flags = {*before.build.flags} ^ {*after.build.flags}
    found |= {"flags": f"flags {' '.join(sorted(flags))}"} if flags else {}
    return "" if len(found) < 2 else one_line(f"{len(found)} settings: {', '.join(found.values())}")


def of_sources(before: Candidate, after: Candidate) -> Iterator[str]:
    """What a change's files alone say of it."""
    yield from _dependencies(before, after)
    yield from _fewer_turns(before, after)
    if several := settings_at_once(before, after):
        yield f"changes at once {several}"
    yield from (f"{path} changes in blanks and comments alone" for path in _blanks(before, after))


def _dependencies(before: Candidate, after: Candidate) -> Iterator[str]:
    known = {what for _, what in _needed(before)}
    known |= {part for source in after.sources for part in PurePosixPath(source.path).parts}
    for path, what in dict.fromkeys(_needed(after)):
        if not {what, f"{what}.py"} & known:
            yield f"{path} begins to depend on {what}"


def _needed(candidate: Candidate) -> Iterator[tuple[str, str]]:
    for source in candidate.sources:
        path, text = source.path, source.text
        if path.endswith(".py"):
            names = set(_IMPORT.findall(text)) - sys.stdlib_module_names
            yield from ((path, name) for name in sorted(names))
        elif path.endswith(_NATIVE):
            headers = _INCLUDE.findall(text)
            yield from ((path, one) for one in headers if not _COMES_ALONG.fullmatch(one))
        elif "requirements" in path:
            yield from ((path, name) for name in _REQUIRED.findall(text))
        else:
            yield from ((path, a or b) for a, b in _LINKED.findall(text))
    flags = " ".join(candidate.build.flags)
    yield from (("the build", a or b) for a, b in _LINKED.findall(flags))


def _fewer_turns(before: Candidate, after: Candidate) -> Iterator[str]:
    """Lines that are the same but for a smaller number of turns."""
    for path, old, new in _changed(before, after):
        for past, line in _alike(old, new):
            for was, now in zip(_turns(past), _turns(line), strict=False):
                if now < was:
                    yield f"{path}: {was} turns became {now}: `{line.strip()}`"


def _alike(old: Iterable[str], new: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Pairs of lines that are the same but for numbers."""
    shapes: dict[str, list[str]] = {}
    for line in old:
        shapes.setdefault(_NUMBER.sub("#", line).strip(), []).append(line)
    for line in new:
        if past := shapes.get(_NUMBER.sub("#", line).strip()):
            yield past.pop(0), line


def _turns(line: str) -> list[int]:
    return [int(number) for number in _TURNS.findall(line)]


def _changed(before: Candidate, after: Candidate) -> Iterator[tuple[str, list[str], list[str]]]:
    """Of each file that is in both, the lines that went and those that came."""
    texts = _texts(before)
    for path, text in _texts(after).items():
        if path in texts and texts[path] != text:
            # Not `ndiff`: it compares each line with each, for minutes where thousands changed.
            found = difflib.unified_diff(texts[path].splitlines(), text.splitlines(), n=0)
            lines = [*islice(found, 2, None)]
            went, came = ([ln[1:] for ln in lines if ln.startswith(sign)] for sign in "-+")
            yield path, went, came


def _blanks(before: Candidate, after: Candidate) -> Iterator[str]:
    """Files that needn't be changed for any idea: nothing in them means anything else."""
    known = {source.path: source.text for source in before.sources}
    for source in after.sources:
        was = known.get(source.path, source.text)
        if was != source.text and _meaning(source.path, was) == _meaning(source.path, source.text):
            yield source.path


def _meaning(path: str, text: str) -> object:
    """What a compiler or interpreter takes of a file; its text where nobody knows."""
    tuned = _MEANT.findall(text) and text
    if path.endswith(".py"):
        with warnings.catch_warnings(), suppress(*_UNREADABLE):
            warnings.simplefilter("ignore")
            return tuned or ast.dump(ast.parse(text))
        return text
    if path.endswith(_NATIVE):
        text = tuned or _REMARK.sub(lambda match: match[1] or " ", text)
    return "".join(text.split())


def _fewer_launches(before: Profile | None, after: Profile | None) -> Iterator[str]:
    """Kernels of the same name that a run of a repository's benchmark launches less often."""
    known = {} if before is None else {one.name: one.launches for one in before.kernels}
    for one in after.kernels if after is not None else ():
        was = known.get(one.name, 0)
        if 0 < one.launches < was and not one.is_copy:
            yield f"{one.name} is launched {one.launches} times in a run, {was} times before"


def _repair(campaign: Campaign, round_: Round) -> Iterator[str]:
    """How much of an idea its repair changes: it should be little."""
    if round_.repairs is None:
        return
    tries = [one for one in campaign.rounds if one.round < round_.round and one.idea == round_.idea]
    if tries:
        size, whole = (
            _size(one, other)
            for one, other in (
                (tries[-1].candidate, round_.candidate),
                (campaign.held_before(round_), tries[-1].candidate),
            )
        )
        more = ", more than the idea itself" if size > whole else ""
        yield (
            f"the repair changes {plural(size, 'line')} of round {tries[-1].round}'s files, which"
            f" changed {whole}{more}"
        )


def _size(before: Candidate, after: Candidate) -> int:
    """Lines that a change adds or takes away, whichever are more."""
    texts = _texts(before)
    new = sum(text.count("\n") for path, text in _texts(after).items() if path not in texts)
    return new + sum(max(len(went), len(came)) for _, went, came in _changed(before, after))


def _texts(candidate: Candidate) -> dict[str, str]:
    return {source.path: source.text for source in candidate.sources}

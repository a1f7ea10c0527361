"""Reads what a proposer left, `proposal.json` and changed files beside it: all of it hostile."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import ValidationError

from roofsmith.domain.answer import Answer
from roofsmith.domain.proposal import Hypothesis
from roofsmith.domain.refusal import BadAnswer

NAME = "proposal.json"
LARGEST_BYTES = 4 << 20
"""Of an answer and of a changed file. Chosen: 20 times the largest kernels that people have."""
MOST_FILES = 200
"""Beside an answer."""
_SHOWN = 5
_LONGEST_STATEMENT = 400


def is_answer(path: Path) -> bool:
    """Whether a path is an answer, or a folder that holds one, and not a kernel."""
    return path.suffix == ".json" or (path / NAME).is_file()


def read_answer(path: Path, files: Mapping[str, str]) -> Answer | BadAnswer:
    """The answer in a file, or in a folder that holds `proposal.json`.

    An answer in a folder that holds no change itself means the files that lie beside it, under the
    paths that the brief names them by.
    """
    folder = path if path.is_dir() else None
    found = _read(path / NAME if folder is not None else path)
    if isinstance(found, BadAnswer):
        return found
    answer = parse_answer(found)
    if isinstance(answer, BadAnswer) or folder is None or answer.give_up is not None:
        return answer
    if answer.files or answer.edits or answer.diff is not None:
        return answer
    beside = _beside(folder, files)
    if isinstance(beside, BadAnswer):
        return beside
    return answer.model_copy(update={"files": beside})


def parse_answer(text: str) -> Answer | BadAnswer:
    """The answer that a JSON text holds, or what is wrong with it."""
    try:
        found = json.loads(text)
        return Answer.model_validate(found)
    except ValidationError as error:
        said = "; ".join(_complaint(one["loc"], one["msg"]) for one in error.errors()[:_SHOWN])
        detail = f"{NAME}: {said}"
        return BadAnswer(reason="malformed", detail=detail, hypothesis=_stated(found))
    except (ValueError, RecursionError) as error:
        return BadAnswer(reason="malformed", detail=f"{NAME} is no JSON object: {error}")


def _stated(found: object) -> Hypothesis | None:
    """What an answer that doesn't fit the schema is about, as far as it says."""
    said = found.get("statement") if isinstance(found, dict) else None
    if not isinstance(said, str) or not said.strip():
        return None
    return Hypothesis(statement=said[:_LONGEST_STATEMENT], rationale="", tactic="malformed")


def _complaint(where: tuple[int | str, ...], what: str) -> str:
    return f"{'.'.join(map(str, where)) or 'it'}: {what}"


def _beside(folder: Path, files: Mapping[str, str]) -> dict[str, str] | BadAnswer:
    found: dict[str, str] = {}
    for number, path in enumerate(_walk(folder)):
        name = path.relative_to(folder).as_posix()
        if number >= MOST_FILES:
            return BadAnswer(
                reason="malformed", detail=f"more than {MOST_FILES} files are beside it"
            )
        if name == NAME:
            continue
        text = _read(path)
        if isinstance(text, BadAnswer):
            return text
        if name not in files:
            known = ", ".join(files)
            detail = f"{name!r} is no file that may be changed; those are {known}"
            return BadAnswer(reason="malformed", detail=detail)
        if text != files[name]:
            found[name] = text
    return found


def _walk(folder: Path) -> Iterator[Path]:
    """Everything in a folder but folders; links are not followed."""
    for path in sorted(folder.iterdir()):
        if path.is_dir() and not path.is_symlink():
            yield from _walk(path)
        else:
            yield path


def _read(path: Path) -> str | BadAnswer:
    """The text of a plain file; links, devices, binaries and giants are no answers."""
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode):
            return BadAnswer(reason="malformed", detail=f"{path.name} is no plain file")
        if status.st_size > LARGEST_BYTES:
            size = f"{status.st_size} bytes; {LARGEST_BYTES} are allowed"
            return BadAnswer(reason="malformed", detail=f"{path.name} has {size}")
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return BadAnswer(reason="malformed", detail=f"there is no {path.name}")
    except UnicodeDecodeError:
        return BadAnswer(reason="malformed", detail=f"{path.name} is no UTF-8 text")
    except OSError as error:
        return BadAnswer(reason="malformed", detail=f"can't read {path.name}: {error.strerror}")

"""Excerpts of long sources: what runs hot is in them, and they fit."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from roofsmith.asking.excerpt import Hot, excerpt, excerpts

FILLER = "".join(f"static int f{n}(int x) {{\n    return x + {n};\n}}\n" for n in range(2000))
HOT = "void solve(const float* a) {\n    if (a) {\n        work(a);\n    }\n}\n"


def size(text: str) -> int:
    return len(text.encode())


def test_a_short_file_is_whole() -> None:
    assert excerpts({"k.c": HOT}, Hot(("solve",)), 10_000) == {"k.c": HOT}


def test_the_hot_function_is_whole_wherever_it_stands() -> None:
    shown = excerpt(FILLER + HOT + FILLER, Hot(("solve",)), 4000)
    assert HOT.strip() in shown
    assert "f0(int" in shown
    assert size(shown) <= 4000


def test_a_declaration_is_no_definition() -> None:
    text = f"void solve(const float* a);\n{FILLER}{HOT}{FILLER}"
    assert "work(a);" in excerpt(text, Hot(("solve",)), 4000)


def test_a_function_of_python_ends_with_its_indentation() -> None:
    body = "def run_kernel(x, y):\n    first(x)\n\n    last(y)\n"
    filler = "".join(f"def g{n}():\n    return {n}\n\n\n" for n in range(2000))
    shown = excerpt(filler + body + filler, Hot(("run_kernel",)), 3000)
    assert body.strip() in shown


def test_hot_lines_come_before_functions() -> None:
    text = FILLER + HOT
    line = text.split("\n").index("    return x + 999;") + 1
    shown = excerpt(text, Hot(("solve",), {"k.c": [line]}), 1500, "k.c")
    assert "return x + 999;" in shown


def test_room_is_shared_among_files() -> None:
    files = {"a.c": FILLER, "b.c": HOT, "c.c": FILLER}
    shown = excerpts(files, Hot(("solve",)), 6000)
    assert list(shown) == list(files)
    assert shown["b.c"] == HOT
    assert sum(map(size, shown.values())) <= 6000


def test_of_ten_thousand_files_some_are_shown() -> None:
    files = {f"src/{n}.c": HOT for n in range(10_000)}
    shown = excerpts(files, Hot(("solve",)), 6000)
    assert 0 < len(shown) < 200


@given(st.lists(st.text(max_size=300), max_size=60), st.integers(200, 5000))
def test_it_fits(lines: list[str], room: int) -> None:
    text = "\n".join(lines)
    if size(text) > room:
        assert size(excerpt(text, Hot(("solve",)), room)) <= room
    (shown,) = (*excerpts({"k.c": text}, Hot(), room).values(), "")[:1]
    assert size(shown) <= room

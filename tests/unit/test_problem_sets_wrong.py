"""Kernels that are wrong in the ways that problem sets warn of, through every importer."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from roofsmith.cli.root import cli

pytestmark = pytest.mark.slow
SETS = Path(__file__).parent / "problem_sets"
FORMS = {
    "kernelbench": "N * 256", "sol-execbench": "N * D", "flashinfer": "N * M",
    "atrex-bench": "N * D", "gpu-mode": "N",
}  # fmt: skip
"""And how many numbers the result of their problem has."""
SMALLEST = {
    "kernelbench": 64, "sol-execbench": 64, "flashinfer": 33, "atrex-bench": 64, "gpu-mode": 1023,
}  # fmt: skip
WAYS = {
    "zeros": "memset(OUT, 0, (SIZE) * sizeof *OUT);",
    "lower precision": "right(ARGS); unsigned char* bytes = (unsigned char*)OUT;"
    " for (long i = 0; i < (SIZE); i++)"
    " if (sizeof *OUT == 4) { bytes[4 * i] = bytes[4 * i + 1] = 0; }"
    " else bytes[2 * i] &= 0xf0;",
    "hard-coded shape": "N = SMALLEST; right(ARGS);",
    "state between calls": "static void* kept; static long has; long now = (SIZE) * sizeof *OUT;"
    " if (!kept) { right(ARGS); kept = malloc(has = now); memcpy(kept, OUT, has); }"
    " else memcpy(OUT, kept, now < has ? now : has);",
    "trailing part": "right(ARGS); memset(OUT + (SIZE) - 3, 0, 3 * sizeof *OUT);",
}
"""What `solve` does, around the right kernel."""


@pytest.fixture(scope="module")
def imported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    form = request.param
    output = tmp_path_factory.mktemp(form) / form
    words = ["kernel", "import", form, str(SETS / form), "--output", str(output), "--json"]
    (row,) = json.loads(CliRunner().invoke(cli, words).stdout)["problems"]
    assert row["is_right"], row
    return Path(row["directory"])


def made_wrong(text: str, way: str, form: str) -> str:
    """A kernel that calls the right one, if at all."""
    found = re.search(r"void solve\((.*?)\) \{", text, re.DOTALL)
    assert found is not None
    given = [one.split() for one in found[1].split(",")]
    result = next(words[-1] for words in given if "const" not in words and "*" in "".join(words))
    body = WAYS[way].replace("ARGS", ", ".join(words[-1] for words in given))
    body = body.replace("OUT", result).replace("SIZE", FORMS[form])
    body = body.replace("SMALLEST", str(SMALLEST[form]))
    right = text.replace("void solve(", "static void right(")
    return f"#include <stdlib.h>\n#include <string.h>\n{right}\n{found[0]}\n{body}\n}}\n"


CASES = {f"{form}-{way}": (form, way) for form in FORMS for way in WAYS}
EACH = list(zip(FORMS, WAYS, strict=True))
"""Every form and every way once: the judge is the same behind every importer."""


@pytest.mark.parametrize(
    ("imported", "way"),
    [
        pytest.param(*case, id=name, marks=[pytest.mark.whole] * (case not in EACH))
        for name, case in CASES.items()
    ],
    indirect=["imported"],
)
def test_who_is_wrong_is_rejected(imported: Path, way: str) -> None:
    kernel = imported / "kernel.c"
    right = kernel.read_text()
    try:
        kernel.write_text(made_wrong(right, way, imported.parent.name))
        ran = CliRunner().invoke(cli, ["kernel", "check", str(imported), "--json"])
    finally:
        kernel.write_text(right)
    assert ran.exit_code == 1
    assert json.loads(ran.stdout)["outcome"] == "incorrect", ran.stdout[:500]

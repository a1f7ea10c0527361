"""What a change does beside its idea: dependencies, turns, blanks, and how large a repair is."""

from __future__ import annotations

import pytest
from worlds import world

from roofsmith.analysis.departures import of_sources
from roofsmith.domain.campaign import Campaign
from roofsmith.domain.kernel import BuildSpec, Candidate, SourceFile
from roofsmith.domain.target import KeepPolicy
from roofsmith.engine.loop import Engine
from roofsmith.engine.verify import verify
from roofsmith.testing.engine import fake_idea, fake_target


def candidate(*flags: str, **texts: str) -> Candidate:
    """Files by name, with `_` for the dot."""
    sources = tuple(
        SourceFile(path=name.replace("__", "/").replace("_", "."), text=text)
        for name, text in texts.items()
    )
    return Candidate(language="command", sources=sources, build=BuildSpec(flags=flags))


LOOP = "for (int i = 0; i < 100; i += 8) {\n"


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ({"a_c": "#include <math.h>\n"}, {"a_c": "#include <cblas.h>\n"}, "cblas.h"),
        ({"a_c": ""}, {"a_c": "#include <stdint.h>\n#include <immintrin.h>\n"}, None),
        ({"a_cu": ""}, {"a_cu": "#include <vector>\n#include <cuda_fp16.h>\n"}, None),
        ({"a_cu": ""}, {"a_cu": "#  include <cub/cub.cuh>\n"}, "cub/cub.cuh"),
        ({"a_py": "import torch\n"}, {"a_py": "import torch, sys\nfrom numba import x\n"}, "numba"),
        ({"a_py": ""}, {"a_py": "import math\nfrom .b import c\nimport b\n", "b_py": ""}, None),
        ({"Makefile": "cc a.c\n"}, {"Makefile": "cc a.c -lopenblas -O3\n"}, "openblas"),
        ({"CMakeLists_txt": ""}, {"CMakeLists_txt": "find_package(MKL REQUIRED)\n"}, "MKL"),
        ({"requirements_txt": "a==1\n"}, {"requirements_txt": "a==2\nnumexpr>=2\n"}, "numexpr"),
        ({"a_c": LOOP}, {"a_c": LOOP.replace("100", "10")}, "100 turns became 10"),
        ({"a_c": LOOP}, {"a_c": LOOP.replace("100", "200").replace("8", "4")}, None),
        ({"a_py": "for i in range(0, 64):\n"}, {"a_py": "for i in range(0, 32):\n"}, "64 turns"),
        ({"a_py": "N_ITERS = 50\n"}, {"a_py": "N_ITERS = 5\n"}, "50 turns became 5"),
        ({"a_py": "BLOCK = 64\n"}, {"a_py": "BLOCK = 32\n"}, None),
        ({"a_c": "int x;\n"}, {"a_c": "int  x;\n\n"}, "blanks and comments alone"),
        ({"a_c": "int x; // a\n"}, {"a_c": "int x; /* b\n*/\n"}, "blanks and comments alone"),
        ({"a_c": 'char *x = "//a";\n'}, {"a_c": 'char *x = "//b";\n'}, None),
        ({"a_c": "int x; // tune: T = 8\n"}, {"a_c": "int x; // tune: T = 4\n"}, None),
        ({"a_py": "x = 1  # a\n"}, {"a_py": "x = 1\n"}, "blanks and comments alone"),
        ({"a_py": "if x:\n  y\n  z\n"}, {"a_py": "if x:\n  y\nz\n"}, None),
        ({"a_py": "B = 64\nw(n=4)\n"}, {"a_py": "B = 32\nw(n=8)\n"}, "B 64 to 32, n 4 to 8"),
        ({"a_cu": "#define T 8\n"}, {"a_cu": "#define T 16\n"}, None),
        (
            {"a_cu": "#define T 8\n#define U 2\n"},
            {"a_cu": "#define T 4\n#define U 4\n"},
            "2 settings",
        ),
        ({"a_py": "x\n"}, {"a_py": "  x\n"}, None),
    ],
)
def test_what_is_told_of_a_change(
    before: dict[str, str], after: dict[str, str], said: str | None
) -> None:
    found = [*of_sources(candidate(**before), candidate(**after))]
    assert (found == []) if said is None else said in found[0]


def test_a_librarys_flag_is_a_dependency() -> None:
    found = [*of_sources(candidate("-O3", a_c=""), candidate("-O3", "-lmkl_rt", a_c=""))]
    assert found == ["the build begins to depend on mkl_rt"]


def judged(old: str, new: str, proposer: str = "fake", **policy: str) -> Campaign:
    """A campaign whose one idea, which it has as often as it is asked, adds that to its kernel."""
    policies = KeepPolicy.model_validate(policy)
    header = SourceFile(path="kernel.h", text="/* nothing */\n")
    file = SourceFile(path="kernel.c", text=fake_target().kernel.text + old)
    target = fake_target(keep=policies, kernel=file, includes=(header,))
    files = {
        "kernel.c": fake_target().kernel.text + new,
        "kernel.h": header.text * (1 + (proposer != "fake")),
    }
    sources = tuple(SourceFile(path=path, text=text) for path, text in files.items())
    changed = target.baseline.model_copy(update={"sources": sources})
    here = world(target=target)
    here.kernels.add(changed, time_s=0.5e-3)
    idea = fake_idea(target, "change").model_copy(update={"candidate": changed})
    here.ideas = [idea.model_copy(update={"proposer": proposer})] * 2
    campaign = Engine(here.parts(), "test").run()
    assert verify(here.records) == ()
    return campaign


@pytest.mark.rule("new-dependencies", "less-work-told", "several-settings")
@pytest.mark.parametrize("policy", ["told", "refused"])
@pytest.mark.parametrize(
    ("key", "reason", "old", "new", "said"),
    [
        ("new_dependencies", "new_dependency", "", "#include <cblas.h>\n", "cblas.h"),
        ("less_work", "less_work", LOOP, LOOP.replace("100", "50"), "100 turns became 50"),
        ("several_settings", "several_settings", "#define T 8\n#define U 2\n",
         "#define T 4\n#define U 4\n", "T 8 to 4, U 2 to 4"),
    ],
)  # fmt: skip
def test_a_target_may_keep_no_such_change(
    policy: str, key: str, reason: str, old: str, new: str, said: str
) -> None:
    campaign = judged(old, new, **{key: policy})
    assert len(campaign.rounds) == (policy == "told")
    refused = [one for one in campaign.refusals if one.reason == reason]
    assert [said in one.detail for one in refused] == [True] * len(refused)
    assert bool(refused) == (policy == "refused")


@pytest.mark.rule("unneeded-files")
@pytest.mark.parametrize(("proposer", "rounds"), [("model:m", 1), ("tell", 1)])
def test_files_that_an_idea_does_not_need_are_sent_back_once(proposer: str, rounds: int) -> None:
    campaign = judged("", "int x;\n", proposer)
    told = [one.detail for one in campaign.refusals if one.reason == "unneeded_file"]
    assert [one.partition(":")[0] for one in told] == ["kernel.h"] * (proposer != "tell")
    assert len(campaign.rounds) == rounds

"""Target files: what they may say, and that every mistake is named with its line."""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofsmith.analysis.family_guess import FAMILY_WORDS, guess_family
from roofsmith.analysis.flops import FAMILIES
from roofsmith.api.subjects import candidate_from
from roofsmith.domain.kernel import BuildSpec, Language, default_build
from roofsmith.domain.target import Target
from roofsmith.domain.workload import Workload
from roofsmith.errors import TargetError
from roofsmith.store.workload_text import parse_workload
from roofsmith.targets.file import load_target, load_target_file
from roofsmith.targets.init import init_target, write_target
from roofsmith.yaml_document import parse_yaml

KERNEL = "void solve(const float* x, float* y, int N, int D) { y[0] = x[0]; }\n"
REFERENCE = "def reference(x, y, N, D):\n    y[:] = x\n"

Write = Callable[[str], Path]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that needs quoting, with a kernel and a reference."""
    folder = tmp_path / "my \"kernels\" 'größer'"
    folder.mkdir()
    (folder / "softmax.c").write_text(KERNEL)
    (folder / "reference.py").write_text(REFERENCE)
    return folder


@pytest.fixture
def write(folder: Path) -> Write:
    def write(text: str) -> Path:
        path = folder / "target.yaml"
        path.write_text(textwrap.dedent(text))
        return path

    return write


BASE = "kernel: softmax.c\nreference: reference.py\nworkloads: [{N: 4, D: 8}]\n"


def refused(path: Path, **overrides: object) -> str:
    with pytest.raises(TargetError) as error:
        load_target(path, overrides=overrides)
    return str(error.value)


def test_a_whole_target(write: Write) -> None:
    target = load_target(
        write(
            """\
            name: softmax-rows
            kernel: softmax.c
            reference: reference.py
            family: softmax
            threads: 2
            workloads:
              - {N: 4096, D: 4096, class: large}
              - dims: {N: 16, D: 8}
                class: small
              - N=1000000000000,D=1
            build:
              compiler: gcc
              flags: -O2 -DNAME="a b"
              link: [-lm, -lpthread]
              environment: {OMP_NUM_THREADS: 2}
            tolerance: {atol: 1e-5}
            goal: {speedup: 3}
            stop:
              max_iterations: 7
            notes: Keep fp32 accuracy.
            """
        )
    )
    assert target.notes == "Keep fp32 accuracy."
    assert target.name == "softmax-rows"
    assert (target.language, target.family, target.threads) == ("c", "softmax", 2)
    assert (target.kernel.path, target.kernel.text) == ("softmax.c", KERNEL)
    assert (target.truth.path, target.truth.text) == ("reference.py", REFERENCE)
    assert [w.label for w in target.workloads] == [
        "N=4096,D=4096",
        "N=16,D=8",
        "N=1000000000000,D=1",
    ]
    assert [w.config_class for w in target.workloads] == ["large", "small", None]
    assert target.build == BuildSpec(
        compiler="gcc",
        flags=("-O2", "-DNAME=a b"),
        link=("-lm", "-lpthread"),
        environment={"OMP_NUM_THREADS": "2"},
    )
    assert target.tolerance.atol == 1e-5
    assert (target.goal.speedup, target.stop.max_iterations) == (3, 7)


def test_a_directory_means_its_target(write: Write, folder: Path) -> None:
    write(BASE)
    loaded = load_target_file(folder)
    assert loaded.kernel_path == folder / "softmax.c"
    assert loaded.target.name == "my-kernels-gr-er"


def test_paths_are_relative_to_the_file(
    write: Write, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(BASE)
    monkeypatch.chdir(tmp_path)
    assert load_target(Path(folder.name)).kernel.text == KERNEL
    assert load_target_file(Path(folder.name)).kernel_path == folder / "softmax.c"


def test_a_family_is_called_the_same_everywhere(write: Write) -> None:
    assert load_target(write(BASE + "family: LayerNorm\n")).family == "layernorm"
    assert load_target(write(BASE), overrides={"family": "Softmax"}).family == "softmax"


def test_families_that_are_guessed_are_families() -> None:
    assert set(FAMILY_WORDS) <= set(FAMILIES)


def test_empty_keys_mean_the_default(write: Write) -> None:
    target = load_target(
        write(BASE + "threads:\nfamily:\nstop:\ngoal: {speedup: }\nbuild: {flags: }")
    )
    assert target == load_target(write(BASE))


@pytest.mark.rule("no-guessed-target", "most-rounds")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("worklods: []", "target.yaml:4: unknown key 'worklods' (did you mean 'workloads'?)"),
        ("stop:\n  max_iteration: 3", "target.yaml:5: unknown key 'max_iteration' (did you mean"),
        ("family: bogus",
         "target.yaml:4: family: no operator family is called 'bogus' (known: attention, conv2d,"),
        ("colour: red", "target.yaml:4: unknown key 'colour' (known: name, kernel, reference,"),
        ("goal: {roofline_fraction: 5}",
         "target.yaml:4: goal.roofline_fraction must be less than or equal to 1, found 5"),
        ("threads: -1", "target.yaml:4: threads must be greater than or equal to 1, found -1"),
        ("stop: 3", "target.yaml:4: stop must be a mapping such as `key: value`, found 3"),
        ("stop: {max_iterations: 120}", "target.yaml:4: stop.max_iterations must be less than 120"),
        ("language: fortran",
         "target.yaml:4: language must be 'c', 'cpp', 'cuda', 'hip', 'triton', 'torch', 'cutedsl'"),
        ("name: 'a b'", "target.yaml:4: name"),
        ("build: {flags: \"-D'x\"}", "target.yaml:4: build.flags: No closing quotation"),
        ("build: {compiler: icc}",
         "target.yaml:4: build.compiler must be 'auto', 'gcc', 'clang', 'nvcc' or 'hipcc'"),
        ("kernel: other.c", "target.yaml:4: key 'kernel' is on line 1 already"),
        ("stop: {a: {b: [1, ]", "target.yaml:5: not YAML: "),
        ("[a]: 3", "target.yaml:4: a key must be text"),
        ("threads: " + "9" * 5000, "target.yaml:4: not a number that can be used"),
        ("- 3", "target.yaml:4: not YAML: "),
        ("name: \x07", "target.yaml: not YAML: "),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_line(write: Write, text: str, message: str) -> None:
    assert message in refused(write(BASE + text + "\n"))


@pytest.mark.parametrize(
    ("workloads", "message"),
    [
        ("[]", "target.yaml:3: workloads is empty; at least one is needed"),
        ("[{}]", "target.yaml:3: workloads[0]: a workload needs at least one"),
        ("3", "target.yaml:3: workloads must be a valid tuple"),
        ("[3]",
         "target.yaml:3: workloads[0] must be a mapping such as {N: 4096, D: 4096}, found 3"),
        ("\n  - {N: 4, D: 8}\n  - N: 3\n    D: 0",
         "target.yaml:5: workloads[1]: dimension D=0 must be at least 1"),
        ("\n  - {N: 4, D: 8}\n  - N: 3\n    D: x",
         "target.yaml:6: workloads[1].D must be a valid int"),
        ("[{N: true}]", "target.yaml:3: workloads[0].N must be a valid integer"),
        ("[{N: -4}]", "dimension N=-4 must be at least 1"),
        ("[{a b: 4}]", "dimension name 'a b' is not an identifier"),
        ("[{N: 9223372036854775808}]",
         "target.yaml:3: dimension N=9223372036854775808 doesn't fit"),
        ("[{dims: {N: 3}, clas: x}]", "target.yaml:3: unknown key 'clas' (did you mean 'class'?)"),
        ("\n  - N=3\n  - N=0", "target.yaml:5: workload 'N=0': dimension N=0 must be at least 1"),
        ("[{N: 3}, {N: 3}]", "target.yaml: workload given twice: N=3"),
        ("[{N: 3}, {D: 3}]", "target.yaml: workloads must all have the same dimension names"),
    ],
)  # fmt: skip
def test_a_wrong_workload(write: Write, workloads: str, message: str) -> None:
    path = write(f"kernel: softmax.c\nreference: reference.py\nworkloads: {workloads}\n")
    assert message in refused(path)


def test_words_that_yaml_takes_for_something_else(write: Write) -> None:
    """`on`, `no` and dates are names like any other."""
    path = write(
        "name: no\nkernel: softmax.c\nreference: reference.py\n"
        "workloads: [{on: 4, class: 2024-01-01}]\n"
    )
    target = load_target(path)
    assert target.name == "no"
    assert target.workloads[0] == Workload(dims={"on": 4}, config_class="2024-01-01")


@pytest.mark.rule("no-guessed-target")
def test_missing_keys_are_all_named(write: Write) -> None:
    message = refused(write("name: x\n"))
    for key in ("kernel", "reference", "workloads"):
        assert f"target.yaml: {key} is missing" in message
    assert "kernel is missing" in refused(write("# only a comment\nname: x\n"))


@pytest.mark.slow
def test_aliases_do_not_blow_up(write: Write) -> None:
    bomb = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9)
    )
    assert "too deeply nested" in refused(write(bomb))
    assert "too deeply nested" in refused(write("a: &a [*a]\n"))
    for levels in (5000, 100_000):
        assert "nested" in refused(write("a: " + "[" * levels + "]" * levels))


@pytest.mark.rule("goals")
@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ('"> 500 TFLOPS"', "tflops", 500.0),
        ("2000 GB/s", "gbs", 2000.0),
        ('"> 60% of peak"', "roofline_fraction", 0.6),
        ("1.5x", "speedup", 1.5),
        ("none", "roofline_fraction", None),
        ("{roofline_fraction: null}", "roofline_fraction", None),
    ],
)
def test_goals_as_people_write_them(write: Write, text: str, key: str, value: object) -> None:
    path = write(f"{BASE}goal: {text}\n")
    assert getattr(load_target(path).goal, key) == value


@pytest.mark.parametrize("text", ["fast", "0 TFLOPS", "500% of peak", "> 3 roses"])
def test_a_goal_that_is_none_is_refused(write: Write, text: str) -> None:
    path = write(f"{BASE}goal: '{text}'\n")
    assert "goal" in refused(path)


def test_null_is_no_limit_of_rounds(write: Write) -> None:
    stop = "stop: {max_iterations: null, max_consecutive_regressions: null, fixed_iterations: true}"
    target = load_target(write(f"{BASE}{stop}\n"))
    assert (target.stop.max_iterations, target.stop.max_consecutive_regressions) == (None, None)
    assert target.stop.fixed_iterations


def test_overrides(write: Write) -> None:
    path = write(BASE + "stop: {max_iterations: 3}\n")
    target = load_target(
        path,
        overrides={
            "stop.max_iterations": 9,
            "goal.speedup": 2.0,
            "threads": None,
            "workloads": [Workload(dims={"N": 1})],
            "build.flags": ("-O1",),
        },
    )
    assert (target.stop.max_iterations, target.goal.speedup, target.threads) == (9, 2.0, None)
    assert target.workloads[0].label == "N=1"
    assert target.build.flags == ("-O1",)
    assert "threads must be" in refused(path, threads=0)
    assert load_target(path).stop.max_iterations == 3


@pytest.mark.parametrize(
    ("key", "content", "message"),
    [
        ("kernel", None, "target.yaml:1: kernel "),
        ("kernel", b"", "softmax.c is empty"),
        ("kernel", b" \n", "softmax.c is empty"),
        ("kernel", b"int a;\n// caf\xe9\n", "softmax.c:2: not UTF-8: byte 0xe9"),
        ("kernel", b"\x7fELF\0\0", "softmax.c is not a text file: it holds zero bytes"),
        ("kernel", b"x" * (2**20 + 1), "has 1,048,577 bytes; at most 1,048,576 are accepted"),
        ("reference", None, "target.yaml:2: reference "),
        ("reference", b"# caf\xe9", "target.yaml:2: reference "),
        ("target", b"\xff", "target.yaml:1: not UTF-8"),
        ("target", b"#" * (2**18 + 1), "has 262,145 bytes"),
        ("target", b"", "target.yaml is empty"),
    ],
)
def test_files_that_cannot_be_used(
    write: Write, folder: Path, key: str, content: bytes | None, message: str
) -> None:
    path = write(BASE)
    file = {"kernel": folder / "softmax.c", "reference": folder / "reference.py"}.get(key, path)
    if content is None:
        file.rename(file.with_name(f"x{file.name}"))
        message = f"{message}{file} doesn't exist (did you mean 'x{file.name}'?)"
    else:
        file.write_bytes(content)
    assert message in refused(path)


def test_things_that_are_no_files(write: Write, folder: Path) -> None:
    (folder / "dir.c").mkdir()
    os.mkfifo(folder / "pipe.c")
    text = BASE.replace("softmax.c", "{}")
    assert "dir.c is a directory" in refused(write(text.replace("{}", "dir.c")))
    assert "pipe.c" in refused(write(text.replace("{}", "pipe.c")))
    assert "doesn't exist" in refused(write(text.replace("{}", '"a\\0b.c"')))
    assert "doesn't exist" in refused(write(text.replace("{}", "softmax.c/x.c")))


def test_line_ends_are_kept(write: Write, folder: Path) -> None:
    (folder / "softmax.c").write_bytes(b"int a;\r\nint b;\n")
    assert load_target(write(BASE)).kernel.text == "int a;\r\nint b;\n"


def test_languages(write: Write, folder: Path) -> None:
    (folder / "k.cpp").write_text(KERNEL)
    (folder / "k.f90").write_text(KERNEL)
    assert load_target(write(BASE.replace("softmax.c", "k.cpp"))).language == "cpp"
    message = refused(write(BASE.replace("softmax.c", "k.f90")))
    assert "target.yaml:1: kernel" in message
    assert "'.f90'" in message
    assert "language: c" in message
    assert load_target(write(BASE.replace("softmax.c", "k.f90") + "language: c")).language == "c"


def test_includes_keep_their_places(write: Write, folder: Path) -> None:
    for path in ("src/k.c", "src/local.h", "include/shared.h"):
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(f"/* {path} */\n")
    text = BASE.replace("softmax.c", "src/k.c")
    beside = load_target(write(text + "includes: src/local.h"))
    assert [s.path for s in beside.baseline.sources] == ["k.c", "local.h"]
    apart = load_target(write(text + "includes: [src/local.h, src/../include/shared.h]"))
    assert [s.path for s in apart.baseline.sources] == [
        "src/k.c",
        "src/local.h",
        "include/shared.h",
    ]
    assert apart.baseline.kernel.text == "/* src/k.c */\n"
    message = refused(write(text + "includes:\n  - src/local.h\n  - nope.h"))
    assert "target.yaml:6: include" in message
    assert "is named twice" in refused(write(text + "includes: [src/./k.c]"))


@pytest.mark.parametrize(
    ("name", "text", "language"),
    [
        ("k.c", "x", "c"),
        ("k.cu", "x", "cuda"),
        ("k.hip", "x", "hip"),
        ("k.py", "import triton.language as tl\n", "triton"),
        ("k.py", "def f():\n    from triton import jit\n", "triton"),
        ("k.py", "import torch  # import triton\n", "torch"),
    ],
)
def test_the_language_is_the_suffix_and_what_a_module_imports(
    folder: Path, write: Write, name: str, text: str, language: Language
) -> None:
    (folder / name).write_text(text)
    lines = ["workloads: [{N: 1}]", "reference: reference.py", f"kernel: {name}"]
    target = load_target(write("\n".join(lines)))
    assert target.language == language
    assert target.build == default_build(language)


def test_what_the_build_leaves_out_is_the_languages_default(folder: Path, write: Write) -> None:
    (folder / "k.cu").write_text("x")
    lines = ["workloads: [{N: 1}]", "reference: reference.py", "kernel: k.cu"]
    target = load_target(write("\n".join([*lines, "build: {link: [-lcublas]}"])))
    assert target.build.flags == default_build("cuda").flags
    assert target.build.link == ("-lcublas",)


@pytest.mark.parametrize("name", ["k.c", "k.cu", "k.py"])
def test_a_kernel_is_not_a_target(folder: Path, name: str) -> None:
    message = refused(folder / name)
    assert "a target (.yaml)" in message
    assert "try: `roofsmith init " in message


def test_no_target(folder: Path) -> None:
    assert "no target.yaml in" in refused(folder)
    assert "doesn't exist" in refused(folder / "nope.yaml")
    assert "roofsmith init" in refused(folder / "nope.yaml")


@settings(max_examples=200, deadline=None)
@given(text=st.text(alphabet=st.sampled_from("ab:-[]{}&*!|>'\"#%@?,\n \t019.~"), max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        seen = [*parse_yaml(text, Path("x.yaml"), TargetError, start_from="").lines.values(), 1]
    except TargetError as error:
        found = re.match(r"x\.yaml:?(\d*)", error.message)
        seen = [int(found[1] or 1)] if found else []
    assert seen
    assert all(1 <= line <= text.count("\n") + 1 for line in seen)


@pytest.mark.parametrize(
    ("text", "dims", "config_class"),
    [
        ("N=4096,D=4096", {"N": 4096, "D": 4096}, None),
        (" N = 1 , batch_size=+2 ", {"N": 1, "batch_size": 2}, None),
        ("N=1000000000000", {"N": 10**12}, None),
        ("N=9223372036854775807,class=huge ones", {"N": 2**63 - 1}, "huge ones"),
    ],
)
def test_workloads_as_text(text: str, dims: dict[str, int], config_class: str | None) -> None:
    workload = parse_workload(text)
    assert (workload.dims, workload.config_class) == (dims, config_class)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "'' is not name=size"),
        ("N=1,", "'' is not name=size"),
        ("N=0", "dimension N=0 must be at least 1"),
        ("N=1_000", "N=1_000 is not a whole number"),
        ("N=٣", "N=٣ is not a whole number"),
        ("N=1=2", "N=1=2 is not a whole number"),
        ("N=1,N=2", "N is given twice"),
        ("class=a,N=1,class=b", "class is given twice"),
        ("class=a", "at least one dimension"),
        ("2N=3", "dimension name '2N' is not an identifier"),
        ("N=9223372036854775808", "doesn't fit in a 64-bit integer"),
        ("N=" + "9" * 5000, "is not a whole number"),
    ],
)
def test_wrong_workloads_as_text(text: str, why: str) -> None:
    with pytest.raises(TargetError, match=re.escape(why)) as error:
        parse_workload(text)
    assert "N=4096,D=4096" in (error.value.hint or "")


DIMENSION_NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,6}", fullmatch=True)


@given(st.dictionaries(DIMENSION_NAMES, st.integers(1, 2**63 - 1), min_size=1, max_size=4))
def test_labels_are_workloads_as_text(dims: dict[str, int]) -> None:
    named = {name: size for name, size in dims.items() if name != "class"}
    workload = Workload(dims=named or {"N": 1})
    assert parse_workload(workload.label) == workload


def test_init_round_trips(folder: Path) -> None:
    workloads = [parse_workload("N=4096,D=4096"), parse_workload("N=8,D=1000,class=short: 'rows'")]
    text = init_target(folder / "softmax.c", folder / "reference.py", workloads)
    path = write_target(folder, text)
    assert path == folder / "target.yaml"
    target = load_target(path)
    assert target == Target(
        name="softmax",
        language="c",
        kernel={"path": "softmax.c", "text": KERNEL},
        reference={"path": "reference.py", "text": REFERENCE},
        workloads=tuple(workloads),
        family="softmax",
    )
    assert re.search(r"^family: softmax +# a guess, from the name 'softmax'", text, re.MULTILINE)


def test_the_commented_defaults_are_the_defaults(folder: Path) -> None:
    text = init_target(folder / "softmax.c", folder / "reference.py", [parse_workload("N=4,D=8")])
    head, tail = text.split("remove a `#` to change one.\n")
    spelled = head + re.sub(r"^# ", "", tail, flags=re.MULTILINE)
    plain = load_target(write_target(folder / "plain.yaml", text))
    assert "max_iterations: 20" in spelled
    loaded = load_target(write_target(folder / "spelled.yaml", spelled))
    assert loaded == plain


@pytest.mark.parametrize("asking", ["#pragma omp parallel", '_Pragma("omp parallel for")'])
def test_init_with_everything_given(folder: Path, tmp_path: Path, asking: str) -> None:
    (folder / "odd: name #1.c").write_text(f"{asking}\n{KERNEL}")
    text = init_target(
        folder / "odd: name #1.c",
        folder / "reference.py",
        [parse_workload("N=4,D=8")],
        name="2024",
        family="norm",
        directory=tmp_path,
    )
    target = load_target(write_target(tmp_path / "new" / ".." / "t.yaml", text))
    assert (target.name, target.family) == ("2024", "norm")
    assert target.kernel.path == "odd: name #1.c"
    assert target.build.flags == ("-O3", "-march=native", "-fopenmp")
    assert "guess" not in text


@pytest.mark.parametrize(
    ("text", "size"),
    [("64K", 2**16), ("2ki", 2048), ("2**20", 2**20), ("10^3", 1000), ("1e6", 10**6),
     ("1.5E+3", 1500)],
)  # fmt: skip
def test_sizes_as_people_write_them(folder: Path, text: str, size: int) -> None:
    assert parse_workload(f"N={text}").dims == {"N": size}
    path = folder / "sizes.yaml"
    path.write_text(f"kernel: softmax.c\nreference: reference.py\nworkloads: [{{N: {text}}}]\n")
    assert load_target(path).workloads[0].dims == {"N": size}


@pytest.mark.parametrize("text", ["1.5", "1e-3", "1.25e1", "K", "64T", "2**", "2**999", "x"])
def test_sizes_that_are_none(text: str) -> None:
    with pytest.raises(TargetError, match="whole number"):
        parse_workload(f"N={text}")


def test_what_a_kernel_includes_from_beside_it_comes_along(folder: Path) -> None:
    texts = {
        "src/run.c": '#include "../common/a.h"\n#include <b.h>\n  # include "part.c"\n'
        '#include "secret.pem"\n#include "missing.h"\nvoid run(float *y) { }\n',
        "src/part.c": "\n",
        "common/a.h": '#include "b.h"\n#include "../src/run.c"\n',
        "common/b.h": "// twice\n",
        "src/secret.pem": "-\n",
        "more.h": "// by hand\n",
    }
    for name, text in texts.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    kernel = folder / "src" / "run.c"
    text = init_target(
        kernel, folder / "reference.py", [parse_workload("N=4")],
        entry="run", includes=[folder / "more.h", folder / "common" / "b.h"],
    )  # fmt: skip
    target = load_target(write_target(kernel.parent, text))
    names = ["src/run.c", "common/a.h", "src/part.c", "common/b.h"]
    assert [source.path for source in target.baseline.sources] == [*names, "more.h"]
    assert target.entry == "run"
    assert [source.path for source in candidate_from(kernel, None).sources] == names


def test_init_without_a_guess(folder: Path) -> None:
    (folder / "kernel.c").write_text(KERNEL)
    text = init_target(folder / "kernel.c", folder / "reference.py", [parse_workload("N=4,D=8")])
    assert "# family:" in text
    target = load_target(write_target(folder, text))
    assert (target.family, target.name) == (None, "my-kernels-gr-er")


def test_init_refuses_what_cannot_work(folder: Path) -> None:
    kernel, reference = folder / "softmax.c", folder / "reference.py"
    twice = [parse_workload("N=4"), parse_workload("N=4")]
    with pytest.raises(TargetError, match="doesn't exist"):
        init_target(folder / "nope.c", reference, twice[:1])
    (folder / "kernel.f90").write_text("end\n")
    with pytest.raises(TargetError, match=r"no language for the suffix '\.f90'"):
        init_target(folder / "kernel.f90", reference, twice[:1])
    with pytest.raises(TargetError, match="workload given twice"):
        init_target(kernel, reference, twice)
    with pytest.raises(TargetError, match="workloads"):
        init_target(kernel, reference, [])


def test_a_target_is_not_overwritten(folder: Path) -> None:
    path = write_target(folder / "t.yaml", "one")
    with pytest.raises(TargetError, match=r"t\.yaml exists already") as error:
        write_target(path, "two")
    assert "--force" in (error.value.hint or "")
    assert path.read_text() == "one"
    write_target(path, "two", force=True)
    assert path.read_text() == "two"


@pytest.mark.parametrize(
    ("names", "family"),
    [
        (["softmax_naive"], "softmax"),
        (["kernel", "multiHeadAttention"], "attention"),
        (["my_sgemm"], "gemm"),
        (["mm"], "gemm"),
        (["common"], None),
        (["kmeans"], None),
        (["row_mean"], "reduction"),
        (["LayerNorm"], "norm"),
        (["rms_norm"], "norm"),
        (["reduce_sum"], "reduction"),
        (["vector_add"], "elementwise"),
        (["solve", "kernel"], None),
        (["", "softmaxRows", "gemm"], "softmax"),
    ],
)
def test_family_guesses(names: list[str], family: str | None) -> None:
    guess = guess_family(names)
    assert (guess and guess[0]) == family


CUDA = "kernel: softmax.cu\nreference: reference.py\nworkloads: [{N: 4, D: 8}]\n"


def test_what_is_timed_on_a_gpu(write: Write, folder: Path) -> None:
    (folder / "softmax.cu").write_text(KERNEL)
    usual = load_target(write(CUDA))
    launched = load_target(write(CUDA + "timing: launch\n"))
    assert (usual.timing, launched.timing) == ("kernel", "launch")
    assert usual == load_target(write(CUDA + "timing: kernel\n"))
    assert usual.digest != launched.digest
    assert Target.model_validate_json(launched.model_dump_json()) == launched
    assert "target.yaml:4: timing must be 'kernel' or 'launch'" in refused(
        write(CUDA + "timing: wall\n")
    )


@pytest.mark.parametrize(("suffix", "language"), [("c", "c"), ("cpp", "cpp")])
def test_nothing_is_launched_on_a_processor(
    write: Write, folder: Path, suffix: str, language: str
) -> None:
    (folder / f"softmax.{suffix}").write_text(KERNEL)
    text = BASE.replace("softmax.c", f"softmax.{suffix}")
    assert load_target(write(text + "timing: kernel\n")).timing == "kernel"
    assert refused(write(text + "timing: launch\n")).startswith(
        f"{folder / 'target.yaml'}:4: timing: launch is for kernels on a GPU; {language} is"
    )


def test_init_offers_what_the_language_has(folder: Path) -> None:
    (folder / "softmax.cu").write_text(KERNEL)
    workloads = [parse_workload("N=4,D=8")]
    on_gpu = init_target(folder / "softmax.cu", folder / "reference.py", workloads)
    on_host = init_target(folder / "softmax.c", folder / "reference.py", workloads)
    assert "# timing: kernel" in on_gpu
    assert "# threads:" not in on_gpu
    assert "# threads:" in on_host
    assert "timing" not in on_host
    plain = load_target(write_target(folder / "plain.yaml", on_gpu))
    spelled = on_gpu.replace("# timing: kernel", "timing: kernel")
    assert load_target(write_target(folder / "spelled.yaml", spelled)) == plain


def test_tf32_is_for_gpus(write: Write, folder: Path) -> None:
    (folder / "softmax.cu").write_text(KERNEL)
    usual = load_target(write(CUDA))
    allowed = load_target(write(CUDA + "tf32: true\n"))
    assert (usual.tf32, allowed.tf32) == (False, True)
    assert usual.digest != allowed.digest
    assert Target.model_validate_json(allowed.model_dump_json()) == allowed
    assert not load_target(write(BASE + "tf32: false\n")).tf32
    assert "target.yaml:4: tf32: only GPUs have TF32" in refused(write(BASE + "tf32: true\n"))
    assert "target.yaml:4: tf32 must be a valid boolean" in refused(write(CUDA + "tf32: x\n"))


@pytest.mark.rule("measured-ceilings")
def test_floors_come_from_the_ceilings_that_the_target_names(write: Write) -> None:
    usual = load_target(write(BASE))
    printed = load_target(write(BASE + "ceilings: datasheet\n"))
    assert (usual.ceilings, printed.ceilings) == ("measured", "datasheet")
    wrong = refused(write(BASE + "ceilings: printed\n"))
    assert "target.yaml:4: ceilings must be 'measured' or 'datasheet', found 'printed'" in wrong

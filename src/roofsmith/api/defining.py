"""Makes a campaign of a sentence: what it says, what follows from it, what is missing."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import yaml

from roofsmith.analysis.family_guess import function_names, guess_family
from roofsmith.api.init_pytorch import PyTorchFile, initialize_pytorch, pytorch_file
from roofsmith.api.init_repository import RepositoryInit, initialize_repository
from roofsmith.api.subjects import target_text
from roofsmith.config import Settings
from roofsmith.domain.modes import FirstLanguage, KernelLanguage
from roofsmith.domain.options import Subject
from roofsmith.domain.target import BRANCH, HOST_LANGUAGES, Definition, StopPolicy, plain_name
from roofsmith.errors import TargetError, UnknownNameError, UsageError
from roofsmith.machine.plugged import vendors
from roofsmith.ports import Observer
from roofsmith.specs.wiki import Wiki
from roofsmith.specs.wiki_page import Page
from roofsmith.store.sources import LANGUAGES, language_of, read_text
from roofsmith.targets.file import load_text
from roofsmith.targets.init import write_target
from roofsmith.targets.place import FILE_NAME
from roofsmith.targets.sentence import Reading, Sentence, read_sentence, scale_of, table
from roofsmith.yaml_document import parse_yaml

USUAL_FOLDERS = {"gpu_wiki": "/tmp/gpu-wiki", "references": "/tmp/reference-projects"}
"""Where agents that follow gpu-kernel-optimizer keep them; taken where they are."""
REFERENCE_NAMES = ("ref.py", "reference.py")
SKILL_FOLDERS = ("skills", ".claude/skills", ".cursor/skills", "agent/skills")
"""Of a project, where agents look for them."""
_YAML_BLOCK = re.compile(r"^(?:---|```ya?ml) *\n(.*?)^(?:---|```) *$", re.MULTILINE | re.DOTALL)
_MODES = {
    "kernel": ("workspace", "its own files are copied and judged alone"),
    "pytorch": ("workspace", "a new kernel is written from scratch"),
    "repository": ("repo", "its own commands judge it; what the build takes may say otherwise"),
}
_SKILLS = {
    "kernel": "gpu-kernel-profile-optimizer",
    "pytorch": "gpu-kernel-baseline",
    "repository": "kernel-optimize",
    "target": "gpu-kernel-profile-optimizer",
}
"""The page for the phase that each begins with."""
_ASKS_WHY = re.compile(r"\bwhy\b|\bbottlenecks?\b|\broofline\b|\banaly[sz]e\b", re.IGNORECASE)
_GOALS = {
    "fraction": ("roofline_fraction", 1.0),
    "speedup": ("speedup", 1.0),
    "flops": ("tflops", 1e12),
    "bytes": ("gbs", 1e9),
    "time": ("metric", 1.0),
}
"""A target's key of each goal, and its unit. Rates and times are a repository's metric."""
_GIT = "git: what is kept is committed on a branch of its own; your branch stays as it is"


@dataclass(slots=True)
class Defined:
    """What a sentence comes to; nothing was written or run for it."""

    sentence: Sentence
    values: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    """The words that each was read from, or what it follows from."""
    missing: dict[str, str] = field(default_factory=dict)
    """What has to be said before there can be a target, and why."""
    unmet: list[str] = field(default_factory=list)
    """What was understood, and no campaign does."""
    kind: str = "kernel"
    """kernel, pytorch, repository or target."""

    def add(self, name: str, value: Any, source: str) -> None:
        """A value that is known."""
        self.values[name], self.sources[name] = value, source

    def read(self, name: str, shown_as: str | None = None) -> Any:
        """A value as it was read; None: the sentence doesn't say."""
        if (found := self.sentence.get(name)) is None:
            return None
        self.add(shown_as or name, found.value, f'"{found.words}"')
        return found.value

    def read_path(self, name: str) -> None:
        """A file or folder that has to be there, where it is named."""
        if (path := self.read(name)) is not None and not Path(path).expanduser().exists():
            self.missing[name] = f"{path} isn't there"

    @property
    def document(self) -> dict[str, Any]:
        """For programs."""
        known = {k: {"value": self.values[k], "from": v} for k, v in self.sources.items()}
        said = {name: f"{why}; say: {example(name)}" for name, why in self.missing.items()}
        return {
            "parameters": known, "missing": said, "cannot_be": self.unmet,
            "not_understood": list(self.sentence.not_understood),
        }  # fmt: skip

    @property
    def lines(self) -> list[str]:
        """For people: value and source by parameter, then what stands in the way."""
        shown, told = {k: _shown(self.values[k]) for k in self.sources}, self.document
        wide = min(40, max(map(len, shown.values()), default=0))
        return [
            *(f"{k:<18}  {shown[k]:<{wide}}  {source}" for k, source in self.sources.items()),
            *(f"missing: {name}: {why}" for name, why in told["missing"].items()),
            *(f"can't be: {one}" for one in self.unmet),
            *(f"not understood: {one!r}" for one in told["not_understood"]),
        ]


def example(name: str) -> str:
    """How a missing parameter may be said."""
    return str(table()["examples"].get(name, f"{name}: ..."))


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}: {one}" for key, one in value.items())
    return ", ".join(value) if isinstance(value, tuple) else str(value)


def define(text: str, settings: Settings) -> Defined:
    """Read a sentence, look up what it names, and say what is missing."""
    found = Defined(read_sentence(text))
    for name, said in found.sentence.said.items():
        if said and found.sentence.get(name) is None and name not in ("notes", "platform"):
            found.missing[name] = _several(said)
    path = _subject(found)
    _language(found, path)
    _platform(found, settings)
    _task(found, path)
    _goal(found)
    _limits(found)
    skill, why = _SKILLS[found.kind], f"a {found.kind} is named"
    if asked := _ASKS_WHY.search(text):
        skill, why = "gpu-kernel-bottleneck-analysis", f'"{asked[0]}"'
    found.add("skill", skill, why)
    return found


def _subject(found: Defined) -> Path:
    said, project = found.sentence.get("kernel"), found.sentence.get("project")
    path, name = pytorch_file("" if said is None else str(said.value))
    if project is not None:
        is_here = Path.cwd().name == project.value
        folder = Path() if is_here else Path(project.value).expanduser()
        if not folder.is_dir():
            found.missing["project"] = f"there is no folder {folder} here"
        if said is None or (folder / ".git").exists():
            found.kind = "repository"
            found.add("project", str(folder), f'"{project.words}"')
        path = path if said is None or path.exists() else folder / path
    if said is None:
        if found.kind == "kernel":
            found.missing.setdefault("kernel", "no file is named that is to be optimized")
        return path
    found.add("kernel", f"{path}:{name}" if name else str(path), f'"{said.words}"')
    if not path.is_file():
        found.missing["kernel"] = f"{path} isn't there"
    elif found.kind == "kernel" and path.suffix in (".yaml", ".yml"):
        found.kind = "target"
    elif found.kind == "kernel" and path.suffix == ".py":
        is_kernel = not name and "def run_kernel" in read_text(path, "kernel")
        found.kind = "kernel" if is_kernel else "pytorch"
    return path


def _language(found: Defined, path: Path) -> None:
    own = None
    if found.kind == "kernel" and path.suffix in LANGUAGES:
        text = read_text(path, "kernel") if path.is_file() else ""
        own = language_of(path, text).upper() if text or path.suffix != ".py" else None
    if (backend := found.read("framework", "target_backend") or own) is None:
        if found.kind in ("kernel", "pytorch"):
            found.missing.setdefault("framework", "no language is named, and no kernel says it")
        return
    found.sources.setdefault("target_backend", path.name)
    found.values["target_backend"] = backend
    found.add("target_lang", "HIP" if backend in ("CK", "HIPBLASLT") else backend, backend)
    allowed = {"pytorch": get_args(FirstLanguage), "kernel": get_args(KernelLanguage)}
    if own not in (None, backend):
        found.missing["framework"] = f"{path} is in {own}, and kernels aren't translated"
    elif backend.lower() not in allowed.get(found.kind, (backend.lower(),)):
        alone = f"kernels in {backend} are optimized in a repository alone"
        if backend.lower() in get_args(KernelLanguage):
            alone = f"no first kernel is written in {backend}: name a kernel that is in it"
        found.missing["framework"] = alone


def _platform(found: Defined, settings: Settings) -> None:
    on_gpu = str(found.values.get("target_lang", "")).lower() not in HOST_LANGUAGES
    if not (said := found.sentence.said.get("platform", [])):
        if found.kind != "target" and on_gpu:
            found.missing.setdefault("platform", "no GPU is named")
        return
    if found.read("platform") == "here":
        return
    wiki = Wiki.load(settings.own_pages(), settings.gpu_wiki)
    try:
        named = [(_named(wiki, one.value), one) for one in said if one.value != "here"]
    except UnknownNameError as error:
        found.missing["platform"] = f"{error.message}; {error.hint}"
        return
    # A product beside its architecture is one thing, said twice.
    pages, narrowest = min(named, key=lambda one: len(one[0]))
    if len(named) < len(said) or any(page not in those for those, _ in named for page in pages):
        found.missing["platform"] = _several(said)
        return
    wanted, (first, *others) = str(narrowest.value), pages
    found.add("platform", wanted, f'"{narrowest.words}"')
    where = f"all that {wanted} names" if others else first.origin
    found.values["platform"] = wanted if others else first.product
    for name, key in (("target_gpu", "compiler_arch"), ("arch", "arch")):
        if {getattr(page, key) for page in (first, *others)} == {value := getattr(first, key)}:
            found.add(name, value, where)


def _named(wiki: Wiki, name: str) -> tuple[Page, ...]:
    """The products of an architecture, or those that are called so."""
    folded = _folded(name)
    called = (p for p in wiki.pages if folded in (_folded(p.arch), _folded(p.compiler_arch)))
    return tuple(called) or wiki.called(name)


def _several(said: Sequence[Reading]) -> str:
    return "said in several ways: " + ", ".join(f'{one.value} ("{one.words}")' for one in said)


def _folded(name: str | None) -> str:
    return re.sub("[_ ]", "", str(name).lower())


def _task(found: Defined, path: Path) -> None:
    if found.read("op", "target_op") is None and path.stem:
        text = read_text(path, "kernel") if path.is_file() and path.suffix in LANGUAGES else ""
        names = [path.stem, *function_names(text), path.absolute().parent.name]
        family, own = guess_family(names), plain_name(path.stem)
        found.add("target_op", *(family or (own, path.name)))
    if found.kind == "kernel":
        _reference(found, path)
    if found.kind == "pytorch":
        found.read("workloads", "target_shapes")
    if found.kind == "repository":
        for name in ("editable", "test", "benchmark", "build"):
            found.read(name)
        _project_skill(found)
        if "editable" not in found.values and "kernel" in found.values:
            inside = os.path.relpath(path, found.values["project"])
            found.add("editable", inside, "the kernel")
        for name in sorted({"editable", "benchmark"} - found.values.keys()):
            found.missing[name] = "a repository says neither what may change nor how it is measured"
    if (usual := _MODES.get(found.kind)) is not None:
        found.add("execution_mode", *usual)
        found.values["execution_reason"] = usual[1]
        mode = found.sentence.get("mode")
        if found.kind == "repository" and mode is not None:
            found.read("mode", "execution_mode")
            found.values["execution_reason"] = found.sources["execution_mode"]
        elif mode is not None and mode.value != usual[0]:
            found.unmet.append(f"{mode.value} mode: it is {usual[0]}, since {usual[1]}")
    for name, shown in (("skill", "project_skill"), ("metric", "primary_metric")):
        found.read(name, shown)
    metric = str(found.values.get("primary_metric", ""))
    if metric and (found.kind != "kernel" or not re.search("latency|runtime|time|only", metric)):
        found.unmet.append(f"{metric}: time decides on a kernel, a column of a repository's table")
    found.read("shapes", "target_shapes")
    if notes := found.sentence.said.get("notes"):
        found.add("notes", "; ".join(one.value for one in notes), "in its own words")


def _project_skill(found: Defined) -> None:
    """What the project's own page says in its front matter or a block of YAML, where the sentence
    doesn't: shown with its place before anything of it is run."""
    said = found.sentence.get("skill")
    if said is None:
        return
    folder = Path(found.values.get("project", ""))
    places = (folder / one / str(said.value) / "SKILL.md" for one in SKILL_FOLDERS)
    page = next((path for path in (Path(said.value), *places) if path.is_file()), None)
    if page is None:
        found.unmet.append(f"the skill {said.value}: neither a file nor in {folder}'s skills")
        return
    for block in _YAML_BLOCK.findall(read_text(page, "skill")):
        try:
            told = parse_yaml(block, page, TargetError, start_from="docs/define.md").data
        except TargetError:
            continue
        for name in ("editable", "test", "benchmark", "build"):
            if name not in found.values and isinstance(told.get(name), str):
                found.add(name, told[name], str(page))


def _reference(found: Defined, kernel: Path) -> None:
    found.read_path("reference")
    beside = [path for name in REFERENCE_NAMES if (path := kernel.parent / name).is_file()]
    if "reference" not in found.values:
        if beside and kernel.is_file():
            found.add("reference", str(beside[0]), "lies beside the kernel")
        else:
            found.missing["reference"] = "none is named, nor beside the kernel"
    if found.read("workloads", "target_shapes") is None:
        sizes = _setup_sizes(kernel) or _setup_sizes(Path(found.values.get("reference", "")))
        if sizes:
            found.add("target_shapes", (sizes,), "setup()'s own defaults")
        else:
            found.missing["workloads"] = "no sizes are named, and no setup() has defaults"


def _setup_sizes(path: Path) -> str:
    """`N=1024` of `def setup(N=1024, seed=42, **kwargs)`."""
    text = read_text(path, "setup") if path.suffix == ".py" and path.is_file() else ""
    given = re.search(r"^def setup\(([^)]*)\)", text, re.MULTILINE)
    usual = r"(\w+)\s*(?::[^,=]+)?=\s*(\d[\d_]*)\s*(?=,|$)"
    sizes = re.findall(usual, given[1] if given else "")
    return ",".join(f"{k}={v.replace('_', '')}" for k, v in sizes if k != "seed")


def _goal(found: Defined) -> None:
    said = {key: one for key in _GOALS if (one := found.sentence.get(f"goal_{key}"))}
    goal: dict[str, Any] = {}
    for key, one in said.items():
        name, unit = _GOALS[key]
        if key in ("flops", "bytes", "time") and found.kind == "repository":
            found.values["metric_goal"] = (key, one.value)
            goal["metric"] = one.words
        elif key == "time":
            found.unmet.append(f"{one.words}: a rate, a share of the roofline or a speedup ends it")
        else:
            goal[name] = one.value / unit
    if none := found.sentence.get("goal_none"):
        said, goal = said | {"none": none}, {"roofline_fraction": None} | goal
    found.values["goal"] = goal
    if said:
        words = found.values["performance_target"] = "; ".join(one.words for one in said.values())
        found.add("goal", goal, f'"{words}"')


def _limits(found: Defined) -> None:
    found.add("max_iterations", StopPolicy().max_iterations, "default")
    rounds = found.read("iterations", "max_iterations")
    if isinstance(rounds, int) and rounds >= 120:
        found.missing["iterations"] = "a limit is below 120"
    if (fixed := found.read("exactly", "fixed_iterations")) and not isinstance(rounds, int):
        found.missing.setdefault("iterations", "exactly how many isn't said")
    if rounds == "forever" and found.values["goal"].get("roofline_fraction"):
        rounds = "none"  # --forever would drop the goal
    found.values["stop"] = {"fixed_iterations": True} if fixed else {}
    found.values["stop"] |= {"max_iterations": None} if rounds == "none" else {}
    found.values["rounds"] = rounds or StopPolicy().max_iterations
    found.add("git_commit", True, "default")
    found.add("git_branch", "auto", "default: optimize/<campaign>")
    commits, branch = found.read("commit", "git_commit"), found.read("branch", "git_branch")
    if commits is False or branch == "none":
        found.unmet.append(_GIT)
    if branch not in (None, "none", "auto"):
        found.values["branch"] = branch
        if re.fullmatch(BRANCH, branch) is None:
            found.missing["branch"] = f"git has no branches called {branch}"
    for name in ("budget_s", "proposer", "threads", "lock_clocks"):
        found.read(name)
    for name, usual in USUAL_FOLDERS.items():
        found.read_path(name)
        if name not in found.values and Path(usual).is_dir():
            found.add(name, usual, "default")
    v = found.values
    where = v.get("target_gpu", "gpu" if _is_on_gpu(v) else "cpu")
    parts = (v.get("target_op"), v.get("target_backend"), where)
    name = "_".join([*(str(p).lower() for p in parts if p), f"{datetime.now(UTC):%Y%m%d}"])
    found.add("output", f"campaigns/{plain_name(name)}", "<op>_<backend>_<gpu>_<date>")
    found.read("output")


def _is_on_gpu(values: dict[str, Any]) -> bool:
    if str(values.get("target_lang", "")).lower() in HOST_LANGUAGES:
        return False
    here = values.get("platform") == "here"
    return bool(vendors(Path("/")).present) if here else "platform" in values


def write_defined(found: Defined, settings: Settings, observer: Observer, *, force: bool) -> str:
    """Write the target; the command that starts its campaign.

    Raises:
        UsageError: something is missing.
        RoofsmithError: as `init` does.
    """
    if found.missing:
        hint = "nothing was written; say " + "; ".join(map(example, found.missing))
        raise UsageError(f"missing: {', '.join(found.missing)}", hint=hint)
    v = found.values
    path = pytorch_file(v["kernel"])[0] if "kernel" in v else Path()
    if found.kind == "target":
        own = [name for name in ("goal", "stop", "branch", "notes") if v.get(name)]
        found.unmet += [f"{name}: set it in {path}, which stays as it is" for name in own]
    else:
        path, text = _begun(found, path, settings, observer, force=force)
        data: dict[str, Any] = yaml.safe_load(text)
        text = yaml.safe_dump(data | _sections(found, data), sort_keys=False, allow_unicode=True)
        load_text(text, path)
        write_target(path, text, force=True)
    options = {f"--{key.replace('_', '-')}": v[key] for key in ("budget_s", "proposer") if key in v}
    rounds = ["--forever"] if v["rounds"] == "forever" else ["--iterations", str(v["rounds"])]
    words = [one for pair in options.items() for one in pair]
    return shlex.join([
        "roofsmith", "optimize", str(path), *rounds * (v["rounds"] != "none"),
        *(f"{one:g}" if isinstance(one, float) else one for one in words),
        *["--lock-clocks"] * v.get("lock_clocks", False), "--output", v["output"],
    ])  # fmt: skip


def _begun(
    found: Defined, file: Path, settings: Settings, observer: Observer, *, force: bool
) -> tuple[Path, str]:
    """The target as `init` begins it."""
    v, threads = found.values, found.values.get("threads")
    if found.kind == "kernel":
        subject = Subject(file, Path(v["reference"]), v["target_shapes"], threads=threads)
        text = target_text(subject)
        return write_target(file.parent / FILE_NAME, text, force=force), text
    if found.kind == "pytorch":
        name, language = pytorch_file(v["kernel"])[1], v["target_backend"].lower()
        sizes = v.get("target_shapes", ())
        model = PyTorchFile(file, name, language, workloads=sizes, threads=threads)
        path = initialize_pytorch(model, settings, observer, force=force).directory / FILE_NAME
    else:
        said = {key: v[key] for key in ("test", "benchmark", "build") if key in v}
        wanted = RepositoryInit(
            Path(v["project"]), said | {"editable": [v["editable"]]}, threads=threads,
            workspace=v["execution_mode"] == "workspace",
        )  # fmt: skip
        begun = initialize_repository(wanted, force, settings, observer)
        path, where = begun.path, begun.execution
        if found.sentence.get("mode") is None:
            v["execution_mode"], v["execution_reason"] = "repo", where.reason
            if where.mode == "workspace":
                found.unmet.append(f"repo mode is slow: {where.reason}; say: in workspace mode")
    return path, read_text(path, "target")


def _sections(found: Defined, data: dict[str, Any]) -> dict[str, Any]:
    v, goal = found.values, dict(found.values["goal"])
    if "metric_goal" in v:
        (what, value), unit = v["metric_goal"], (data.get("command") or {}).get("unit") or ""
        words = goal.pop("metric")
        if (scale := scale_of(unit)) is not None and scale[0] == what:
            goal["metric"] = float(f"{value / scale[1]:.9g}")
        else:
            found.unmet.append(f"{words}: the benchmark's metric is in {unit or 'no unit'}")
    asked = {key: v[key] for key in Definition.model_fields if v.get(key) not in (None, "here")}
    folders = {key: str(Path(v[key]).expanduser().absolute()) for key in USUAL_FOLDERS if key in v}
    added = {
        "definition": {"sentence": found.sentence.text} | asked,
        "goal": goal,
        "stop": v["stop"],
        "branch": v.get("branch"),
        "wiki": {"path": folders["gpu_wiki"]} if "gpu_wiki" in folders else None,
        "references": [folders["references"]] if "references" in folders else None,
        "notes": v.get("notes"),
    }
    return {key: value for key, value in added.items() if value}

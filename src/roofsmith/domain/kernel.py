"""A kernel's signature, its sources, and what a build makes of them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import Field, field_validator, model_validator

from roofsmith.domain.facts import DType
from roofsmith.domain.modes import DialectLanguage, KernelLanguage
from roofsmith.domain.values import Described, Value, content_id

Language = Literal[KernelLanguage, "command"]
"""What decides the toolchain and the kind of device. `command`: files of a repository, whatever
they are written in, that its own commands build and measure."""

_STREAMS = re.compile(
    r"stream|graph|compile|rnn|lstm|\bgru|linalg|thrust|cudnn|cusolver|magma|nccl|dlopen|ctypes",
    re.IGNORECASE,
)
"""What brings streams or graphs, by itself or inside: torch.compile's modes, cuDNN's recurrent
layers, what cuSOLVER and MAGMA do for torch.linalg, and whatever is loaded in another way."""
_EXTENSIONS = re.compile(r"\bcpp_extension\b")
"""PyTorch's way to build some."""
_TUNING = re.compile(r"tun(e|ing)|bench|elapsed|perf_counter|\bevent", re.IGNORECASE)
"""What variants are chosen by: autotuners, cuDNN's benchmark mode, and clocks and events of one's
own."""

_OPENMP = re.compile(
    r'^\s*#\s*(pragma\s+omp\b|include\s*<omp\.h>)|\b_Pragma\s*\(\s*"\s*omp\b', re.MULTILINE
)

_LANGUAGES: frozenset[str] = frozenset(get_args(Language))
MODULE_LANGUAGES: tuple[Language, ...] = ("triton", "torch", *get_args(DialectLanguage))
"""Languages whose kernels are Python modules: there is no library, the source is what runs."""
TRITON_LANGUAGES: tuple[Language, ...] = ("triton", "torch", "gluon")
"""Those in whose place a kernel in Triton may come."""


class Parameter(Value):
    """One parameter of `solve`."""

    name: str
    role: Literal["input", "output", "size"]
    """input: `const T*`; output: `T*`; size: a number by value, which is a size as a rule."""
    dtype: DType
    """Element type of the array, or the type of the number."""


class Signature(Value):
    """The parameters of `solve`, in order."""

    entry: str = "solve"
    parameters: tuple[Parameter, ...]

    @property
    def arrays(self) -> tuple[Parameter, ...]:
        """The pointer parameters, in order."""
        return tuple(p for p in self.parameters if p.role != "size")


class SourceFile(Value):
    """One file of a candidate."""

    path: str
    """Relative, with forward slashes, inside the candidate's folder."""
    text: str

    @field_validator("path")
    @classmethod
    def _stays_inside(cls, path: str) -> str:
        parts = path.split("/")
        if path.startswith("/") or ".." in parts or "" in parts or "\\" in path:
            raise ValueError(f"source path {path!r} must be relative and stay inside its folder")
        return path


class BuildSpec(Described):
    """How a candidate is built and under which environment variables it runs."""

    compiler: Literal["auto", "gcc", "clang", "nvcc", "hipcc"] = "auto"
    flags: tuple[str, ...] = ("-O3", "-march=native")
    """Everything but the output name, the architecture of a GPU, and `-shared -fPIC`, which the
    toolchain adds."""
    link: tuple[str, ...] = ("-lm",)
    environment: dict[str, str] = Field(default_factory=dict)
    """Such as OMP_NUM_THREADS; seen by the worker that runs the kernel."""

    def command_line(self, language: Language) -> str:
        """On one line, as it could be typed: `OMP_NUM_THREADS=2 gcc -O3 ... -lm`."""
        variables = [f"{key}={shlex.quote(text)}" for key, text in sorted(self.environment.items())]
        if language in MODULE_LANGUAGES:
            return " ".join([*variables, "compiled when it runs"])
        usual = {"cpp": "c++", "cuda": "nvcc", "hip": "hipcc"}.get(language, "cc")
        compiler = usual if self.compiler == "auto" else self.compiler
        words = [*variables, compiler, shlex.join([*self.flags, *self.link])]
        return " ".join(" ".join(words).split("\n")).strip()


def default_build(language: Language) -> BuildSpec:
    """How a kernel is built if nobody says otherwise.

    CUDA gets `-lineinfo`, which costs nothing at run time and lets profilers name source lines.
    Python modules are compiled when they run, so there is nothing to choose; the build command of a
    repository is frozen.
    """
    match language:
        case "c" | "cpp":
            return BuildSpec()
        case "cuda":
            return BuildSpec(flags=("-O3", "-lineinfo"), link=())
        case "hip":
            return BuildSpec(flags=("-O3",), link=())
        case _:
            return BuildSpec(flags=(), link=())


def with_openmp(build: BuildSpec, language: Language, text: str) -> BuildSpec:
    """The build, with OpenMP's flag where a C or C++ source asks for it."""
    asks = language in {"c", "cpp"} and _OPENMP.search(text) is not None
    if not asks or "-fopenmp" in build.flags:
        return build
    return build.model_copy(update={"flags": (*build.flags, "-fopenmp")})


def with_default_build(data: Any) -> Any:
    """Raw fields of a value with a language and a build; a build that is missing is filled in."""
    if not isinstance(data, dict) or "build" in data or data.get("language") not in _LANGUAGES:
        return data
    return {**data, "build": default_build(data["language"])}


def names_extensions(text: str) -> bool:
    """Whether a module says anything of extensions, which an import may build for minutes."""
    return _EXTENSIONS.search(text) is not None


class Candidate(Value):
    """A kernel version: source files and how to build them."""

    language: Language
    sources: tuple[SourceFile, ...] = Field(min_length=1)
    """The first one is the kernel file; it holds `solve`."""
    build: BuildSpec = BuildSpec()
    """By default what `default_build` says of the language."""
    entry: str = "solve"

    @model_validator(mode="before")
    @classmethod
    def _build_of_language(cls, data: Any) -> Any:
        return with_default_build(data)

    @property
    def id(self) -> str:
        """Content hash of sources and build."""
        return content_id(self)[:16]

    @property
    def kernel(self) -> SourceFile:
        """The file that holds `solve`."""
        return self.sources[0]

    @property
    def names_streams(self) -> bool:
        """Whether sources or flags say anything of streams or graphs, or of what makes some.

        A GPU kernel that doesn't, not even in a comment, runs on the stream that it is called on,
        one launch after another.
        """
        return self._says(_STREAMS)

    @property
    def names_tuning(self) -> bool:
        """Whether they say anything of measuring: the kernel may choose between variants."""
        return self._says(_TUNING)

    @property
    def names_extensions(self) -> bool:
        """Whether a source may build extensions when it is imported."""
        return any(names_extensions(source.text) for source in self.sources)

    def _says(self, words: re.Pattern[str]) -> bool:
        texts = (*(source.text for source in self.sources), *self.build.flags, *self.build.link)
        return any(map(words.search, texts))

    def with_kernel_text(self, text: str) -> Candidate:
        """The same candidate with another kernel file."""
        kernel = SourceFile(path=self.kernel.path, text=text)
        return self.model_copy(update={"sources": (kernel, *self.sources[1:])})

    def with_build(self, build: BuildSpec) -> Candidate:
        """The same sources, built otherwise."""
        return self.model_copy(update={"build": build})


class KernelResources(Value):
    """What one compiled GPU kernel takes of a multiprocessor; as the compiler says."""

    name: str
    """As the profiler prints it: demangled, without its parameters."""
    arch: str
    """Such as sm_90a or gfx942."""
    registers: int | None = None
    """Per thread (VGPRs on AMD)."""
    accumulation_registers: int | None = None
    """AMD's AGPRs per thread."""
    scalar_registers: int | None = None
    """AMD's SGPRs per wavefront."""
    shared_bytes: int | None = None
    """Per block, static (for Triton: all of it)."""
    stack_bytes: int | None = None
    spill_store_bytes: int | None = None
    spill_load_bytes: int | None = None
    spilled_registers: int | None = None
    """Where the compiler counts registers instead of bytes (HIP, Triton). Triton counts a thread's
    local memory in words of four bytes."""
    occupancy_warps: int | None = None
    """Most wavefronts per SIMD that registers and LDS allow (HIP); as the compiler says."""
    num_warps: int | None = None
    """Per block, where the compiler decides it (Triton)."""
    num_stages: int | None = None
    """Depth of software pipelining, where the compiler decides it (Triton)."""
    variant: str | None = None
    """Tells kernels apart that have the same name and launch options, but not the same resources
    (Triton, specialised for other constants): the beginning of the compiler's own hash."""


class Built(Value):
    """A candidate that compiled: a shared library on disk, or a Python module that was checked."""

    candidate_id: str
    language: Language = "c"
    library: Path
    """The shared library; for Triton and PyTorch, the module's file."""
    library_sha256: str
    """Hash of the library file when it left the toolchain."""
    signature: Signature
    environment: dict[str, str]
    """Environment variables for the worker, from the build spec."""
    candidate: Candidate | None = Field(default=None, repr=False)
    """What was compiled, for tools that need a build of their own; None where they can't have one.
    """
    command: str
    """The compiler's command line, as it could be typed again."""
    log: Path
    """Everything that the compiler printed."""
    warnings: tuple[str, ...] = ()
    """Of the compiler."""
    notes: tuple[str, ...] = ()
    """What the compiler can't do for this device, such as code for an architecture that it doesn't
    know yet."""
    resources: tuple[KernelResources, ...] = ()
    """Of every GPU kernel in it, where the compiler says so at build time; `Toolchain.resources`
    knows those of kernels that are compiled when they run."""
    build_time_s: float
    cached: bool = False
    canary: str | None = None
    """A random word that was compiled into the library, to prove that it was made just now."""
    names_streams: bool = True
    """As the candidate does; see there."""
    names_tuning: bool = True
    """Likewise."""
    names_extensions: bool = False
    """Likewise."""

"""Strategy cards: what a recipe is, what it sees, and what it answers.

A card is one change that a performance engineer would try: which bottleneck it answers, what it is
known to gain and where that is written, and code that turns the incumbent into the next candidate.
Cards live one per file in `roofsmith.proposers.recipes`, each as the module's `CARD`: those of C
and C++ in the package itself, those that write CUDA or Triton, and whole implementations of a
family, in packages of their own.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

from roofsmith.computation.graph import Graph
from roofsmith.computation.kinds import kind
from roofsmith.computation.read import computation_of
from roofsmith.domain.bound import Bound
from roofsmith.domain.category import Bucket, Category
from roofsmith.domain.description import WorkloadDescription
from roofsmith.domain.device import Device
from roofsmith.domain.facts import DType
from roofsmith.domain.kernel import BuildSpec, Candidate, Language, Signature
from roofsmith.domain.profile import Bottleneck, BottleneckKind, Profile
from roofsmith.domain.target import Target
from roofsmith.ports import Brief
from roofsmith.proposers import recipes
from roofsmith.proposers.accesses import FunctionAccesses
from roofsmith.proposers.edits import SourceEdit
from roofsmith.proposers.reading import SourceReading, read_kernel
from roofsmith.proposers.source import CFunction, Element, Source
from roofsmith.proposers.tidy import tidied


@dataclass(frozen=True)
class CardContext:
    """The incumbent and all that is known about it."""

    candidate: Candidate
    signature: Signature
    device: Device
    threads: int
    family: str | None
    dims: tuple[Mapping[str, int], ...]
    """Dimensions of every workload."""
    bounds: tuple[Bound, ...]
    descriptions: Mapping[str, WorkloadDescription]
    profile: Profile
    bottleneck: Bottleneck
    times_s: Mapping[str, float]
    """Time of the incumbent by workload label, where it was measured."""
    tf32: bool = False
    """Whether float32 products may be done in TF32."""
    target: Target | None = None
    """Whose reference says what is computed."""
    keeps_contract: bool = True
    """Whether the entry is a `solve`: arrays don't overlap, and have the shapes that are known."""

    @classmethod
    def of(cls, brief: Brief) -> CardContext:
        target = brief.campaign.started.target
        return cls(
            candidate=brief.incumbent,
            signature=brief.signature,
            device=brief.device,
            threads=brief.threads,
            family=target.family,
            dims=tuple(workload.dims for workload in target.workloads),
            bounds=brief.bounds,
            descriptions=brief.descriptions,
            profile=brief.profile,
            bottleneck=brief.bottleneck,
            times_s=brief.campaign.times_s,
            tf32=target.tf32,
            target=target,
        )

    @cached_property
    def _reading(self) -> SourceReading:
        kernel = self.candidate.kernel
        return read_kernel(kernel.text, self.candidate.language, self.signature.entry)

    @cached_property
    def graph(self) -> Graph | None:
        """What the reference computes, where that is certain."""
        if self.target is None or self.target.reference is None or not self.keeps_contract:
            return None
        computation = computation_of(self.target, self.signature)
        graph = computation.graph if computation.is_certain else None
        dims = computation.dims_by(self._numbers)
        return None if graph is None or dims is None else graph.made_of(dims)

    @property
    def _numbers(self) -> list[str]:
        return [p.name for p in self.signature.parameters if p.role == "size"]

    @property
    def extents(self) -> tuple[Mapping[str, int], ...]:
        """What the graph's sizes are made of, of every workload: dims, and numbers beside them."""
        if self.target is None:
            return self.dims
        computation = computation_of(self.target, self.signature)
        return tuple(
            {
                **computation.numbers,
                **dims,
                **{name: size.at({**computation.numbers, **dims})
                   for name, size in computation.sizes.items()},
            }
            for dims in self.dims
        )  # fmt: skip

    @cached_property
    def operator(self) -> str | None:
        """What kind of operator that is, of `computation.kinds`."""
        return None if self.graph is None else kind(self.graph)

    @property
    def source(self) -> Source:
        return self._reading.source

    @property
    def build(self) -> BuildSpec:
        return self.candidate.build

    @property
    def functions(self) -> tuple[CFunction, ...]:
        """`solve` and what it calls in the same file, less what cards inserted; `solve` first."""
        return self._reading.functions

    def accesses(self, function: CFunction) -> FunctionAccesses:
        """What one of the file's functions touches."""
        return self._reading.accesses(function)

    @property
    def dtype(self) -> DType:
        """Element type of the first output, which is what kernels here compute in."""
        arrays = self.signature.arrays
        outputs = [p for p in arrays if p.role == "output"] or list(arrays)
        return outputs[0].dtype if outputs else "float32"

    @property
    def real(self) -> Element:
        """`dtype` as C writes it."""
        return "double" if self.dtype == "float64" else "float"

    @property
    def openmp(self) -> tuple[str, ...]:
        """The flag that code with threads is built with; none where there is one thread."""
        return ("-fopenmp",) if self.threads > 1 else ()

    @property
    def lanes(self) -> int:
        """Elements of `dtype` in the widest vector register."""
        return max(1, self.device.vector_bytes // (8 if self.dtype == "float64" else 4))

    @property
    def roofline_fraction(self) -> float | None:
        """Floor time over measured time of the incumbent; None if the bound is UNKNOWN."""
        return self.bottleneck.roofline_fraction

    def with_text(self, text: str, *flags: str) -> Candidate:
        """The incumbent with another kernel file, and with `flags` where they are missing."""
        before, language = self.candidate.kernel.text, self.candidate.language
        if language in ("c", "cpp"):
            text = tidied(before, text, language)
        return self.candidate.with_kernel_text(text).with_build(add_flags(self.build, *flags))

    def changed(self, edits: Sequence[SourceEdit], statement: str, *flags: str) -> CardChange:
        return CardChange(self.with_text(self.source.edited(edits).text, *flags), statement)


def add_flags(build: BuildSpec, *flags: str) -> BuildSpec:
    """The build with `flags` appended, those it doesn't have yet."""
    new = tuple(flag for flag in flags if flag not in build.flags)
    return build.model_copy(update={"flags": (*build.flags, *new)})


@dataclass(frozen=True, slots=True)
class CardChange:
    """The next candidate, and in a sentence what was changed in this kernel."""

    candidate: Candidate
    statement: str
    """Such as "Run the loop over `i` in `solve` (line 12) on 2 threads"."""
    rationale: str = ""
    """Why it should help here; empty: the card's own."""


def unsaid(context: CardContext, predicted: float) -> None:
    """A card that predicts which way its counter goes, and not how far."""
    del context, predicted


@dataclass(frozen=True, slots=True)
class Card:
    id: str
    """Kebab-case, stable: it is the tactic's name in every record."""
    title: str
    category: Category
    answers: frozenset[BottleneckKind]
    """Bottlenecks that it relieves."""
    rationale: str
    """Why it works, in a sentence."""
    expected_counter: str
    """As profilers of the kernel's device call it."""
    expected_change: str
    """Begins with up or down."""
    source: str
    """Where the strategy is described: a book, a paper or a manual."""
    apply: Callable[[CardContext], CardChange | None]
    """None where it can't be applied, or was applied already."""
    predict: Callable[[CardContext], float]
    """Predicted speedup: a documented estimate from what is known, 1 for no gain."""
    families: frozenset[str] = frozenset()
    """Operator families it is for; empty: any."""
    languages: frozenset[Language] = frozenset(("c", "cpp"))
    bucket: Bucket = "K1"
    instruction: str | None = None
    """That the compiled kernel should hold, see `Hypothesis.expected_instruction`."""
    expects: Callable[[CardContext, float], float | None] = unsaid
    """The counter's value afterwards over that before, if the predicted speedup comes true; None:
    only its direction can be told."""

    def suits(self, context: CardContext) -> bool:
        """Whether family and language fit; whole implementations of a family are a `solve`."""
        other = self.families and context.family is not None and context.family not in self.families
        if self.families and not context.keeps_contract:
            return False
        return not other and context.candidate.language in self.languages


@cache
def all_cards() -> tuple[Card, ...]:
    """Every card in `roofsmith.proposers.recipes` and its packages, by id.

    Modules whose name starts with an underscore hold shared code, not a card.
    """
    modules = pkgutil.walk_packages(recipes.__path__, f"{recipes.__name__}.")
    cards = (
        importlib.import_module(module.name).CARD
        for module in modules
        if not module.ispkg and not module.name.rpartition(".")[2].startswith("_")
    )
    return tuple(sorted(cards, key=lambda card: card.id))

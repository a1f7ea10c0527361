"""Sorting in C: stable merges of short runs, of values or of their places; and selection."""

from __future__ import annotations

from dataclasses import dataclass

_BEFORE = "static inline bool before_{suffix}({kind} a, {kind} b) {{ return {test}; }}"
_SORT = """/* Sorted stably: runs by insertion, then merges from one memory to the other. */
static {moved} *{name}({moved} *row, {moved} *spare, ptrdiff_t n{parameter}) {{
    const ptrdiff_t run = 16;
    for (ptrdiff_t i = 0; i < n; i++) {{
        const {moved} one = row[i];
        ptrdiff_t j = i;
        for (; j > i / run * run && before_{suffix}({one}, {last}); j--) row[j] = row[j - 1];
        row[j] = one;
    }}
    for (ptrdiff_t width = run; width < n; width *= 2) {{
        for (ptrdiff_t start = 0; start < n; start += 2 * width) {{
            const ptrdiff_t middle = n - start < width ? n : start + width;
            const ptrdiff_t end = n - middle < width ? n : middle + width;
            ptrdiff_t i = start, j = middle, k = start;
            while (i < middle && j < end)
                spare[k++] = before_{suffix}({right}, {left}) ? row[j++] : row[i++];
            while (i < middle) spare[k++] = row[i++];
            while (j < end) spare[k++] = row[j++];
        }}
        {moved} *const other = row;
        row = spare;
        spare = other;
    }}
    return row;
}}"""
_SELECT = """/* The value at a place among sorted ones, put there by Hoare's selection. */
static {kind} {name}({kind} *row, ptrdiff_t n, ptrdiff_t place) {{
    ptrdiff_t low = 0, high = n - 1;
    while (low < high) {{
        const {kind} a = row[low], b = row[low + (high - low) / 2], c = row[high];
        const bool up = {before}(a, b);
        const {kind} less = up ? a : b, more = up ? b : a;
        const {kind} pivot = {before}(c, less) ? less : {before}(more, c) ? more : c;
        ptrdiff_t i = low, j = high;
        for (;; i++, j--) {{
            while ({before}(row[i], pivot)) i++;
            while ({before}(pivot, row[j])) j--;
            if (i >= j) break;
            const {kind} one = row[i];
            row[i] = row[j];
            row[j] = one;
        }}
        if (place <= j) high = j;
        else low = j + 1;
    }}
    return row[place];
}}"""


@dataclass(frozen=True)
class SortCode:
    """One kind of sorting."""

    kind: str
    """The C type of values."""
    descending: bool
    order: bool
    """Whether places are moved in place of values."""
    is_float: bool

    @property
    def suffix(self) -> str:
        return f"{'down' if self.descending else 'up'}_{self.kind}"

    @property
    def name(self) -> str:
        return f"{'order' if self.order else 'sort'}_{self.suffix}"

    @property
    def select(self) -> str:
        """The function that finds what is at one place."""
        return f"select_{self.suffix}"

    @property
    def moved(self) -> str:
        """The C type of what is moved."""
        return "ptrdiff_t" if self.order else self.kind

    @property
    def before(self) -> str:
        """The function that compares; NaN is the largest."""
        a, b = ("b", "a") if self.descending else ("a", "b")
        test = f"{a} < {b}" + (f" || ({b} != {b} && {a} == {a})" if self.is_float else "")
        return _BEFORE.format(suffix=self.suffix, kind=self.kind, test=test)

    @property
    def code(self) -> str:
        """The function that sorts, which calls `before`."""

        def key(text: str) -> str:
            return f"keys[{text}]" if self.order else text

        return _SORT.format(
            moved=self.moved, name=self.name, suffix=self.suffix,
            parameter=f", const {self.kind} *keys" if self.order else "",
            one=key("one"), last=key("row[j - 1]"), right=key("row[j]"), left=key("row[i]"),
        )  # fmt: skip

    @property
    def selection(self) -> str:
        """The function that finds what is at one place, which calls `before`."""
        before = f"before_{self.suffix}"
        return _SELECT.format(kind=self.kind, name=self.select, before=before)


def sort_codes(used: set[str]) -> list[str]:
    """Of all functions named in `used`."""
    found: list[str] = []
    for name in sorted(used):
        stem, _, rest = name.partition("_")
        way, _, kind = rest.partition("_")
        if stem in ("before", "order", "select", "sort") and way in ("up", "down"):
            sort = SortCode(kind, way == "down", stem == "order", kind in ("float", "double"))
            codes = {"before": sort.before, "select": sort.selection}
            found.append(codes.get(stem, sort.code))
    return found

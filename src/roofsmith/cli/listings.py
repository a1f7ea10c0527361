"""What `roofsmith listing` prints: code for a pager, or one JSON object."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

from roofsmith.app import Listed
from roofsmith.cli.output import print_json, print_lines, write_file
from roofsmith.report import format as fmt


def listed(found: Listed, *, out: Path | None, as_json: bool) -> None:
    """Show a listing, or write it to a file.

    Raises:
        StorageError: the file can't be written.
    """
    for note in found.notes:
        print(f"roofsmith: {note}", file=sys.stderr)
    if out is not None:
        write_file(out, found.text)
    if as_json:
        print_json({**asdict(found), "file": None if out is None else str(out)})
    elif out is None:
        print_lines([fmt.visible(found.text)])
    else:
        print_lines([f"{found.kind}: {fmt.plural(len(found.text.splitlines()), 'line')} in {out}"])

"""What `verify` holds a record's statements as, whichever module recomputes them."""

from __future__ import annotations

Claim = tuple[str, object, object]
"""Its name, what is recorded, and what follows."""

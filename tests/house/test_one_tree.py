"""The alias for a JSON object is defined once."""

from __future__ import annotations

import re
from pathlib import Path

SOURCES = Path(__file__).parents[2] / "src" / "oarlock"


def test_only_meta_defines_tree() -> None:
    definitions = [
        str(path.relative_to(SOURCES))
        for path in SOURCES.rglob("*.py")
        if re.search(r"^Tree\b.*=", path.read_text(), re.MULTILINE)
    ]
    assert definitions == ["meta/json_trees.py"]

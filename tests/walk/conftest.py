"""Puts this folder on the path, so that tests can import `walk_kit`, what they all walk with."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

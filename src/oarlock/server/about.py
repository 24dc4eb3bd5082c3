"""The version of this program."""

from __future__ import annotations

VERSION = "0.1.0"
"""The build reads it here, so that a server needn't search for what is installed."""

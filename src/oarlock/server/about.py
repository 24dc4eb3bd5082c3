"""The name and version of this program."""

from __future__ import annotations

from importlib import metadata

__all__ = ["own_version"]


def own_version() -> str:
    """The installed version; ``0.0.0`` when the source is run without being installed."""
    try:
        return metadata.version("oarlock")
    except metadata.PackageNotFoundError:
        return "0.0.0"

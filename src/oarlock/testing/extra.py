"""The error for parts of the test kit that need packages of the extra ``testing``."""

from __future__ import annotations

__all__ = ["missing"]


def missing(part: str, error: ModuleNotFoundError) -> ModuleNotFoundError:
    """The error to raise instead of `error`: which package is missing, and how to install it."""
    text = f"{part} needs {error.name}, which isn't installed: pip install 'oarlock[testing]'"
    return ModuleNotFoundError(text, name=error.name)

"""What to say where a part of the test kit needs a package that only the extra ``testing`` brings."""

from __future__ import annotations

__all__ = ["missing"]


def missing(part: str, error: ModuleNotFoundError) -> ModuleNotFoundError:
    """The error to raise instead of `error`: what needs the package, and how to get it."""
    text = f"{part} needs {error.name}, which isn't installed: pip install 'oarlock[testing]'"
    return ModuleNotFoundError(text, name=error.name)

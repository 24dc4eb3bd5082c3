"""Compiled Python files, the same bytes each time: a read-only image has no place to put those that Python would write.

They are of the kind that is used without a look at its source (PEP 552). Source: PEP 3147, the names.
"""

from __future__ import annotations

import importlib.util
import marshal
import sys

__all__ = ["compiled", "compiled_name"]

_UNCHECKED_HASH = (1).to_bytes(4, "little")
_WITHOUT_REFERENCES = 2
"""Later versions of the format depend on which constants happen to be the same object."""


def compiled(source: bytes, name: str) -> bytes | None:
    """The compiled file for `source`, which tracebacks call `name`; None if it can't be compiled, as some templates."""
    try:
        code = compile(source, name, "exec", dont_inherit=True, optimize=0)
    except (SyntaxError, ValueError):
        return None
    head = importlib.util.MAGIC_NUMBER + _UNCHECKED_HASH + importlib.util.source_hash(source)
    try:
        return head + marshal.dumps(code, _WITHOUT_REFERENCES)
    except ValueError:  # Python 3.14 makes constants of slices, for which this format has no form
        return None


def compiled_name(name: str) -> str:
    """Where Python looks for the compiled file of ``folder/module.py``."""
    folder, slash, file = name.rpartition("/")
    return f"{folder}{slash}__pycache__/{file.removesuffix('.py')}.{sys.implementation.cache_tag}.pyc"

"""`lazy_names`: the names of a package, each loaded with its module when it is first used.

Must not know: which packages. See also: ``oarlock`` and ``oarlock.testing``, which do the same without importing even
this, because every run of pytest on a machine with oarlock loads them.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping


def lazy_names(
    package: str, where: Mapping[str, str], root: str = ""
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """The ``__getattr__`` and ``__dir__`` of `package` (PEP 562). `where` has names, with spaces, by their module.

    Modules are below `root`, or else below the package.

    Define them where type checkers don't look: a visible ``__getattr__`` would make them accept any name.
    """
    module_of = {name: module for module, names in where.items() for name in names.split()}

    def get(name: str) -> object:
        module = module_of.get(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found: object = getattr(importlib.import_module(f"{root or package}.{module}"), name)
        setattr(sys.modules[package], name, found)
        return found

    def names() -> list[str]:
        return sorted(sys.modules[package].__all__)

    return get, names

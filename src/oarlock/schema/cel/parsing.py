"""Text → `ast`, by the parser of cel-expr-python: the one module that knows it.

The library is loaded when the first rule is parsed. What it parses it gives as a serialized
``cel.expr.ParsedExpr``, which `wire` reads. Its checker and its evaluator aren't used: they can't compare an int
with a double, stop at 10,000 elements and count no cost. Next: `wire`, `checker`.
Source: cel-spec grammar; cel-go's macros and those of Kubernetes' base environment.
"""

from __future__ import annotations

import importlib
import re
from functools import lru_cache
from typing import Any

from oarlock.schema.cel.ast import Expr
from oarlock.schema.cel.problems import CompileError, MissingEngine
from oarlock.schema.cel.wire import read_parsed

__all__ = ["MAX_SOURCE", "available", "parse"]

MAX_SOURCE = 100_000
"""Code points of one expression; the parser takes no more."""

_EXTENSIONS = "extensions:\n" + "".join(
    f"- name: {name}\n" for name in ("lists", "two-var-comprehensions", "optional", "strings", "sets", "bindings")
)
_STATUS = re.compile(r"^[A-Z_]+: |\s*\[[A-Z_]+\]$")
_NO_POSITION = re.compile(r"<input>:4294967295:0: ")


def available() -> bool:
    """Whether the parser is installed."""
    try:
        _environment()
    except MissingEngine:
        return False
    return True


@lru_cache(maxsize=1)
def _environment() -> Any:
    # 57 MB of library: only a declared rule is worth loading them
    try:
        cel = importlib.import_module("cel_expr_python.cel")
    except ImportError as error:
        raise MissingEngine("CEL rules need a parser: pip install 'oarlock[cel]'") from error
    return cel.NewEnv(config=cel.NewEnvConfigFromYaml(_EXTENSIONS))


def parse(source: str) -> Expr:
    """The tree of an expression. CompileError with place and caret; MissingEngine when there is no parser."""
    if len(source) > MAX_SOURCE:
        raise CompileError(f"expression size exceeds codepoint limit. input size: {len(source)}, limit: {MAX_SOURCE}")
    environment = _environment()
    try:
        source.encode()
    except UnicodeEncodeError as error:
        raise CompileError(f"ERROR: <input>:1:{error.start + 1}: the text isn't Unicode") from error
    try:
        data = environment.compile(source, disable_check=True).serialize()
    except (RuntimeError, UnicodeError) as error:
        raise CompileError(_NO_POSITION.sub("<input>:1:1: ", _STATUS.sub("", str(error)))) from error
    return read_parsed(data)

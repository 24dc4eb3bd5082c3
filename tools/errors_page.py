"""Writes docs/errors.md from the exception classes of the API: ``python tools/errors_page.py``."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import oarlock
from oarlock.meta import errors, fielderrors
from oarlock.meta.errors import StatusError
from oarlock.meta.fielderrors import FieldError

PAGE = Path(__file__).resolve().parents[1] / "docs" / "errors.md"

HEAD = """\
# Errors

A request that fails is answered with a `Status` object. Its `code` is the HTTP status, and its `reason` is one of
Kubernetes' words, which clients test. (`tools/errors_page.py` generates this page.)

## Answers

Code in the server raises these exceptions: `from oarlock import errors`, then `raise errors.Conflict("out of date")`.
[Hooks](hooks.md) says what else may be raised there. oarlock's own client raises the same classes for an answer with
this code and reason ([clients](clients.md)).

| exception | code | reason | |
|---|---|---|---|
"""

FIELDS = """\

## Errors in fields

An answer of 422 names each wrong field in `details.causes`: its path in `field`, the kind of mistake in `reason`, and a
text in `message`. `validate` yields these. Names that aren't in `oarlock` are in `oarlock.meta.fielderrors`.

| class | reason | |
|---|---|---|
"""

REST = """\

## Errors of programs

| exception | raised |
|---|---|
| `oarlock.DeclarationError` | at import, for a mistake in a declaration: its place, and what to write instead |
| `oarlock.server.options.option.ConfigError` | for invalid values of a `ServerConfig`: one line for each |
| `oarlock.client.ClientConfigError` | for a kubeconfig that can't be used |
| `oarlock.client.TransportError` | for a request that got no answer |
| `oarlock.testing.LossyRoundTrip` | by `assert_round_trips`, for a version that loses something |

The commands of `oarlock` report an error in one line on stderr. The exit code is 2 for a wrong command line or
configuration file, and 1 for other errors. Ctrl-C ends a server with 0, and other commands with 130.
"""


def page() -> str:
    """The whole page."""
    return HEAD + "".join(_answers()) + FIELDS + "".join(_fields()) + REST


def _answers() -> Iterator[str]:
    for one in sorted(_below(StatusError, errors), key=lambda one: (one.code, one.__name__)):
        yield f"| `{one.__name__}` | {one.code} | `{one.reason}` | {_first_line(one)} |\n"


def _fields() -> Iterator[str]:
    for one in sorted(_below(FieldError, fielderrors), key=lambda one: one.__name__):
        name = one.__name__ if one.__name__ in oarlock.__all__ else f"fielderrors.{one.__name__}"
        yield f"| `{name}` | `{one.reason}` | {_first_line(one)} |\n"


def _below(base: type[Any], module: ModuleType) -> Iterator[type[Any]]:
    """The public classes of a module below another one."""
    for name, one in vars(module).items():
        if inspect.isclass(one) and issubclass(one, base) and one is not base and not name.startswith("_"):
            yield one


def _first_line(one: type[Exception]) -> str:
    """The first sentence of a docstring in Markdown, without the code that it begins with."""
    text = inspect.cleandoc(one.__doc__ or "").partition("\n\n")[0].replace("\n", " ")
    text = re.sub(r"^\d{3}:? ", "", text).replace("``", "`").replace("|", "\\|")
    return text[:1].upper() + text[1:]


if __name__ == "__main__":
    PAGE.write_text(page())

"""The public names and what they take, compared with the last release.

    python tools/public_names.py            what is gone or takes less than in the last release; exits with 1 then
    python tools/public_names.py --record   records the names of this checkout, for a release

The record is tests/house/public_names.json: for each name the parameters of the callable ("" is the class or function
itself), as they are written in Python, with `...` for a default. A test compares it with the checkout.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
import sys
from collections.abc import Iterator, Mapping
from inspect import Parameter
from pathlib import Path
from typing import Any

from oarlock.server.about import VERSION

RECORD = Path(__file__).resolve().parents[1] / "tests" / "house" / "public_names.json"
FACADES = (
    "oarlock",
    "oarlock.client",
    "oarlock.controllers",
    "oarlock.extend",
    "oarlock.testing",
    "oarlock_cluster.testing",
)
CLASS_KEYWORDS = {"__init_subclass__", "__declare__"}
CALLED_BY_SYNTAX = {"__call__", "__aenter__", "__enter__"}

Callables = dict[str, str]
"""The parameters by the name of a method; "" is the class or function itself, ``class`` the keywords of a subclass."""


def described() -> dict[str, Callables]:
    """Every public name of this checkout."""
    return {
        f"{facade}.{name}": dict(sorted(_callables(getattr(module, name))))
        for facade in FACADES
        for module in [importlib.import_module(facade)]
        for name in sorted(module.__all__)
    }


def broken(recorded: Mapping[str, Callables], now: Mapping[str, Callables]) -> Iterator[str]:
    """What a program written for the record would miss, a line each."""
    for name, callables in recorded.items():
        if name not in now:
            yield f"{name} is gone"
            continue
        for method, parameters in callables.items():
            what = f"{name}.{method}" if method else name
            if method not in now[name]:
                yield f"{what} is gone, or isn't callable any more"
            else:
                yield from (f"{what}: {problem}" for problem in _problems(parameters, now[name][method]))


def _callables(value: Any) -> Iterator[tuple[str, str]]:
    if inspect.isclass(value):
        made_by = getattr(value.__init__, "__module__", None) or ""
        if made_by.startswith("oarlock"):
            yield "", _parameters(value.__init__).partition("self, ")[2]
        elif made_by != "typing":  # which replaces the `__init__` of a protocol's class when it is first called
            yield "", _parameters(value)
        for name, method in inspect.getmembers(value, lambda one: inspect.isfunction(one) or inspect.ismethod(one)):
            ours = (getattr(method, "__module__", None) or "").startswith("oarlock")
            if ours and name in CLASS_KEYWORDS:
                yield "class", _parameters(method)
            elif ours and (not name.startswith("_") or name in CALLED_BY_SYNTAX):
                yield name, _parameters(method)
    elif inspect.isfunction(value):
        yield "", _parameters(value)


def _parameters(value: Any) -> str:
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return "*args, **kwargs"
    module = vars(sys.modules[getattr(value, "__module__", "builtins")])
    plain = [
        one.replace(annotation=Parameter.empty, default=Parameter.empty if one.default is Parameter.empty else ...)
        for parameter in signature.parameters.values()
        for one in _unpacked(parameter, module)
        if str(one) != "**unknown"  # they are named in an error
    ]
    return str(inspect.Signature(plain)).replace("=Ellipsis", "=...")[1:-1]


def _unpacked(parameter: Parameter, module: Mapping[str, Any]) -> Iterator[Parameter]:
    """The keywords that ``**keywords: Unpack[Keywords]`` stands for."""
    found = re.fullmatch(r"Unpack\[(\w+)\]", str(parameter.annotation))
    if found is None or found[1] not in module:
        yield parameter
        return
    keywords = module[found[1]]
    for name in sorted(keywords.__required_keys__ | keywords.__optional_keys__):
        default = Parameter.empty if name in keywords.__required_keys__ else ...
        yield Parameter(name, Parameter.KEYWORD_ONLY, default=default)


def _problems(before: str, after: str) -> Iterator[str]:
    """Why a call that the first parameters allow isn't allowed by the others."""
    old, new = (inspect.signature(eval(f"lambda {parameters}: 0")).parameters for parameters in (before, after))
    kinds = {one.kind for one in new.values()}
    places = [
        one.name for one in new.values() if one.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    ]
    for at, one in enumerate(old.values()):
        if one.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD):
            if one.kind not in kinds:
                yield f"doesn't take {one} any more"
            continue
        found = new.get(one.name)
        if one.kind is Parameter.POSITIONAL_ONLY:
            found = new[places[at]] if at < len(places) else None
        if found is None:
            if not (one.kind is Parameter.KEYWORD_ONLY and Parameter.VAR_KEYWORD in kinds):
                yield f"doesn't take {one.name} any more"
            continue
        if one.default is not Parameter.empty and found.default is Parameter.empty:
            yield f"{one.name} has become required"
        if one.kind is Parameter.POSITIONAL_OR_KEYWORD and (found.kind is not one.kind or places.index(one.name) != at):
            yield f"{one.name} can't be given by its place any more"
    for one in new.values():
        if one.name not in old and one.default is Parameter.empty and one.kind is Parameter.KEYWORD_ONLY:
            yield f"{one.name} is new and required"
    if len(places) > len(old) and any(new[name].default is Parameter.empty for name in places[len(old) :]):
        yield "a new argument is required"


def main(arguments: list[str]) -> int:
    now = described()
    if arguments == ["--record"]:
        RECORD.write_text(json.dumps({"release": VERSION, "names": now}, indent=1) + "\n")
        return 0
    problems = list(broken(json.loads(RECORD.read_text())["names"], now))
    print(*problems, sep="\n", end="\n" if problems else "")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

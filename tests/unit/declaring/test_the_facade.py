"""``import oarlock`` is light, and every name it lists is there."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import oarlock

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


def fresh(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize("use", ["pass", "oarlock.Resource, oarlock.Model, oarlock.Spoke, oarlock.Ge, oarlock.JSON"])
def test_declaring_types_loads_no_server(use: str) -> None:
    code = (
        f"import sys, oarlock\n{use}\nprint([m for m in ('asyncio', 'ssl', 'socket', 'logging') if m in sys.modules])"
    )
    assert fresh(code) == "[]"


def test_importing_the_example_types_loads_no_server() -> None:
    code = (
        f"import sys; sys.path[:0] = {str(EXAMPLES)!r}, {str(EXAMPLES / 'hello' / 'src')!r}\n"
        "import wardle.api.v1alpha1, hello.api.v1.foo\n"
        "print([m for m in sys.modules if m in ('asyncio', 'ssl') or m.startswith(('oarlock.re', 'oarlock.se'))])"
    )
    assert fresh(code) == "[]"


@pytest.mark.parametrize("name", oarlock.__all__)
def test_every_listed_name_is_there(name: str) -> None:
    found = getattr(oarlock, name)
    assert found is getattr(oarlock, name)
    assert name in dir(oarlock)


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Modle'"):
        _ = oarlock.Modle  # type: ignore[attr-defined]
    with pytest.raises(ImportError):
        importlib.import_module("oarlock.nothing")


def test_the_list_is_sorted_and_without_repetition() -> None:
    assert len(set(oarlock.__all__)) == len(oarlock.__all__)

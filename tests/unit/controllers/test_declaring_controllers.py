"""A mistake in a controller's class is told when it is defined, with what to write instead."""

from __future__ import annotations

import re
from typing import Any

import pytest
from fleet import Boat, Ship

from oarlock import DeclarationError
from oarlock.controllers import Controller, ControllerGroup, ObjectKey, Result, Watched

RECONCILE = "    async def reconcile(self, key): ...\n"

MISTAKES = {
    f"class A(Controller):\n{RECONCILE}": "class A: a controller of what? (write class A(Controller[YourResource]))",
    f"class A(Controller[int]):\n{RECONCILE}": "class A: <class 'int'> is no kind (a declared class, or a text",
    f"class A(Controller[dict], of='Deployment'):\n{RECONCILE}": "class A: 'Deployment' isn't a kind: write group/",
    "class A(Controller[Ship]): pass": "class A: there is no reconcile (write async def reconcile(self, key: Obj",
    "class A(Controller[Ship]):\n    def reconcile(self, key): ...": "A.reconcile: isn't async (write async def reconc",
    "class A(Controller[Ship]):\n    async def reconcile(self): ...": "A.reconcile: has other parameters than it is c",
    f"class A(Controller[Ship]):\n{RECONCILE}    async def finalise(self, obj): ...": "did you mean 'finalize'?; a",
    f"class A(Controller[Ship]):\n{RECONCILE}    async def finalize(self, obj): ...": "has finalize and no finalizer=…",
    f"class A(Controller[Ship], finalizer='a.b/c'):\n{RECONCILE}": "has finalizer=… and no finalize (write both",
    f"class A(Controller[Ship], finalizer='mine'):\n{RECONCILE}": "finalizer='mine' (write finalizer=\"your.domain/",
    f"class A(Controller[Ship], concurrency=0):\n{RECONCILE}": "class A: concurrency=0 (a number from 1 to 1000)",
    f"class A(Controller[Ship], timeout_s=0):\n{RECONCILE}": "class A: timeout_s=0 (a number of seconds)",
    f"class A(Controller[Ship], name='A B'):\n{RECONCILE}": "class A: name='A B' (lower case letters, digits and '-'",
    f"class A(Controller[Ship], owns=Boat):\n{RECONCILE}": "class A: owns=Boat isn't a list (write owns=[Boat])",
    f"class A(Controller[Ship], owns=[int]):\n{RECONCILE}": "class A, owns: <class 'int'> is no kind",
    f"class A(Controller[Ship], watches=[Boat]):\n{RECONCILE}": "write watches=[Watched(Kind, to=function)]",
    f"class A(Controller[Ship], watches=[Watched(Boat, to='x')]):\n{RECONCILE}": "watches say to='x', and there is no",
    f"class A(Controller[Ship], when=3):\n{RECONCILE}": "class A: when=3 (a function of the old and the new object)",
}


@pytest.mark.parametrize("source", MISTAKES)
def test_a_mistake_is_told(source: str) -> None:
    names: dict[str, Any] = {"Ship": Ship, "Boat": Boat, "Controller": Controller, "Watched": Watched}
    with pytest.raises(DeclarationError) as caught:
        exec(compile(source, "mine.py", "exec"), {**names, "__name__": "mine"})
    assert MISTAKES[source] in str(caught.value)
    assert re.match(r"mine\.py:\d+: ", str(caught.value))


class Base(Controller[Ship], concurrency=3):
    async def reconcile(self, key: ObjectKey) -> Result | None:
        return None


def test_options_are_inherited_and_names_are_not() -> None:
    class Mine(Base, timeout_s=5):
        def _helper(self) -> None: ...

    assert (Mine.__options__.concurrency, Mine.__options__.timeout_s, Mine().name) == (3, 5, "mine")
    assert Mine.__kind__ is Ship


@pytest.mark.parametrize(
    ("controllers", "message"),
    [
        ([Base], "Base is a class (write Base())"),
        ([], "[] isn't a list of controllers"),
        ([3], "3 isn't a Controller"),
        (Base(), "isn't a list of controllers (write [YourController()])"),
        ([Base(), Base()], 'two are called base (say name="…" on one of the classes)'),
    ],
)
def test_a_group_takes_controllers(controllers: Any, message: str) -> None:
    with pytest.raises(DeclarationError, match=re.escape(message)):
        ControllerGroup(controllers)

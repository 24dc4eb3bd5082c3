"""Nothing is lost between the versions of any resource that an example or a walk declares.

Objects are made up for each version beside the hub, with everything its schema allows, and sent there and back.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path

import pytest
from apply_kit import Barge, OldBarge
from walk_kit import everything

from oarlock import APIServer
from oarlock.testing import assert_round_trips

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def example(name: str) -> APIServer:
    server: APIServer = importlib.import_module(f"{name}.server").server
    return server


@pytest.mark.parametrize(
    ("served", "travellers"),
    [
        (lambda: example("wardle"), {"flunders"}),
        (lambda: example("hello"), {"foos"}),
        (everything, {"boats"}),
        (lambda: APIServer(serve=[Barge, OldBarge]), {"barges"}),
    ],
    ids=["wardle", "hello", "the fleet", "the canal"],
)
def test_nothing_is_lost_on_the_way(
    served: Callable[[], APIServer], travellers: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.syspath_prepend(str(EXAMPLES / "hello" / "src"))
    entries = served().catalog.entries
    several = {one.definition.names.plural for one in entries if len(one.definition.versions) > 1}
    assert several == travellers
    assert_round_trips(*entries)

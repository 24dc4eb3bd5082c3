"""Every exchange recorded with the Go sample server, sent to wardle in a process of its own, answers as recorded."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from recorded_exchanges import TOOL, Replayed, replay

ROOT = Path(__file__).resolve().parents[2]

NOT_SERVED = ("apply",)
"""How the description of an exchange begins that asks for a patch type which isn't served."""

SHOWS_WHAT_THOSE_STORED = {
    316: 291,  # patches what apply created
    317: 291,
    318: 291,
    319: 291,  # lists what apply created
    320: 291,  # watches the changes by apply go by
    334: 291,
    340: 291,
    344: 291,
    395: 291,
    398: 291,
    416: 291,  # says how many writes the store has seen
    417: 291,
}
"""Exchanges that show what another one stored, with the exchange they depend on."""

MOST_DIFFERENCES = 8


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> Replayed:
    if not TOOL.exists():
        pytest.skip("the replay tool and its recording are not beside this checkout")
    return replay(tmp_path_factory.mktemp("replay"))


@pytest.mark.slow
@pytest.mark.timeout(360)
def test_every_exchange_is_answered_as_recorded(replayed: Replayed) -> None:
    expected = set(SHOWS_WHAT_THOSE_STORED) | differences()
    not_served = {number for number, one in replayed.exchanges.items() if str(one["desc"]).startswith(NOT_SERVED)}
    assert len(replayed.exchanges) > 200
    unexpected = sorted(replayed.failed - expected - not_served)
    assert not unexpected, f"answered otherwise than recorded: {unexpected}\n{replayed.printed}"
    agreed = sorted(expected - replayed.failed)
    assert not agreed, f"answered as recorded after all, and still listed as if not: {agreed}"


def test_each_dependence_is_on_an_exchange_that_is_not_served(golden: list[dict[str, object]]) -> None:
    described = {int(str(one["id"])): str(one["desc"]) for one in golden}
    for number, cause in SHOWS_WHAT_THOSE_STORED.items():
        assert cause < number
        assert described[cause].startswith(NOT_SERVED), json.dumps([number, cause, described[cause]])


def test_deliberate_differences_are_few() -> None:
    assert len(differences()) <= MOST_DIFFERENCES


def differences() -> set[int]:
    """The exchanges in the first column of the table in docs/differences.md."""
    document = (ROOT / "docs" / "differences.md").read_text()
    return {int(number) for number in re.findall(r"^\| *(\d+) *\|", document, re.MULTILINE)}

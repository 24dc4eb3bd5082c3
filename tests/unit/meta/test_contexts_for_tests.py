"""A context for calling a hook in a test says what the test says, and stands still."""

from __future__ import annotations

from oarlock import Context, Target, User
from oarlock.testing.clock import VirtualClock


def test_a_context_needs_nothing() -> None:
    ctx = Context.for_test()
    assert (ctx.user.name, ctx.target.verb, ctx.dry_run) == ("tester", "create", False)
    assert ctx.clock.now() == VirtualClock().now()
    assert ctx.clock.monotonic() <= ctx.deadline
    ctx.warn("careful")
    assert ctx.notes.warnings == ("careful",)
    assert Context.for_test().notes.warnings == ()


def test_a_context_says_what_it_is_told() -> None:
    clock, target = VirtualClock(), Target("update", "g", "v1", "boats", name="a")
    ctx = Context.for_test(user=User("u", groups=("g",)), target=target, clock=clock, dry_run=True, options=1)
    assert (ctx.user.groups, ctx.target, ctx.clock, ctx.dry_run, ctx.options) == (("g",), target, clock, True, 1)
    assert Context.for_test(user="anna").user == User("anna")

"""`RequestState`: one request on its way through the filters, with what they have found out so far.

The filters of ``server.chain`` fill it, the verb reads it and makes the immutable `Context` for the packages below,
which never see a RequestState.
"""

from __future__ import annotations

from typing import Any

from oarlock.endpoints.http import Request
from oarlock.endpoints.unsent import UNLIMITED, Unsent
from oarlock.meta.context import Clock, Context, Notes, Target, User

__all__ = ["ANONYMOUS", "RequestState"]

ANONYMOUS = User("system:anonymous", groups=("system:unauthenticated",))
NO_TARGET = Target("")


class RequestState:
    """The state of a request. `deadline` is in monotonic seconds; `route` is set and used by the router.

    `unsent` is the process's budget of bytes that wait for slow clients.
    """

    __slots__ = ("audit_id", "clock", "deadline", "notes", "request", "route", "target", "unsent", "user")

    def __init__(self, request: Request, clock: Clock, unsent: Unsent = UNLIMITED) -> None:
        self.request = request
        self.unsent = unsent
        self.clock = clock
        self.audit_id = ""
        self.target = NO_TARGET
        self.user = ANONYMOUS
        self.deadline = float("inf")
        self.notes = Notes()
        self.route: Any = None

    def context(self, *, target: Target | None = None, options: Any = None, dry_run: bool = False) -> Context:
        """The immutable facts of this request for the packages below."""
        return Context(
            user=self.user,
            target=target or self.target,
            clock=self.clock,
            options=options,
            dry_run=dry_run,
            audit_id=self.audit_id,
            deadline=self.deadline,
            notes=self.notes,
            user_agent=self.request.headers.get("user-agent", ""),
        )

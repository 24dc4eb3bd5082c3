"""`WebhookServer`: answers the reviews of a cluster about objects that it keeps, with the code of declared resources.

It is a server like others (TLS, limits, metrics, audit), which serves no resource and keeps nothing. Clusters ask
webhooks without credentials unless they are told to, so anybody may ask it unless `anonymous_paths` is given.
See also: `pages`, the answers; ``oarlock webhooks``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from oarlock.apps.api_server import DEFAULT_NAME, APIServer
from oarlock.apps.webhooks.pages import REVIEW_PATHS, ReviewPages
from oarlock.client.client import Client
from oarlock.controllers.running.sources import FollowedObjects
from oarlock.meta.kinds import BUILT_IN_GROUPS
from oarlock.policy.admission.webhooks.answering import AdmissionReviews
from oarlock.registry.served import Served
from oarlock.registry.write.review import ReviewedResource
from oarlock.server.assembly.own_work import Runnable
from oarlock.server.config import ServerConfig
from oarlock.server.description import ReferringObject, UserCode

PROBES = ("/healthz", "/livez", "/readyz")

MAX_REVIEW_BYTES = 64 * 1024 * 1024
"""A review of admission has two objects, one of conversion those of a whole list."""


def reviewed(resources: Iterable[Served]) -> list[Served]:
    """The resources of which a cluster may keep the objects: stored ones of a user's own groups."""
    return [served for served in resources if served.virtual is None and served.definition.group not in BUILT_IN_GROUPS]


def not_in_webhooks(served: Served) -> Iterator[str]:
    """What of a resource's code no webhook can carry out, a line each."""
    hooks = served.hooks
    if hooks.mark_deleted is not None:
        yield "mark_deleted: no webhook may change an object that is being deleted"
    if hooks.reserve is not None:
        yield "reserve: a webhook isn't told whether the object was stored"
    if hooks.grace_s is not None:
        yield "grace periods: a cluster removes custom resources at once"
    below = sorted({*hooks.subresources, *hooks.parts})
    if below:
        yield f"subresources of its own: {', '.join(below)}"
    if served.definition.initializers:
        yield "initializers: objects are seen at once"


def is_converted(served: Served) -> bool:
    """Whether a cluster has to ask how objects of one version look in another."""
    return len(served.definition.versions) > 1 and not served.converter.alike


class WebhookServer(APIServer):
    """Answers reviews about `resources`, with the plugins and informers in `code`.

    `connect` makes a client of the cluster that has what informers follow. `controllers` run beside. By
    `referring_objects` the cluster finds it.
    """

    def __init__(
        self,
        *,
        resources: Sequence[Served],
        code: UserCode,
        connect: Callable[[], Client],
        controllers: Sequence[Runnable] = (),
        name: str = DEFAULT_NAME,
        referring_objects: Sequence[ReferringObject] = (),
    ) -> None:
        followed = FollowedObjects(code.informers, connect)
        runnables = [*([followed] if code.informers else ()), *controllers]
        super().__init__(serve=[], controllers=runnables, on_stop=self._close, name=name)
        self.resources = ReviewedResource.all_of(resources)
        reviews = AdmissionReviews(self.resources, code.admission, self.admission_counts)
        self.pages = (ReviewPages(self.resources, reviews, followed.complete),)
        self.start_conditions = {"informers": followed.complete}
        self._referring_objects = referring_objects
        self.work = f"reviews at {', '.join(REVIEW_PATHS)}"

    async def _close(self, client: Client) -> None:
        for resource in self.resources:
            await resource.close()

    def told_by(self) -> Sequence[ReferringObject]:
        return self._referring_objects

    def configured(self, config: ServerConfig) -> ServerConfig:
        default = ServerConfig()
        largest = config.max_request_bytes
        return replace(
            config,
            storage=config.storage if self.storage is not None else "memory://",
            anonymous_paths=config.anonymous_paths or (*PROBES, *REVIEW_PATHS),
            authorization_always_allow_paths=config.authorization_always_allow_paths or (*PROBES, *REVIEW_PATHS),
            max_request_bytes=MAX_REVIEW_BYTES if largest == default.max_request_bytes else largest,
        )

"""`ReviewPages`: the paths at which reviews of a cluster are answered.

See also: ``policy.admission.webhooks.answering``; ``apps.crds.conversion_review``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Final

from oarlock.apps.crds.conversion import AskedConversion, asked_conversion
from oarlock.endpoints.http import Response
from oarlock.endpoints.request_state import RequestState
from oarlock.endpoints.respond import JSON
from oarlock.meta.errors import BadRequest, MethodNotAllowed, ServiceUnavailable, StatusError
from oarlock.meta.fielderrors import FieldError
from oarlock.meta.json_trees import Tree
from oarlock.meta.kinds import GroupVersion
from oarlock.policy.admission.webhooks.answering import AdmissionReviews
from oarlock.registry.write.review import ReviewedResource

MUTATE: Final = "/mutate"
VALIDATE: Final = "/validate"
CONVERT: Final = "/convert"
REVIEW_PATHS: Final = (MUTATE, VALIDATE, CONVERT)


class ReviewPages:
    """Answers `reviews`, and converts objects of `resources`, once it is `ready`."""

    paths = REVIEW_PATHS

    def __init__(
        self, resources: Iterable[ReviewedResource], reviews: AdmissionReviews, ready: Callable[[], bool]
    ) -> None:
        self._by_kind = {
            (resource.definition.group, resource.definition.names.kind): resource for resource in resources
        }
        self._reviews = reviews
        self._ready = ready

    async def respond(self, state: RequestState) -> Response | None:
        """The answer, None for a path that isn't in `paths`. Raises BadRequest, ServiceUnavailable."""
        path = state.request.path
        if path not in self.paths:
            return None
        if state.request.method != "POST":
            raise MethodNotAllowed()
        if not self._ready():
            raise ServiceUnavailable("what hooks read of the cluster isn't known yet: try again", retry_after_s=1)
        data = await state.request.read()
        match path:
            case "/mutate":
                body = await self._reviews.answer("mutate", data, state.context())
            case "/validate":
                body = await self._reviews.answer("validate", data, state.context())
            case _:
                body = await self._convert(data)
        return Response(200, [("content-type", JSON)], body)

    async def _convert(self, data: bytes) -> bytes:
        review = asked_conversion(data)
        try:
            return review.answer(await self._converted(review))
        except (StatusError, FieldError) as error:
            return review.failure(str(error))

    async def _converted(self, review: AskedConversion) -> list[Tree]:
        """The objects in the version that is asked for, in the order of those given."""
        places: dict[tuple[str, str], list[int]] = defaultdict(list)
        for at, tree in enumerate(review.trees):
            places[str(tree.get("kind")), str(tree.get("apiVersion"))].append(at)
        result: list[Tree] = [*review.trees]
        for (kind, api_version), those in places.items():
            resource = self._by_kind.get((review.group, kind))
            if resource is None:
                raise BadRequest(f"{kind}.{review.group} isn't known here")
            definition = resource.definition
            given = GroupVersion.parse(api_version)
            before = definition.version_in(given.group, given.version)
            after = definition.version_in(review.group, review.to_version)
            for version in (before, after):
                if version not in resource.compiled:
                    raise BadRequest(f"{definition.names.plural}.{definition.group} has no version {version}")
            made = await resource.converted([review.trees[at] for at in those], before, after)
            for at, tree in zip(those, made, strict=True):
                result[at] = tree
        return result

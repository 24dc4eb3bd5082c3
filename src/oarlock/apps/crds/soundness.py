"""What can be wrong with a stored CustomResourceDefinition although it was accepted, by this server or by another.

See also: ``controllers.definitions.status``, which tells it.
"""

from __future__ import annotations

import ssl

from oarlock.apps.kinds.apiextensions import CustomResourceDefinition
from oarlock.net.trust import trusting
from oarlock.schema.structural.nodes import SchemaError, parse
from oarlock.schema.structural.rules import structural_errors

__all__ = ["has_sound_ca", "structural_mistakes"]

_MOST_TOLD = 10


def has_sound_ca(crd: CustomResourceDefinition) -> bool:
    """Whether the CA of the conversion webhook, if it names one, has a certificate."""
    webhook = crd.spec.conversion.webhook if crd.spec.conversion is not None else None
    config = webhook.client_config if webhook is not None else None
    if config is None or not config.ca_bundle:
        return True
    try:
        trusting(config.ca_bundle)
    except (ValueError, ssl.SSLError):
        return False
    return True


def structural_mistakes(crd: CustomResourceDefinition) -> str:
    """Why the schemas of a definition aren't structural; empty if they are."""
    found: list[str] = []
    for at, version in enumerate(crd.spec.versions or ()):
        path = f"spec.versions[{at}].schema.openAPIV3Schema"
        schema = None if version.validation is None else version.validation.open_api_v3_schema
        try:
            found += [error.message for error in structural_errors(parse(schema, path), path, complete=False)]
        except SchemaError as error:
            found.append(str(error))
    more = f", and {len(found) - _MOST_TOLD} more" if len(found) > _MOST_TOLD else ""
    return ", ".join(found[:_MOST_TOLD]) + more

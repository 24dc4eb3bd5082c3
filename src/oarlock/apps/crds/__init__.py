"""Resources that are defined by objects: CustomResourceDefinitions.

`definitions` is what is stored, `resources` makes of it what is served, `conversion` asks the webhooks of definitions.
The controllers that keep the catalog and the status of definitions are in ``apps.controllers.definitions``.
"""

from __future__ import annotations

"""Kubernetes' own kinds: where one is declared, all that belongs to it is found.

A kind whose type comes from a release's data has a `KindDeclaration` in its group's module (``core`` and ``batch`` have
a file for each kind): names, columns, defaults, first status, rules and cells. To add one, declare it there and list it
in the group's ``KINDS``; to add a rule, add it to the kind's ``_validate``. What several kinds share is in ``common``,
what pods and templates of pods share in ``pods``. A kind with a class is declared as a user declares one, in a module
for each group; its code is a collection in the app that serves it. Importing these loads no server. Class names are
Kubernetes'. See also: `declaration`; ``serving``; ``controlplane``.
"""

from __future__ import annotations

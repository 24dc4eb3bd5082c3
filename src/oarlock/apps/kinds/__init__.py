"""Kubernetes' own kinds: where one is declared, all that belongs to it is found.

A kind whose type comes from a release's data is one file ``<group>/<kind>.py`` with its `KindDeclaration`: names,
columns, defaults, first status, rules and cells. To add one, write such a file and list it in the group's ``KINDS``; to
add a rule, add it to the file's ``_validate``. What several kinds share is in ``common``, what pods and templates of
pods share in ``pods``. A kind with a class is declared as a user declares one, in a module for each group; its code is
a collection in the app that serves it. Importing these loads no server. Class names are Kubernetes'.
See also: `declaration`; ``serving``; ``controlplane``.
"""

from __future__ import annotations

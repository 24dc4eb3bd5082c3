"""Kubernetes' own kinds, declared as a user declares kinds: one module a group, types and columns, nothing else.

The code that belongs to a kind is a collection in the app that serves it. Importing these loads no server.
Class names are Kubernetes'. See also: ``controlplane``.
"""

from __future__ import annotations

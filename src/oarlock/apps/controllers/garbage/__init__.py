"""Garbage collection: objects go with the last of their owners.

`graph` knows who owns what, `followed` fills it from everything that is served, `collector` decides and acts,
`owner_permissions` is the admission plugin about it. Source: Kubernetes' garbage collector, in behaviour.
"""

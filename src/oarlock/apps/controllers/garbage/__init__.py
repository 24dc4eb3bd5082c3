"""Garbage collection: objects go with the last of their owners.

`followed` watches everything that is served, `collector` decides and acts, `owners_admission` is the admission plugin
about it. Source: Kubernetes' garbage collector, in behaviour.
"""

"""Controllers of workloads, by the names that kube-controller-manager has for them.

Each is a module with a pure core, which says what is to be done, and a `Controller` that does it.
"""

"""Passes over a tree before it is validated: defaults, pruning, nulls and numbers."""

"""The roles and bindings that every control plane has, as data. Read `bootstrap_roles` first."""

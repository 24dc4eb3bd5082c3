"""Objects that every control plane has, and what brings them back."""

"""Default roles, and roles whose rules are those of others."""

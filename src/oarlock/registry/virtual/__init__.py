"""Objects that a user's methods keep or compute. Read `resource` first."""

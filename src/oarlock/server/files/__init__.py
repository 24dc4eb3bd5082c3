"""Files that a server reads again when they change, and those that it makes for itself."""

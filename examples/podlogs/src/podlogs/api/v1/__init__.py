"""podlogs.example.com/v1."""

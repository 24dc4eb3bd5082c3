"""web.example.com/v1."""

"""db.example.com/v1."""

"""warehouse.example.com/v1."""

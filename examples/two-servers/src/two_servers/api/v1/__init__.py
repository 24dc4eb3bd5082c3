"""shop.example.com/v1."""

"""db.example.com/v1beta1."""

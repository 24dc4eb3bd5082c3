"""restaurant.example.com/v1beta1."""

"""restaurant.example.com/v1alpha1."""

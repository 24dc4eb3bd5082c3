"""Pages beside the API: health checks, debugging, the keys of the token issuer."""

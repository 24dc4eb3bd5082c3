"""TLS of a listener, and the certificates it is given or makes."""

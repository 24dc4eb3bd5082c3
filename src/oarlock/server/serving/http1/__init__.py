"""HTTP/1.1 and 1.0. Read `connection` first."""

"""``oarlock doctor``: says why an APIService of a cluster isn't available, and what to do."""

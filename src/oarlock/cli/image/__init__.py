"""``oarlock image``: an OCI image of a server, written without a container engine."""

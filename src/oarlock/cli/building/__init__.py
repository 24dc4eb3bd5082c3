"""``oarlock build``: what a server is shipped as, from the project that the working directory is in."""

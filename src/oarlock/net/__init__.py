"""How another machine is reached: where it is, and whom one believes there. Knows nothing of Kubernetes."""

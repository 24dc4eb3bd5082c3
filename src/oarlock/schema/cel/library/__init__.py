"""The functions of CEL and of Kubernetes, their types and costs. Read `functions` first."""

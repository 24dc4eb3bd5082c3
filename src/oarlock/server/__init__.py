"""One process: the chain every request passes, what is listened on, how it starts, how it leaves.

The only floor that opens sockets, reads the environment and starts long-lived tasks.
Next: `chain`, the order of filters; `app`, what users write; `run`, which puts a server together.
"""

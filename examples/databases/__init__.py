"""The databases example: a control plane of one's own. README.md leads through it.

`api` says what users write, `controller` makes it so, `engines` stands for whatever runs databases, `server` lists what
is served.
"""

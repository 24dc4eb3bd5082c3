"""The wardle example: flunders that point at flunders or fischers, in two versions.

`api` says what there is, `flunders` and `admission` what the server does with it, `server` lists what is served.
"""

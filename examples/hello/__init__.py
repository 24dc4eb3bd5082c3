"""The hello example: foos in two versions that say the same in different places, and greetings nobody stores.

`api` says what there is, `foos` and `greetings` what the server does with it, `server` lists what is served.
"""

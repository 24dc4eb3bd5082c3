"""The pizza example: a kind in two versions, whose objects may name only toppings that there are.

`api` says what users write, `admission` what is refused, `server` lists what is served and has options of its own.
"""

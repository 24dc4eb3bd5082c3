"""The recipes of GET and LIST, selectors, and the results of recipes. Read `recipes` first."""

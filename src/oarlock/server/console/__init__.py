"""The console: what answers below `/console`, and in `assets` the files that `make console` makes."""

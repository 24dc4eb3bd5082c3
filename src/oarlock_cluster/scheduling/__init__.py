"""The scheduler: pure filters and scores over what nodes have, and the loop that binds pods."""

"""hello.zeng.dev/v1."""

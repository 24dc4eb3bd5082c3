"""hello.zeng.dev/v2."""

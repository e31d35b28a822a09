"""One compiled callable from its first call to its last."""

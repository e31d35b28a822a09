"""Values that the host does not have to wait for."""

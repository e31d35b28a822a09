"""Finding, reading and writing source; settings; suppressions; caches."""

"""A file a framework: a published configuration, random weights, the framework's own loop."""

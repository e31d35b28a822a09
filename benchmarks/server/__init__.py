"""``make bench-server``: the editor server in transformers as the workspace."""

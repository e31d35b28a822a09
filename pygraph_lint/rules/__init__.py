"""The catalogue of rules, and how events become findings."""

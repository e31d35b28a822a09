"""A truth on packages of other authors: functions, solvers, losses, samplers, policies."""

"""The workloads, one model to a file. Each file says what it stands for and where it differs from
the original.
"""

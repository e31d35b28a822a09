"""Thirty workloads that measure what CUDA graphs cost and gain: ``python -m
benchmarks.workloads.run``.
"""

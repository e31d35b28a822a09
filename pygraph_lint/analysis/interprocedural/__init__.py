"""What follows from all files together: the call graph, feasible call paths, what calls pass, and
the proof of what one file assumes about another.

May import facts of files (``program``) and what is below ``regions``.
"""

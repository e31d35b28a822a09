"""Names, and facts: what one file binds, defines and exports, and the program that all files are.

``names`` and ``module`` serve the run of one file; ``facts`` is what is left of it, and cached;
``program`` joins the facts of all files by qualified name. May import ``domain`` and what is below.
"""

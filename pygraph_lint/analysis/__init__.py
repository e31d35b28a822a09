"""What is true of the code that is checked, found with Python's ``ast`` alone.

Each package imports only itself and packages that stand before it:

``syntax``           questions about nodes of the syntax tree
``control_flow``     flow graphs, dominators, reaching definitions
``domain``           abstract values, events, tables of torch
``program``          names, modules, facts of a file, the program that all files are
``interpreter``      the abstract run of each function
``queries``          what rules and rewrites ask about a place
``loops``            what each step of a training loop costs
``capture``          CUDA graphs that are captured by hand
``interprocedural``  call graph, feasible paths, what calls pass, proof of needs
``regions``          which code is compiled, captured, or in a training loop

``extract`` makes the facts of one file of the first eight, ``link`` joins all files with the rest.
"""

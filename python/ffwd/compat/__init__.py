"""The calls that engines make of XGrammar, on this engine.

A program written for XGrammar runs after one import changed:

    import ffwd.compat.xgrammar as xgrammar

What this engine does not do raises `ffwd.Error` with the name of the argument.
"""

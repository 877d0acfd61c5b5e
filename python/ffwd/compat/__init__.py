"""The calls that engines make of XGrammar and llguidance, on this engine.

A program written for one of them runs after one import changed:

    import ffwd.compat.xgrammar as xgrammar
    import ffwd.compat.llguidance as llguidance

What this engine does not do raises `ffwd.Error` with the name of the argument.
"""

"""The engine: plans of stages and moves, bound to arrays and run by transfers.

layouts and options (spec) -> messages (messages) -> stages of moves (stages, plan)
-> bound to arrays of one kind (bound, operands) -> a use begins (use) -> moved (transfer)
"""

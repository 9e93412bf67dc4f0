"""What is done: plans of stages and moves, and their transfers.

layouts and options (spec) -> messages (messages, order) -> stages of moves (plan)
-> bound to arrays (operands) -> moved (transfer)
"""

"""What is done: plans of stages and moves, and their transfers.

descriptors -> moves (planner) -> stages -> bound to arrays of one kind (binding) -> moved (transfer)
"""

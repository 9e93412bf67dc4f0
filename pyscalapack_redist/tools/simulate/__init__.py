"""The engine's plans in a flow simulation of hosts and their links, for machines of any size."""

"""Redistributions on machines that are not there: the engine's plans in a flow simulation of hosts and their links."""

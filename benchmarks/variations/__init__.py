"""Suites in which one number varies, and what a batch gains. benchmarks/run_suites.py runs them."""

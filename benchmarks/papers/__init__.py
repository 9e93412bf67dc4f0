"""Suites that repeat the experiments of the papers. benchmarks/run_suites.py runs them."""
